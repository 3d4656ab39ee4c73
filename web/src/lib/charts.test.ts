import { describe, expect, it } from "vitest";
import type { Parallel, WidthPoint } from "../api/client";
import { parallel, widths } from "./charts";

function line(parameters: Record<string, number | string>, value: number | null): Parallel["lines"][number] {
  return { trial: "t", number: 0, parameters, value };
}

describe("parallel coordinates", () => {
  it("has an axis a parameter, the metric last; wide ranges are logarithmic and words are categories", () => {
    const options = parallel({
      metric: "accuracy",
      omitted: 0,
      lines: [line({ lr: 0.001, layers: 2, optimizer: "sgd" }, 0.8), line({ lr: 0.1, layers: 4, optimizer: "adam" }, 0.9)],
    });
    const axes = options.parallelAxis as { name: string; type: string }[];
    expect(axes.map((axis) => [axis.name, axis.type])).toEqual([
      ["layers", "value"],
      ["lr", "log"],
      ["optimizer", "category"],
      ["accuracy", "value"],
    ]);
  });

  it("leaves a gap for an absent parameter and leaves out trials without a value", () => {
    const options = parallel({ metric: "m", omitted: 0, lines: [line({ a: 1 }, 1), line({ a: 2, b: 3 }, 2), line({ a: 3 }, null)] });
    const [series] = options.series as { data: { value: unknown[] }[] }[];
    expect(series?.data.map((row) => row.value)).toEqual([
      [1, "-", 1],
      [2, 3, 2],
    ]);
  });
});

describe("width over time", () => {
  it("draws the last width on until now", () => {
    const points: WidthPoint[] = [
      { at: 10, width: 1, attempt: 1, generation: 1, step: 0 },
      { at: 20, width: 2, attempt: 1, generation: 2, step: 90 },
    ];
    const [series] = widths(points, 50).series as { data: number[][] }[];
    expect(series?.data.map(([at, width]) => [at, width])).toEqual([
      [10, 1],
      [20, 2],
      [50, 2],
    ]);
  });
});
