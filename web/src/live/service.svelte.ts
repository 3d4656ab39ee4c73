// What the page knows of the service itself: whether it answers, whether it knows this browser, what time it has.

/** A client's clock that is off by less is taken for right: the Date header has whole seconds. */
const SKEW_MS = 2000;

class Service {
  /** `silent`: it does not answer at all. `ailing`: it answers that it cannot, such as without its database. */
  state = $state<"fine" | "ailing" | "silent">("fine");
  /** It does not know this browser. */
  locked = $state(false);
  /** The service's clock less this browser's, in ms. */
  skew_ms = $state(0);
  /** When it last answered well, by its clock. */
  heard = $state(0);

  answered(status: number, date: string | null) {
    const theirs = date ? Date.parse(date) : NaN;
    const skew = theirs - Date.now();
    if (Number.isFinite(skew)) this.skew_ms = Math.abs(skew) < SKEW_MS ? 0 : skew;
    this.state = status >= 500 ? "ailing" : "fine";
    if (status === 401) this.locked = true;
    if (status < 500) this.heard = Date.now() + this.skew_ms;
  }

  unlock() {
    this.locked = false;
  }

  silent() {
    this.state = "silent";
  }
}

export const service = new Service();
