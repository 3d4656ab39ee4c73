// What each chart shows, as ECharts options. Pure: values in, options out.
import type { EChartsCoreOption } from "echarts/core";
import type { Curves, Measurement, Parallel, WidthPoint } from "../api/client";
import { clock, duration, number, width as writeWidth } from "./format";

const grid = { left: 56, right: 20, top: 20, bottom: 44 };
const palette = ["#3b7dd8", "#d9822b", "#2f9e6e", "#a05fd0", "#c94f6d", "#6d8b1f", "#1e9aa8", "#8a6d4b"];

function axisName(name: string) {
  return { name, nameLocation: "middle" as const, nameGap: 28 };
}

/** Learning curves, a line a trial. */
export function learningCurves(curves: Curves): EChartsCoreOption {
  const many = curves.curves.length > 40;
  return {
    color: palette,
    grid,
    tooltip: {
      trigger: "item",
      formatter: (p: { seriesName: string; value: [number, number] }) =>
        `${p.seriesName}<br>${number(p.value[0])}: <b>${number(p.value[1])}</b>`,
    },
    xAxis: { type: "value", ...axisName("epochs"), minInterval: 1 },
    yAxis: { type: "value", scale: true },
    series: curves.curves.map((curve) => ({
      type: "line",
      id: curve.trial,
      name: `trial ${curve.number}`,
      data: curve.points,
      showSymbol: curve.points.length < 2,
      symbolSize: 5,
      lineStyle: { width: many ? 1 : 1.8, opacity: curve.state === "pruned" ? 0.35 : 0.9 },
      emphasis: { focus: "series", lineStyle: { width: 3 } },
      connectNulls: false,
      triggerLineEvent: true,
    })),
  };
}

/** The best value so far by the time at which it was reached. */
export function history(curves: Curves, created: number): EChartsCoreOption {
  const points = curves.best_so_far.map((point) => [point.at - created, point.value, point.number]);
  return {
    color: palette,
    grid,
    tooltip: {
      trigger: "item",
      formatter: (p: { value: [number, number, number] }) =>
        `trial ${p.value[2]} after ${duration(p.value[0])}<br><b>${number(p.value[1])}</b>`,
    },
    xAxis: { type: "value", min: 0, axisLabel: { formatter: (ms: number) => duration(ms) }, splitNumber: 6 },
    yAxis: { type: "value", scale: true },
    series: [{ type: "line", step: "end", data: points, symbolSize: 7, lineStyle: { width: 2.2 } }],
  };
}

interface Axis {
  dim: number;
  name: string;
  type: "value" | "log" | "category";
  data?: string[];
}

/** An axis a parameter (log where it spans two decades) and the metric last; colour is the metric. */
export function parallel(data: Parallel): EChartsCoreOption {
  const names = [...new Set(data.lines.flatMap((line) => Object.keys(line.parameters)))].sort();
  const axes: Axis[] = names.map((name, dim) => {
    const values = data.lines.map((line) => line.parameters[name]).filter((v) => v !== undefined);
    if (values.some((v) => typeof v !== "number")) {
      return { dim, name, type: "category", data: [...new Set(values.map(String))].sort() };
    }
    const numbers = values as number[];
    const low = Math.min(...numbers);
    return { dim, name, type: low > 0 && Math.max(...numbers) / low >= 100 ? "log" : "value" };
  });
  axes.push({ dim: names.length, name: data.metric, type: "value" });
  const values = data.lines.flatMap((line) => (line.value === null || line.value === undefined ? [] : [line.value]));
  const rows = data.lines
    .filter((line) => line.value !== null && line.value !== undefined)
    .map((line) => ({
      name: line.trial,
      value: [...axes.slice(0, -1).map((axis) => cell(line.parameters[axis.name], axis)), line.value],
    }));
  return {
    parallel: { left: 60, right: 80, top: 40, bottom: 24, parallelAxisDefault: { nameLocation: "start", nameGap: 16 } },
    parallelAxis: axes.map((axis) => ({
      ...axis,
      scale: true,
      axisLabel: { formatter: (v: number | string) => (typeof v === "number" ? number(v) : v) },
    })),
    visualMap: {
      show: false,
      min: Math.min(...values),
      max: Math.max(...values),
      dimension: names.length,
      inRange: { color: ["#b9c3d6", "#5f8fe0", "#1b3fa8"] },
    },
    series: [{ type: "parallel", data: rows, lineStyle: { width: 1.4, opacity: rows.length > 300 ? 0.25 : 0.7 }, progressive: 500 }],
  };
}

/** An absent conditional parameter is a gap. */
function cell(value: unknown, axis: Axis): number | string {
  if (value === undefined || value === null) return "-";
  return axis.type === "category" ? String(value) : (value as number);
}

/** One metric of one trial. */
export function metric(measurements: Measurement[], name: string): EChartsCoreOption {
  const points = measurements.map((m) => [m.step, typeof m.metrics[name] === "number" ? m.metrics[name] : null]);
  return {
    color: palette,
    grid: { ...grid, top: 12 },
    tooltip: { trigger: "axis", valueFormatter: (v: unknown) => number(v as number) },
    xAxis: { type: "value", ...axisName("epochs"), minInterval: 1 },
    yAxis: { type: "value", scale: true },
    series: [{ type: "line", name, data: points, symbolSize: 6, lineStyle: { width: 2 } }],
  };
}

/** Width over time: a step at each change, down to zero between attempts. `until` is now, or the trial's end (ms). */
export function widths(points: WidthPoint[], until: number): EChartsCoreOption {
  const data = points.map((p) => [p.at, p.width, p.attempt, p.step]);
  const last = points.at(-1);
  if (last) data.push([Math.max(until, last.at), last.width, last.attempt, last.step]);
  return {
    color: palette,
    grid: { ...grid, top: 12, bottom: 28 },
    tooltip: {
      trigger: "item",
      formatter: (p: { value: [number, number, number, number] }) =>
        `${clock(p.value[0])}: width <b>${writeWidth(p.value[1])}</b><br>attempt ${p.value[2]}, step ${p.value[3]}`,
    },
    xAxis: { type: "time", axisLabel: { hideOverlap: true } },
    yAxis: { type: "value", min: 0, minInterval: 1, axisLabel: { formatter: (v: number) => writeWidth(v) } },
    series: [{ type: "line", step: "end", data, symbolSize: 6, areaStyle: { opacity: 0.18 }, lineStyle: { width: 2 } }],
  };
}
