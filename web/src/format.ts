// How numbers, times and parameters are written. Pure.

/** Four significant digits; scientific below 1e-3 and above 1e6. Missing values are a dash. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

/** A metric's value: four significant digits, zeros kept, so that a column's points stand below each other. */
export function measure(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e4 ? value.toPrecision(4) : number(value);
}

/** 0, 950 ms, 12 s, 3 min 20 s, 4 h, 2 d 3 h. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "–";
  if (ms === 0) return "0";
  if (ms < 1000) return `${Math.max(1, Math.round(ms))} ms`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}

function two(large: number, unit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smallUnit}`;
}

/** "just now", "12 s ago", "3 min ago", "2 d ago": one unit is what one wants to know. */
export function ago(at: number, now: number): string {
  const passed = now - at;
  if (passed < 2000) return "just now";
  const [amount] = duration(passed).match(/^\d+ \S+/) ?? [duration(passed)];
  return `${amount} ago`;
}

/** Day and time in full, for who wants to know exactly. */
export function moment(at: number): string {
  return new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

/** Done as a person counts: 0.83, 12. */
export function rounded(value: number): string {
  return number(Math.round(value * 100) / 100);
}

export function clock(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour12: false });
}

/** 1 -> "1", 0.5 -> "1/2": a width is devices or a part of one. */
export function width(devices: number): string {
  if (devices === 0) return "0";
  return devices < 1 ? `1/${Math.round(1 / devices)}` : String(devices);
}

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${count < 10 && unit > 0 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

export function value(parameter: unknown): string {
  return typeof parameter === "number" ? number(parameter) : String(parameter);
}

/** 1 trial, 2 trials, 10,000 trials. */
export function plural(count: number, noun: string): string {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** 10,000. */
export function whole(count: number): string {
  return count.toLocaleString("en");
}
