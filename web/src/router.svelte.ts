// Where the page is: the address bar is the only state, so that every view can be linked, reloaded and gone back from.

export type Route =
  | { name: "studies" }
  | { name: "study"; id: string; tab: string }
  | { name: "trial"; id: string }
  | { name: "cluster" }
  | { name: "unknown"; path: string };

/** Reads a path such as /studies/<id>/curves. */
export function parse(path: string): Route {
  const parts = path.split("/").filter(Boolean);
  const [head, id, tab, ...rest] = parts;
  if (parts.length === 0 || (head === "studies" && parts.length === 1)) return { name: "studies" };
  if (head === "studies" && id && rest.length === 0) return { name: "study", id, tab: tab ?? "overview" };
  if (head === "trials" && id && parts.length === 2) return { name: "trial", id };
  if (head === "cluster" && parts.length === 1) return { name: "cluster" };
  return { name: "unknown", path };
}

class Router {
  route = $state<Route>(parse(location.pathname));

  constructor() {
    addEventListener("popstate", () => (this.route = parse(location.pathname)));
    addEventListener("click", (event) => this.#follow(event));
  }

  go(path: string) {
    const before = this.route;
    history.pushState(null, "", path);
    this.route = parse(location.pathname);
    // From one tab to another of the same thing one stays where one is.
    if (before.name === this.route.name && "id" in before && "id" in this.route && before.id === this.route.id) return;
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }

  #follow(event: MouseEvent) {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.origin !== location.origin || link.hasAttribute("download")) return;
    if (link.pathname.startsWith("/api/") || link.pathname.startsWith("/docs") || link.getAttribute("href")?.startsWith("#")) return;
    event.preventDefault();
    this.go(link.pathname);
  }
}

export const router = new Router();
