// The picture of elasticity: devices over time, a colour a trial. Pure: values in, options out.
import type { CustomSeriesRenderItemAPI, CustomSeriesRenderItemParams } from "echarts/types/dist/shared";
import type { EChartsCoreOption } from "echarts/core";
import type { StudyWidths } from "../api/client";
import { duration, width as writeWidth } from "../format";
import { GRID, passed, tooltip, y } from "./frame";
import { lanes } from "./lanes";
import type { Tokens } from "./tokens";

/** Below this width in px a number does not fit. */
const LABEL_PX = 20;

/** Who held how many devices, from the study's creation until `until` (ms). */
export function devices(tokens: Tokens, widths: StudyWidths, created: number, until: number): EChartsCoreOption {
  const { blocks, count, unit } = lanes(widths.trials, until);
  const start = widths.truncated ? Math.min(...blocks.map((block) => block.from)) - created : 0;
  const end = Math.max(until - created, 1);
  return {
    grid: GRID,
    tooltip: tooltip(tokens, {
      trigger: "item",
      formatter: (p: { dataIndex: number }) => {
        const block = blocks[p.dataIndex];
        if (!block) return "";
        const held = `${writeWidth(block.span * unit)} ${block.span * unit > 1 ? "devices" : "device"}`;
        return `<b>Trial ${block.number}</b><br>${held} for ${duration(block.to - block.from)}<br>from ${duration(block.from - created)} on`;
      },
    }),
    xAxis: { ...passed(tokens, "Time since the study was created", end), min: start },
    yAxis: y(tokens, {
      name: "Devices",
      nameGap: 34,
      min: 0,
      max: Math.max(1, Math.ceil(count * unit)),
      minInterval: unit,
      format: writeWidth,
    }),
    series: [
      {
        type: "custom",
        id: "devices",
        clip: true,
        encode: { x: [0, 1], y: [2, 3] },
        renderItem: (params: CustomSeriesRenderItemParams, api: CustomSeriesRenderItemAPI) => {
          const block = blocks[params.dataIndex];
          if (!block) return undefined;
          const [left = 0, top = 0] = api.coord([block.from - created, (block.lane + block.span) * unit]);
          const [right = 0, bottom = 0] = api.coord([block.to - created, block.lane * unit]);
          const shape = { x: left + 0.5, y: top + 0.5, width: Math.max(1, right - left - 1), height: Math.max(1, bottom - top - 1), r: 3 };
          const color = tokens.series[block.number % tokens.series.length];
          const label = shape.width >= LABEL_PX && shape.height >= 14 ? String(block.number) : "";
          return {
            type: "rect",
            shape,
            style: { fill: color, opacity: 0.88 },
            emphasis: { style: { opacity: 1 } },
            textContent: { type: "text", style: { text: label, fill: tokens.card, font: `600 11px ${tokens.font}` } },
            textConfig: { position: "inside" },
          };
        },
        data: blocks.map((block) => ({
          name: block.trial,
          value: [block.from - created, block.to - created, block.lane * unit, (block.lane + block.span) * unit],
        })),
      },
    ],
  };
}
