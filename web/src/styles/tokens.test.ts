import { describe, expect, it } from "vitest";
import css from "./tokens.css?raw";

type Theme = 0 | 1;

/** `--name: light-dark(#light, #dark)` by name. */
const tokens = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(([, name, light, dark]) => [name, [light, dark]]),
);

function channels(name: string, theme: Theme): number[] {
  const hex = tokens.get(name)?.[theme];
  if (!hex) throw new Error(`no colour ${name}`);
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** Relative luminance, WCAG 2.2. */
function luminance(color: number[]): number {
  const [r = 0, g = 0, b = 0] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: number[], b: number[]): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** As CSS' color-mix: `share` of `name` over the card. */
function tinted(name: string, share: number, theme: Theme): number[] {
  const card = channels("card", theme);
  return channels(name, theme).map((c, i) => c * share + (card[i] ?? 0) * (1 - share));
}

const STATES = ["waiting", "starting", "running", "resizing", "stopping", "paused", "completed", "pruned", "failed", "cancelled"];

describe.each([
  ["light", 0],
  ["dark", 1],
] as const)("colours in %s", (_, theme) => {
  it.each([
    ["text", "ground"],
    ["text", "card"],
    ["text", "sunk"],
    ["text", "accent-ground"],
    ["soft", "ground"],
    ["soft", "card"],
    ["soft", "sunk"],
    ["soft", "accent-ground"],
    ["accent", "card"],
    ["accent", "ground"],
    ["on-accent", "accent"],
    ["bad", "card"],
    ["bad", "bad-ground"],
    ["warn", "warn-ground"],
    ["text", "warn-ground"],
    ["text", "bad-ground"],
  ])("%s is read on %s", (ink, paper) => {
    expect(contrast(channels(ink, theme), channels(paper, theme))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(STATES)("the state %s is read on its own tint", (state) => {
    expect(contrast(channels(state, theme), tinted(state, 0.11, theme))).toBeGreaterThanOrEqual(4.5);
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8])("line %d is seen on a card, and a device's text on its tint", (index) => {
    expect(contrast(channels(`series-${index}`, theme), channels("card", theme))).toBeGreaterThanOrEqual(3);
    expect(contrast(channels("text", theme), tinted(`series-${index}`, 0.26, theme))).toBeGreaterThanOrEqual(4.5);
  });
});
