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

/** 950 ms, 12 s, 3 min 20 s, 4 h 5 min, 2 d 3 h. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function ago(at: number, now: number): string {
  return now - at < 1500 ? "now" : `${duration(now - at)} ago`;
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

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
