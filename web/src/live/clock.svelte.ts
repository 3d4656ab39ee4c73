// The service's time, a tick a second: what every "12 s ago" is counted from.
import { service } from "./service.svelte";

class Clock {
  #mine = $state(Date.now());

  constructor() {
    setInterval(() => (this.#mine = Date.now()), 1000);
  }

  /** ms since 1970. */
  get now(): number {
    return this.#mine + service.skew_ms;
  }
}

export const clock = new Clock();
