// What all charts share: axes with names, tooltips, colours from worst to best. Pure.
import type { EChartsCoreOption } from "echarts/core";
import { duration, number } from "../format";
import type { Tokens } from "./tokens";

/** Room for labels and names around the plot. */
export const GRID = { left: 62, right: 18, top: 14, bottom: 46 };

export interface AxisOptions {
  name: string;
  nameGap?: number;
  min?: number | string;
  max?: number | string;
  interval?: number;
  minInterval?: number;
  type?: "value" | "time";
  scale?: boolean;
  format?: (value: number) => string;
}

function axis(tokens: Tokens, { format, name, nameGap, type = "value", ...rest }: AxisOptions, vertical: boolean): EChartsCoreOption {
  return {
    type,
    name,
    nameLocation: "middle",
    nameGap: nameGap ?? (vertical ? 46 : 28),
    nameTextStyle: { color: tokens.soft, fontSize: 12 },
    axisLabel: { color: tokens.soft, fontSize: 11, hideOverlap: true, ...(format ? { formatter: format } : {}) },
    axisLine: { show: !vertical, lineStyle: { color: tokens.line } },
    axisTick: { show: false },
    splitLine: { show: vertical, lineStyle: { color: tokens.line } },
    ...rest,
  };
}

export function x(tokens: Tokens, options: AxisOptions): EChartsCoreOption {
  return axis(tokens, options, false);
}

export function y(tokens: Tokens, options: AxisOptions): EChartsCoreOption {
  return axis(tokens, { format: number, ...options }, true);
}

export function tooltip(tokens: Tokens, more: EChartsCoreOption): EChartsCoreOption {
  return {
    backgroundColor: tokens.card,
    borderColor: tokens.line,
    padding: [7, 11],
    textStyle: { color: tokens.text, fontSize: 12, fontFamily: tokens.font },
    confine: true,
    transitionDuration: 0,
    ...more,
  };
}

const SECOND = 1000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map(
  (s) => s * SECOND,
);

/** An axis of time passed, cut where people would: at 30 s or 5 min, not at 33,333 ms. */
export function passed(tokens: Tokens, name: string, until_ms: number): EChartsCoreOption {
  const max = Math.max(until_ms, SECOND);
  const interval =
    STEPS.find((step) => until_ms / step <= 7) ?? Math.ceil(until_ms / 7 / (STEPS.at(-1) as number)) * (STEPS.at(-1) as number);
  // An end that is on no cut has no label: it would stand on its neighbour's.
  return x(tokens, { name, min: 0, max, interval, format: (ms) => (ms % interval ? "" : duration(ms)) });
}

const COUNTS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500];

/** An axis of epochs or steps from 0 to a whole multiple of its interval at or above `most`. */
export function counted(tokens: Tokens, name: string, most: number): EChartsCoreOption {
  const interval = COUNTS.find((step) => most / step <= 8) ?? 10 ** Math.floor(Math.log10(most));
  return x(tokens, { name, min: 0, max: Math.max(interval, Math.ceil(most / interval) * interval), interval });
}

/** A colour for each value, from worst to best by rank, so that one outlier doesn't wash out the others. Absent values are worst. */
export function shades(tokens: Tokens, values: (number | null | undefined)[], maximize: boolean): string[] {
  const sign = maximize ? 1 : -1;
  const known = values.filter((v): v is number => typeof v === "number").map((v) => v * sign);
  const sorted = known.sort((a, b) => a - b);
  return values.map((v) => {
    if (typeof v !== "number" || sorted.length < 2) return sorted.length < 2 && typeof v === "number" ? tokens.scale[2] : tokens.scale[0];
    return mix(tokens.scale, below(sorted, v * sign) / (sorted.length - 1));
  });
}

/** How many are less than `value`. */
function below(sorted: number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function mix([low, middle, high]: Tokens["scale"], at: number): string {
  const [from, to, share] = at < 0.5 ? [low, middle, at * 2] : [middle, high, at * 2 - 1];
  const a = channels(from);
  const b = channels(to);
  return `rgb(${a.map((channel, index) => Math.round(channel + ((b[index] ?? channel) - channel) * share)).join(",")})`;
}

function channels(color: string): number[] {
  return (color.match(/[\d.]+/g) ?? ["128", "128", "128"]).slice(0, 3).map(Number);
}
