// A value that follows the service: asked for at once, again when something happened, again from time to time, again after a failure.
import { Failure, getText } from "../api/client";

/** What is known now. A failure keeps the last value, so that a page never goes blank on a hiccup. */
export interface Followed<T> {
  readonly value: T | undefined;
  readonly failure: Failure | undefined;
  refresh(): void;
}

const AFTER_FAILURE_MS = 2000;
/** Events may come in hundreds a second; what takes the service long is asked for less often. */
const LEAST_MS = 700;

/** Follows `path()`: every `every_ms` while the page is in sight, and soon after each change of `on()` (a count of events). Call it in a component's script. */
export function follow<T>(path: () => string | undefined, every_ms: number, on?: () => number): Followed<T> {
  let value = $state.raw<T | undefined>();
  let failure = $state.raw<Failure | undefined>();
  const where = $derived(path());
  let wake: (wait_ms: number) => void = () => {};

  $effect(() => {
    const asked = where;
    value = undefined;
    failure = undefined;
    if (!asked) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let abort: AbortController | undefined;
    let started = 0;
    let took = 0;
    let missed = false;
    let text = "";

    async function ask() {
      const mine = (abort = new AbortController());
      started = Date.now();
      missed = false;
      let wait = every_ms;
      try {
        const answer = await getText(asked as string, mine.signal);
        failure = undefined;
        // What has not changed is not drawn anew.
        if (answer !== text) {
          value = JSON.parse(answer) as T;
          text = answer;
        }
      } catch (error) {
        if (mine.signal.aborted) return;
        failure = error instanceof Failure ? error : new Failure(0, "Something went wrong", String(error), "unknown");
        wait = AFTER_FAILURE_MS;
      }
      abort = undefined;
      took = Date.now() - started;
      wake(missed ? 0 : wait);
    }
    wake = (wait_ms) => {
      // What happens during a request may be younger than its answer.
      if (abort) {
        missed ||= wait_ms === 0;
        return;
      }
      clearTimeout(timer);
      if (document.hidden) return;
      timer = setTimeout(ask, Math.max(wait_ms, started + Math.max(LEAST_MS, took * 3) - Date.now()));
    };
    const seen = () => wake(0);
    document.addEventListener("visibilitychange", seen);
    void ask();
    return () => {
      document.removeEventListener("visibilitychange", seen);
      clearTimeout(timer);
      abort?.abort();
      wake = () => {};
    };
  });

  $effect(() => {
    if (on?.()) wake(0);
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
