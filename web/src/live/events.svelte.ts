// A study's events as one stream a page. They say that something happened; what it was is asked for (follow.svelte.ts).
import { untrack } from "svelte";

const KINDS = [
  "study_created",
  "study_changed",
  "study_state",
  "proposed",
  "unproposed",
  "judged",
  "changed",
  "excluded",
  "measured",
  "checkpointed",
  "resized",
  "noted",
];
const AGAIN_MS = 3000;

export interface Events {
  /** Grows when something happened, or may have while nobody listened. */
  readonly count: number;
  /** The stream is open. */
  readonly live: boolean;
}

/** Listens from the event after `study().seq` on. Call it in a component's script. */
export function events(study: () => { id: string; seq: number } | undefined): Events {
  let count = $state(0);
  let live = $state(false);
  const id = $derived(study()?.id);

  $effect(() => {
    if (!id) return;
    // Read once: every event moves the study's own number on.
    let after = untrack(() => study()?.seq ?? 0);
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;

    function heard(event: MessageEvent) {
      after = Number(event.lastEventId) || after;
      count += 1;
    }
    function open() {
      clearTimeout(timer);
      source?.close();
      source = new EventSource(`/api/v1/studies/${id}/events?after=${after}`);
      source.onopen = () => {
        live = true;
        count += 1;
      };
      source.onerror = () => {
        live = false;
        // A refusal ends an EventSource for good; a cut it mends by itself.
        if (source?.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN_MS);
      };
      for (const kind of KINDS) source.addEventListener(kind, heard);
    }
    // Browsers keep few connections to one host: a page out of sight lets go of its stream.
    function look() {
      if (!document.hidden) return open();
      clearTimeout(timer);
      source?.close();
      live = false;
    }
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      clearTimeout(timer);
      source?.close();
      live = false;
    };
  });

  return {
    get count() {
      return count;
    },
    get live() {
      return live;
    },
  };
}
