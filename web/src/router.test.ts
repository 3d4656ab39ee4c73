// @vitest-environment node
import { beforeAll, describe, expect, it, vi } from "vitest";
import type { Route } from "./router.svelte";

describe("addresses", () => {
  let parse: (path: string) => Route;
  beforeAll(async () => {
    vi.stubGlobal("location", { pathname: "/", origin: "http://x" });
    vi.stubGlobal("addEventListener", () => {});
    ({ parse } = await import("./router.svelte"));
  });

  it("reads every view", () => {
    expect(parse("/")).toEqual({ name: "studies" });
    expect(parse("/studies/a")).toEqual({ name: "study", id: "a", tab: "overview" });
    expect(parse("/studies/a/curves")).toEqual({ name: "study", id: "a", tab: "curves" });
    expect(parse("/trials/b")).toEqual({ name: "trial", id: "b" });
    expect(parse("/cluster/")).toEqual({ name: "cluster" });
    expect(parse("/studies/a/b/c")).toEqual({ name: "unknown", path: "/studies/a/b/c" });
  });
});
