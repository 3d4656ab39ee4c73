// The states of trials and studies: their order and their colours.

export const TRIAL_STATES = [
  "running",
  "resizing",
  "starting",
  "stopping",
  "waiting",
  "paused",
  "completed",
  "pruned",
  "failed",
  "cancelled",
] as const;

const COLORS: Record<string, string> = {
  running: "--running",
  active: "--running",
  ready: "--completed",
  starting: "--starting",
  stopping: "--stopping",
  resizing: "--resizing",
  waiting: "--waiting",
  paused: "--paused",
  draining: "--paused",
  cordoned: "--paused",
  completed: "--completed",
  pruned: "--pruned",
  failed: "--failed",
  lost: "--failed",
  cancelled: "--cancelled",
  removed: "--cancelled",
};

export function color(state: string): string {
  return `var(${COLORS[state] ?? "--soft"})`;
}

/** One of eight hues for the trial with `number`: neighbours differ. */
export function hue(number: number): string {
  return `var(--series-${(number % 8) + 1})`;
}

export const LIVE_STATES = ["starting", "running", "resizing", "stopping"] as const;
