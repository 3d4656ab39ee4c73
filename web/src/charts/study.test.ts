import { describe, expect, it } from "vitest";
import type { Parallel, Parameter, WidthPoint } from "../api/client";
import { shades } from "./frame";
import { parallel } from "./study";
import type { Tokens } from "./tokens";
import { widths } from "./trial";

const tokens: Tokens = {
  text: "#000",
  soft: "#555",
  line: "#ddd",
  card: "#fff",
  accent: "#00f",
  series: ["#111"],
  scale: ["rgb(0, 0, 0)", "rgb(100, 100, 100)", "rgb(200, 200, 200)"],
  font: "Inter",
};
const space: Record<string, Parameter> = {
  lr: { type: "float", min: 0.0001, max: 0.1, scale: "log" },
  layers: { type: "int", min: 1, max: 4, scale: "linear" },
  optimizer: { type: "categorical", values: ["sgd", "adam"] },
};

const measure = { metric: "accuracy", maximize: true };

function line(parameters: Record<string, number | string>, value: number | null): Parallel["lines"][number] {
  return { trial: "t", number: 0, parameters, value };
}

describe("parallel coordinates", () => {
  it("has an axis a parameter as the space says, the metric last", () => {
    const lines = [line({ lr: 0.001, layers: 2, optimizer: "sgd" }, 0.8), line({ lr: 0.1, layers: 4, optimizer: "adam" }, 0.9)];
    const options = parallel(tokens, { metric: "accuracy", omitted: 0, lines }, space, measure);
    const axes = options.parallelAxis as { name: string; type: string; min?: number }[];
    expect(axes.map((axis) => [axis.name, axis.type, axis.min])).toEqual([
      ["layers", "value", 1],
      ["lr", "log", 0.0001],
      ["optimizer", "category", undefined],
      ["accuracy", "value", undefined],
    ]);
  });

  it("draws the best last, leaves a gap for an absent parameter and leaves out trials without a value", () => {
    const lines = [line({ a: 1 }, 1), line({ a: 2, b: 3 }, 2), line({ a: 3 }, null)];
    for (const maximize of [true, false]) {
      const options = parallel(tokens, { metric: "m", omitted: 0, lines: [...lines] }, {}, { metric: "m", maximize });
      const [series] = options.series as { data: { value: unknown[] }[] }[];
      const rows = [
        [1, "-", 1],
        [2, 3, 2],
      ];
      expect(series?.data.map((row) => row.value)).toEqual(maximize ? rows : rows.reverse());
    }
  });

  it("shows users' names as text", () => {
    const options = parallel(
      tokens,
      { metric: "<i>", omitted: 0, lines: [line({ "<b>": "<img>" }, 1)] },
      {},
      { metric: "<i>", maximize: true },
    );
    const { formatter } = options.tooltip as { formatter: (p: { dataIndex: number }) => string };
    expect(formatter({ dataIndex: 0 })).toBe("<b>Trial 0</b><br>&lt;i&gt; <b>1</b><br>&lt;b&gt; &lt;img&gt;");
  });
});

describe("colours from worst to best", () => {
  it("go by rank, whichever way is better", () => {
    const dark = "rgb(200,200,200)";
    expect(shades(tokens, [1, 2, 1000], true)).toEqual(["rgb(0,0,0)", "rgb(100,100,100)", dark]);
    expect(shades(tokens, [1, 2, null], false)).toEqual([dark, "rgb(0,0,0)", "rgb(0, 0, 0)"]);
  });
});

describe("width over time", () => {
  it("draws the last width on until now", () => {
    const points: WidthPoint[] = [
      { at: 10, width: 1, attempt: 1, generation: 1, step: 0 },
      { at: 20, width: 2, attempt: 1, generation: 2, step: 90 },
    ];
    const [series] = widths(tokens, points, 50).series as { data: (number[] | { value: number[] })[] }[];
    expect(series?.data.map((point) => ("value" in point ? point.value : point).slice(0, 2))).toEqual([
      [10, 1],
      [20, 2],
      [50, 2],
    ]);
  });
});
