// The browser under test: its errors are the test's, but for those that a step expects.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { server } from "./stack.mjs";

const PROGRAM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** A bound on hanging, not a promise: the machine may be busy. */
const PATIENCE_MS = 60_000;

/** Starts it; `visit` opens a page of a new visitor without cookies. */
export async function launch() {
  const browser = await chromium.launch({ executablePath: PROGRAM, args: FLAGS });
  const errors = [];
  let expected = [];

  async function visit(options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", baseURL: server, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    const note = (text) => expected.some((pattern) => pattern.test(text)) || errors.push(`${page.url()}: ${text}`);
    page.on("console", (message) => (message.type() === "error" || message.type() === "warning") && note(message.text()));
    page.on("pageerror", (error) => note(String(error)));
    return page;
  }

  /** One promise: its name goes to the log, and errors of the console fail it, but those that match `expect`. */
  async function step(name, run, ...expect) {
    expected = expect;
    console.log(name);
    await run();
    assert.deepEqual(errors, [], `errors on the console while: ${name}`);
  }

  return { visit, step, close: () => browser.close() };
}

/** Nothing sticks out sideways. */
export async function assertFits(page) {
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(content <= width, `${page.url()} is ${content} px wide in a window of ${width}`);
}

/** A chart is drawn: its canvas holds more than one colour. */
export async function assertDrawn(page, label) {
  const canvas = page.getByRole("img", { name: label }).locator("canvas").first();
  await canvas.waitFor();
  await page.waitForFunction(
    (element) => {
      const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
      const pixels = new Uint32Array(data.buffer);
      return pixels.some((pixel) => pixel !== pixels[0]);
    },
    await canvas.elementHandle(),
  );
}
