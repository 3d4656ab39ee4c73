// A trial's charts as ECharts options. Pure: values in, options out.
import type { EChartsCoreOption } from "echarts/core";
import type { Measurement, WidthPoint } from "../api/client";
import { clock, number, width as writeWidth } from "../format";
import { GRID, counted, tooltip, x, y } from "./frame";
import { capital } from "./study";
import type { Tokens } from "./tokens";

/** One metric by resource (`unit`: "epoch" or "step"). */
export function metric(tokens: Tokens, measurements: Measurement[], name: string, unit: string): EChartsCoreOption {
  const points = measurements.map((m) => [m.step, typeof m.metrics[name] === "number" ? m.metrics[name] : null]);
  return {
    grid: { ...GRID, left: 54 },
    tooltip: tooltip(tokens, {
      trigger: "axis",
      formatter: ([p]: { value: [number, number | null] }[]) =>
        p ? `${capital(unit)} ${number(p.value[0])}<br><b>${number(p.value[1])}</b>` : "",
    }),
    xAxis: counted(tokens, `${capital(unit)}s`, measurements.at(-1)?.step ?? 0),
    yAxis: y(tokens, { name: "", scale: true }),
    series: [
      {
        type: "line",
        id: name,
        data: points,
        color: tokens.series[0],
        symbol: "circle",
        symbolSize: 6,
        showSymbol: points.length < 60,
        lineStyle: { width: 2 },
      },
    ],
  };
}

/** Width over time: a step at each change, down to zero between attempts. `until` is now, or the trial's end (ms). */
export function widths(tokens: Tokens, points: WidthPoint[], until: number): EChartsCoreOption {
  const data: (number[] | { value: number[]; symbol: string })[] = points.map((p) => [p.at, p.width, p.attempt, p.step]);
  const last = points.at(-1);
  if (last) data.push({ value: [Math.max(until, last.at), last.width, last.attempt, last.step], symbol: "none" });
  const widest = Math.max(1, ...points.map((p) => p.width));
  return {
    grid: { ...GRID, left: 54 },
    tooltip: tooltip(tokens, {
      trigger: "item",
      formatter: (p: { value: [number, number, number, number] }) =>
        `${clock(p.value[0])}: width <b>${writeWidth(p.value[1])}</b><br>from step ${p.value[3]} on, attempt ${p.value[2]}`,
    }),
    xAxis: x(tokens, { name: "Time", type: "time", min: "dataMin" }),
    yAxis: y(tokens, {
      name: "Width (devices)",
      nameGap: 34,
      min: 0,
      max: Math.ceil(widest),
      minInterval: widest <= 1 ? 0.25 : 1,
      format: writeWidth,
    }),
    series: [
      {
        type: "line",
        id: "width",
        step: "end",
        data,
        color: tokens.accent,
        symbol: "circle",
        symbolSize: 7,
        areaStyle: { opacity: 0.16 },
        lineStyle: { width: 2 },
      },
    ],
  };
}
