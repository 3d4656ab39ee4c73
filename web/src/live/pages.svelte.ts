// A long listing, page by page: fetched as far as one looks, and only what is in sight kept fresh.
import { untrack } from "svelte";
import { Failure, get, type Page } from "../api/client";

export interface Listing<T> {
  /** What is known so far, from the first on, each once. */
  readonly rows: T[];
  /** The first page has come. */
  readonly loaded: boolean;
  /** There is more than `rows`. */
  readonly more: boolean;
  readonly failure: Failure | undefined;
  /** Says which rows are in sight. */
  look(first: number, last: number): void;
}

interface Part<T> {
  token: string | undefined;
  limit: number;
  items: T[];
  next: string | undefined;
  /** Of `version` at the time that it was asked for. */
  seen: number;
}

const LIMIT = 100;
/** Far ahead of what is known, such as when the bar is dragged to the end. */
const BIG_LIMIT = 1000;
const AHEAD = 60;
const PAUSE_MS = 700;
const AGAIN_MS = 2000;
const EVERY_MS = 10_000;

/** Lists `path()`, which holds every query but `limit` and `page_token`; a change of `on()` (a count of events) makes it stale. Call it in a component's script. */
export function pages<T extends { id: string }>(path: () => string, on: () => number): Listing<T> {
  let parts = $state.raw<Part<T>[]>([]);
  let loaded = $state(false);
  let failure = $state.raw<Failure | undefined>();
  let sight = { first: 0, last: 0 };
  let version = 0;
  let wake = () => {};
  const where = $derived(path());
  const rows = $derived(once(parts.flatMap((part) => part.items)));

  async function read(asked: string, token: string | undefined, limit: number, signal: AbortSignal): Promise<Part<T>> {
    const seen = version;
    const query = `limit=${limit}${token ? `&page_token=${encodeURIComponent(token)}` : ""}`;
    const page = await get<Page<T>>(`${asked}${asked.includes("?") ? "&" : "?"}${query}`, signal);
    return { token, limit, items: page.items, next: page.next_page_token ?? undefined, seen };
  }

  /** Does the most urgent thing; false: there is none. */
  async function work(asked: string, signal: AbortSignal): Promise<boolean> {
    const last = parts.at(-1);
    const known = parts.reduce((sum, part) => sum + part.items.length, 0);
    if (!last || (last.next && known < sight.last + AHEAD)) {
      const limit = sight.last - known > LIMIT ? BIG_LIMIT : LIMIT;
      const part = await read(asked, last?.next, limit, signal);
      parts = [...parts, part];
      return true;
    }
    const index = stale();
    if (index < 0) return false;
    const old = parts[index] as Part<T>;
    const part = await read(asked, old.token, old.limit, signal);
    const after = parts.slice(index + 1);
    // Where rows have moved from page to page, the next page starts elsewhere now.
    if (after[0] && after[0].token !== part.next) after[0] = { ...after[0], token: part.next, seen: -1 };
    parts = [...parts.slice(0, index), part, ...(part.next ? after : [])];
    return true;
  }

  function stale(): number {
    let start = 0;
    for (const [index, part] of parts.entries()) {
      const end = start + part.items.length;
      if (part.seen < version && start <= sight.last && end >= sight.first) return index;
      start = end;
    }
    return -1;
  }

  $effect(() => {
    const asked = where;
    parts = [];
    loaded = false;
    failure = undefined;
    sight = { first: 0, last: 0 };
    const abort = new AbortController();
    const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

    async function run() {
      while (!abort.signal.aborted) {
        try {
          const first = !loaded;
          if (await work(asked, abort.signal)) {
            loaded = true;
            failure = undefined;
            if (!first && parts.every((part) => part.seen === version || !part.next)) await pause(PAUSE_MS);
            continue;
          }
          await new Promise<void>((resolve) => (wake = resolve));
        } catch (error) {
          if (abort.signal.aborted) return;
          failure = error instanceof Failure ? error : new Failure(0, "Something went wrong", String(error), "unknown");
          await pause(AGAIN_MS);
        }
      }
    }
    const timer = setInterval(() => {
      if (document.hidden) return;
      version += 1;
      wake();
    }, EVERY_MS);
    untrack(() => void run());
    return () => {
      clearInterval(timer);
      abort.abort();
      wake();
    };
  });

  $effect(() => {
    if (!on()) return;
    version += 1;
    wake();
  });

  return {
    get rows() {
      return rows;
    },
    get loaded() {
      return loaded;
    },
    get more() {
      return Boolean(parts.at(-1)?.next);
    },
    get failure() {
      return failure;
    },
    look(first, last) {
      sight = { first, last };
      wake();
    },
  };
}

/** A row that moved while pages were read may be on two of them. */
function once<T extends { id: string }>(rows: T[]): T[] {
  return [...new Map(rows.map((row) => [row.id, row])).values()];
}
