import { describe, expect, it } from "vitest";
import type { TrialWidths } from "../api/client";
import { lanes } from "./lanes";

function trial(number: number, points: [number, number][]): TrialWidths {
  return {
    trial: `t${number}`,
    number,
    points: points.map(([at, width], index) => ({ at, width, attempt: 1, generation: index + 1, step: 0 })),
  };
}
const brief = (blocks: ReturnType<typeof lanes>["blocks"]) => blocks.map((b) => [b.number, b.from, b.to, b.lane, b.span]);

describe("lanes of devices", () => {
  it("keeps a trial's lanes while others come and go", () => {
    const { blocks, count, unit } = lanes(
      [
        trial(0, [
          [0, 2],
          [10, 1],
          [30, 2],
        ]),
        trial(1, [
          [10, 1],
          [30, 0],
        ]),
      ],
      50,
    );
    expect([count, unit]).toEqual([2, 1]);
    expect(brief(blocks)).toEqual([
      [0, 0, 10, 1, 1],
      [0, 0, 50, 0, 1],
      [1, 10, 30, 1, 1],
      [0, 30, 50, 1, 1],
    ]);
  });

  it("frees before it takes, and joins neighbours", () => {
    const { blocks, count } = lanes(
      [
        trial(0, [
          [0, 4],
          [5, 0],
        ]),
        trial(1, [[5, 4]]),
      ],
      9,
    );
    expect(count).toBe(4);
    expect(brief(blocks)).toEqual([
      [0, 0, 5, 0, 4],
      [1, 5, 9, 0, 4],
    ]);
  });

  it("has thinner lanes for parts of a device", () => {
    const { count, unit, blocks } = lanes([trial(0, [[0, 0.5]]), trial(1, [[0, 1]])], 4);
    expect([count, unit]).toEqual([3, 0.5]);
    expect(brief(blocks)).toEqual([
      [0, 0, 4, 0, 1],
      [1, 0, 4, 1, 2],
    ]);
  });
});
