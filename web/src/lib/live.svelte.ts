// A value that follows the service: asked for at once, again when something happened, and again after a failure.
import { untrack } from "svelte";
import { Failure, get } from "../api/client";

/** What is known now. A failure keeps the last value, so that a page never goes blank on a hiccup. */
export interface Followed<T> {
  readonly value: T | undefined;
  readonly failure: Failure | undefined;
  refresh(): void;
}

/** Follows `path()`: every `interval_ms`, and at most twice a second on `events()` (a server-sent stream). Call it in a component's script. */
export function follow<T>(path: () => string | undefined, interval_ms: number, events?: () => string | undefined): Followed<T> {
  let value = $state.raw<T | undefined>();
  let failure = $state.raw<Failure | undefined>();
  let again = $state(0);
  let last = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function wake(wait_ms: number) {
    clearTimeout(timer);
    timer = setTimeout(() => (again += 1), wait_ms);
  }

  $effect(() => {
    void path();
    value = undefined;
    failure = undefined;
  });

  $effect(() => {
    const current = path();
    void again;
    if (!current) return;
    const abort = new AbortController();
    last = Date.now();
    get<T>(current, abort.signal)
      .then((answer) => {
        value = answer;
        failure = undefined;
        wake(document.hidden ? interval_ms * 5 : interval_ms);
      })
      .catch((error: unknown) => {
        if (abort.signal.aborted) return;
        failure = error instanceof Failure ? error : new Failure(0, "Something went wrong", String(error), "unknown");
        wake(3000);
      });
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  });

  $effect(() => {
    const stream = events?.();
    if (!stream) return;
    const source = new EventSource(`/api/v1${stream}`);
    const heard = () => untrack(() => wake(Math.max(0, last + 500 - Date.now())));
    source.onmessage = heard;
    for (const kind of ["changed", "measured", "resized", "proposed", "judged", "study_state", "study_changed", "noted", "checkpointed"]) {
      source.addEventListener(kind, heard);
    }
    return () => source.close();
  });

  return {
    get value() {
      return value;
    },
    get failure() {
      return failure;
    },
    refresh: () => wake(0),
  };
}
