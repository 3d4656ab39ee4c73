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
  starting: "--running",
  stopping: "--waiting",
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

/** Eight hues that stay apart in both themes and for most colour-blind eyes, by a stable hash of `key`. */
export function hue(key: string): string {
  const hues = ["#3b7dd8", "#d9822b", "#2f9e6e", "#a05fd0", "#c94f6d", "#6d8b1f", "#1e9aa8", "#8a6d4b"];
  let hash = 0;
  for (const letter of key) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return hues[hash % hues.length] ?? "#3b7dd8";
}
