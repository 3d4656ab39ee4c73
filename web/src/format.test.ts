import { describe, expect, it } from "vitest";
import { bytes, duration, number, width } from "./format";

describe("numbers people read", () => {
  it("keeps four digits and turns scientific at the ends", () => {
    expect(number(0.912345)).toBe("0.9123");
    expect(number(0.00012345)).toBe("1.23e-4");
    expect(number(1234567.5)).toBe("1.23e+6");
    expect(number(0)).toBe("0");
    expect(number(null)).toBe("–");
    expect(number(Number.NaN)).toBe("NaN");
  });

  it("writes lengths of time in two units", () => {
    expect(duration(250)).toBe("250 ms");
    expect(duration(59_400)).toBe("59 s");
    expect(duration(200_000)).toBe("3 min 20 s");
    expect(duration(3_600_000)).toBe("1 h");
    expect(duration(0)).toBe("0");
    expect(duration(-1)).toBe("–");
  });

  it("writes widths as devices or parts of one", () => {
    expect([0, 0.25, 1 / 3, 0.5, 1, 4].map(width)).toEqual(["0", "1/4", "1/3", "1/2", "1", "4"]);
  });

  it("writes sizes", () => {
    expect([0, 1023, 1024, 1536, 3 * 1024 ** 3].map(bytes)).toEqual(["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "3.0 GiB"]);
  });
});
