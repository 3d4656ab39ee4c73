// Who held how much when, laid out in lanes: each trial keeps its lanes as it grows and shrinks. Pure. Drawn by charts/devices.ts.
import type { TrialWidths } from "../api/client";

export interface Block {
  trial: string;
  number: number;
  /** ms */
  from: number;
  to: number;
  /** The lowest lane, from 0, and how many. */
  lane: number;
  span: number;
}

export interface Lanes {
  blocks: Block[];
  count: number;
  /** Devices a lane: 1, or the smallest part of one that was held. */
  unit: number;
}

/** Lays out up to `until` (ms). A lane is a share of the devices, not one device of its own: where ranks ran is not told. */
export function lanes(trials: TrialWidths[], until: number): Lanes {
  const changes = trials
    .flatMap(({ trial, number, points }) =>
      points.map(({ at, width }, index) => ({ at, trial, number, width, gained: width - (points[index - 1]?.width ?? 0) })),
    )
    // What is given up is free for who gains in the same moment.
    .sort((a, b) => a.at - b.at || a.gained - b.gained);
  const unit = Math.min(1, ...changes.map(({ width }) => width).filter((width) => width > 0));
  const owners: (string | undefined)[] = [];
  const open = new Map<number, Block>();
  const blocks: Block[] = [];

  function close(lane: number, at: number) {
    const block = open.get(lane);
    open.delete(lane);
    owners[lane] = undefined;
    if (block && at > block.from) blocks.push({ ...block, to: at });
  }
  for (const { at, trial, number, width } of changes) {
    const held = owners.flatMap((owner, lane) => (owner === trial ? [lane] : []));
    const wanted = width > 0 ? Math.max(1, Math.round(width / unit)) : 0;
    for (const lane of held.slice(wanted)) close(lane, at);
    for (let missing = wanted - held.length; missing > 0; missing -= 1) {
      const free = owners.findIndex((owner) => owner === undefined);
      const lane = free < 0 ? owners.length : free;
      owners[lane] = trial;
      open.set(lane, { trial, number, from: at, to: at, lane, span: 1 });
    }
  }
  for (const lane of [...open.keys()]) close(lane, until);
  return { blocks: joined(blocks), count: owners.length, unit };
}

/** Neighbours of one trial and the same time as one. */
function joined(blocks: Block[]): Block[] {
  blocks.sort((a, b) => a.from - b.from || a.to - b.to || a.number - b.number || a.lane - b.lane);
  const out: Block[] = [];
  for (const block of blocks) {
    const last = out.at(-1);
    const same = last && last.trial === block.trial && last.from === block.from && last.to === block.to;
    if (same && last.lane + last.span === block.lane) last.span += 1;
    else out.push({ ...block });
  }
  return out;
}
