// A study's charts as ECharts options. Pure: values in, options out.
import type { EChartsCoreOption } from "echarts/core";
import type { Curves, Parallel, Parameter } from "../api/client";
import { duration, number, value as writeValue } from "../format";
import { GRID, counted, passed, shades, tooltip, y } from "./frame";
import type { Tokens } from "./tokens";

/** Names and goal of what is measured. */
export interface Measure {
  metric: string;
  maximize: boolean;
  /** What a resource is: "epoch" or "step". */
  unit: string;
}

/** Learning curves, a line a trial, the better the stronger. */
export function learningCurves(tokens: Tokens, curves: Curves, { metric, maximize, unit }: Measure): EChartsCoreOption {
  const finals = curves.curves.map((curve) => curve.points.findLast(([, v]) => v !== null)?.[1]);
  const colors = shades(tokens, finals, maximize);
  const many = curves.curves.length > 40;
  const series = curves.curves.map((curve, index) => ({
    type: "line",
    id: curve.trial,
    name: `Trial ${curve.number}`,
    data: curve.points,
    showSymbol: curve.points.length < 2,
    symbol: "circle",
    symbolSize: 5,
    color: colors[index],
    z: 2 + rank(finals, index, maximize),
    lineStyle: { width: many ? 1.2 : 1.8 },
    emphasis: { focus: "series", lineStyle: { width: 3 } },
    triggerEvent: true,
  }));
  return {
    grid: GRID,
    tooltip: tooltip(tokens, {
      trigger: "item",
      formatter: (p: { seriesName: string; value: [number, number] }) =>
        `${p.seriesName}, ${unit} ${number(p.value[0])}<br><b>${number(p.value[1])}</b>`,
    }),
    xAxis: counted(tokens, `${capital(unit)}s`, Math.max(0, ...curves.curves.map((curve) => curve.points.at(-1)?.[0] ?? 0))),
    yAxis: y(tokens, { name: metric, scale: true }),
    series,
  };
}

/** 1 for the best, 0 for all others: drawn last. */
function rank(values: (number | null | undefined)[], index: number, maximize: boolean): number {
  const mine = values[index];
  if (typeof mine !== "number") return 0;
  return values.every((other) => typeof other !== "number" || (maximize ? other <= mine : other >= mine)) ? 1 : 0;
}

/** The best value so far by the time at which it was reached, drawn on until `until` (ms). */
export function history(tokens: Tokens, curves: Curves, created: number, until: number, { metric }: Measure): EChartsCoreOption {
  const points: [number, number, number][] = curves.best_so_far.map((point) => [point.at - created, point.value, point.number]);
  const last = points.at(-1);
  const end = Math.max(until - created, last?.[0] ?? 0);
  return {
    grid: GRID,
    tooltip: tooltip(tokens, {
      trigger: "item",
      formatter: (p: { value: [number, number, number] }) =>
        `Trial ${p.value[2]} after ${duration(p.value[0])}<br><b>${number(p.value[1])}</b>`,
    }),
    xAxis: passed(tokens, "Time since the study was created", end),
    yAxis: y(tokens, { name: `Best ${metric}`, scale: true }),
    series: [
      {
        type: "line",
        id: "best",
        step: "end",
        symbol: "circle",
        symbolSize: 7,
        color: tokens.accent,
        lineStyle: { width: 2.2 },
        data: last ? [...points, { value: [end, last[1], last[2]], symbol: "none" }] : [],
      },
    ],
  };
}

interface Axis {
  dim: number;
  name: string;
  type: "value" | "log" | "category";
  data?: string[];
  min?: number;
  max?: number;
}

function axisOf(name: string, dim: number, parameter: Parameter | undefined, values: unknown[]): Axis {
  if (parameter?.type === "categorical") return { dim, name, type: "category", data: parameter.values.map(String) };
  if (parameter) return { dim, name, type: parameter.scale === "log" ? "log" : "value", min: parameter.min, max: parameter.max };
  // A parameter that the space no longer has.
  return values.every((v) => typeof v === "number")
    ? { dim, name, type: "value" }
    : { dim, name, type: "category", data: [...new Set(values.map(String))].sort() };
}

/** An axis a parameter as the space says, and the metric last. The better the stronger, and drawn over the worse. */
export function parallel(
  tokens: Tokens,
  data: Parallel,
  space: Record<string, Parameter>,
  { metric, maximize }: Omit<Measure, "unit">,
): EChartsCoreOption {
  const lines = data.lines.filter((line) => typeof line.value === "number");
  lines.sort((a, b) => ((a.value as number) - (b.value as number)) * (maximize ? 1 : -1));
  const names = [...new Set(lines.flatMap((line) => Object.keys(line.parameters)))].sort();
  const axes = names.map((name, dim) =>
    axisOf(
      name,
      dim,
      space[name],
      lines.map((line) => line.parameters[name]).filter((v) => v !== undefined),
    ),
  );
  axes.push({ dim: names.length, name: metric, type: "value" });
  const colors = shades(
    tokens,
    lines.map((line) => line.value),
    maximize,
  );
  const best = lines.length - 1;
  return {
    parallel: { left: 48, right: 64, top: 36, bottom: 20 },
    tooltip: tooltip(tokens, {
      trigger: "item",
      formatter: (p: { dataIndex: number }) => describe(lines[p.dataIndex], metric),
    }),
    parallelAxis: axes.map((axis) => ({
      ...axis,
      scale: true,
      nameLocation: "end",
      nameGap: 14,
      nameTextStyle: { color: tokens.text, fontSize: 12, fontWeight: axis.dim === names.length ? 600 : 400 },
      axisLine: { lineStyle: { color: tokens.line, width: 1.5 } },
      axisTick: { show: false },
      axisLabel: {
        color: tokens.soft,
        fontSize: 11,
        // Read over the lines that run behind it.
        textBorderColor: tokens.card,
        textBorderWidth: 3,
        hideOverlap: true,
        width: 84,
        overflow: "truncate",
        formatter: (v: number | string) => (typeof v === "number" ? number(v) : v),
      },
      areaSelectStyle: { width: 14, borderColor: tokens.accent, color: tokens.accent, opacity: 0.2 },
    })),
    series: [
      {
        type: "parallel",
        id: "trials",
        smooth: 0.12,
        inactiveOpacity: 0.04,
        activeOpacity: 1,
        emphasis: { lineStyle: { width: 3, opacity: 1 } },
        data: lines.map((line, index) => ({
          name: line.trial,
          value: [...axes.slice(0, -1).map((axis) => cell(line.parameters[axis.name], axis)), line.value],
          lineStyle: { color: colors[index], width: index === best ? 2.6 : 1.3, opacity: lines.length > 300 ? 0.35 : 0.75 },
        })),
      },
    ],
  };
}

function describe(line: Parallel["lines"][number] | undefined, metric: string): string {
  if (!line) return "";
  const parameters = Object.entries(line.parameters).map(([name, v]) => `${escape(name)} ${escape(writeValue(v))}`);
  return [`<b>Trial ${line.number}</b>`, `${escape(metric)} <b>${number(line.value)}</b>`, ...parameters].join("<br>");
}

/** Names and values are users'; a tooltip is HTML. */
function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** An absent conditional parameter is a gap. */
function cell(value: unknown, axis: Axis): number | string {
  if (value === undefined || value === null) return "-";
  return axis.type === "category" ? String(value) : (value as number);
}

export function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
