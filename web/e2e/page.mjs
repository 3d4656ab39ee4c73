// The page in a real browser against the real service. Started by tests/tests/browser.rs, which holds the stack.
import assert from "node:assert/strict";
import { assertDrawn, assertFits, launch } from "./browser.mjs";
import { call, complete, inside, measure, outside, please, suggest, token } from "./stack.mjs";

const UNAUTHORIZED = /status of 401/;
const CUT =
  /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_FAILED|ERR_SOCKET_NOT_CONNECTED|status of 503/;

const { visit, step, close } = await launch();
const text = (page, wanted) => page.getByText(wanted, { exact: false }).first().waitFor();
const heading = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();

async function logIn(page) {
  const link = await call("POST", "/login-links");
  await page.goto(link.path);
  await heading(page, "Studies");
  return link;
}

await step(
  "a stranger is asked to log in, and told what is wrong with a wrong token",
  async () => {
    const stranger = await visit();
    const response = await stranger.goto("/cluster");
    const policy = response.headers()["content-security-policy"];
    assert.match(policy, /default-src 'self'/);
    await heading(stranger, "Log in");
    await stranger.getByLabel("Login link or admin token").fill("elastune_admin_wrong");
    await stranger.getByRole("button", { name: "Log in" }).click();
    await text(stranger, "does not know this token");
    await stranger.getByLabel("Login link or admin token").fill(token);
    await stranger.keyboard.press("Enter");
    // Where one wanted to go.
    await heading(stranger, "Cluster");
    await stranger.context().close();
  },
  UNAUTHORIZED,
);

await step(
  "a login link works once",
  async () => {
    const first = await visit();
    const { path } = await logIn(first);
    const second = await visit();
    await second.goto(path);
    await text(second, "used already");
    await first.goto(path);
    await heading(first, "Studies");
    await first.context().close();
    await second.context().close();
  },
  UNAUTHORIZED,
);

const page = await visit();
await step("the empty list says what to do", async () => {
  await logIn(page);
  await text(page, "No studies yet");
  await text(page, "elastune study create");
});

// Gone if the page is ever loaded anew.
await page.evaluate(() => (window.loadedOnce = true));
const small = await outside("by-hand", 50);
let trials;

await step("a study appears, its trials and measurements follow, without a reload", async () => {
  await page.getByRole("link", { name: "by-hand" }).click();
  await heading(page, "by-hand");
  await text(page, "Nothing measured yet");
  await page.locator(".live.on").waitFor();
  trials = await suggest(small, 3);
  for (const [index, trial] of trials.entries()) await measure(trial, 1, 0.5 + index);
  await page.locator(".tile", { hasText: "Best loss" }).getByText("0.5000").waitFor();
  await assertDrawn(page, "Best loss over time");
  await assertDrawn(page, "loss by step, a line a trial");
  await assertDrawn(page, /Parallel coordinates/);
  await measure(trials[0], 2, 0.125);
  await page.locator(".tile", { hasText: "Best loss" }).getByText("0.1250").waitFor();
  await page.getByRole("link", { name: "Trials", exact: true }).click();
  await page.getByRole("row", { name: /running 0\.1250 2 steps/ }).waitFor();
  await complete(trials[0]);
  await page.getByRole("row", { name: /completed 0\.1250 2 steps/ }).waitFor();
  assert.ok(await page.evaluate(() => window.loadedOnce), "the page was loaded anew");
});

await step("a trial shows its parameters, its curves and where it is", async () => {
  await page
    .getByRole("row", { name: /completed/ })
    .getByRole("link")
    .click();
  await heading(page, "Trial 0");
  for (const name of Object.keys(trials[0].parameters)) await page.locator("dt", { hasText: name }).waitFor();
  await assertDrawn(page, "loss by step");
  await assertDrawn(page, "accuracy by step");
  await text(page, "An outside worker runs this trial");
  await page.getByRole("link", { name: "by-hand" }).click();
  await heading(page, "by-hand");
});

await step("one gets around by keyboard", async () => {
  await page.keyboard.press("Tab");
  await page.goto("/");
  await heading(page, "Studies");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
  await page.getByRole("link", { name: "by-hand" }).focus();
  await page.keyboard.press("Enter");
  await heading(page, "by-hand");
  await page.getByRole("button", { name: "Stop…" }).click();
  await page.getByRole("dialog").getByText("Stop this study?").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
});

await step("the cluster shows its devices and who is on them; a trial its width, why, and its log", async () => {
  const study = await inside("by-agent", 1, 200);
  await page.goto("/cluster");
  await page.locator(".device a", { hasText: "by-agent" }).first().click();
  await heading(page, "Trial 0");
  await assertDrawn(page, "Width over time, in devices");
  await page.getByRole("log").or(page.getByText("Nothing written yet")).waitFor();
  await page.locator(".why", { hasText: /\w/ }).waitFor();
  await page.getByRole("link", { name: "by-agent" }).click();
  await assertDrawn(page, "Who held how many devices when, a colour a trial");
  await page.getByRole("button", { name: "Stop…" }).click();
  await page.getByRole("button", { name: "Stop the study" }).click();
  await page
    .locator(".state", { hasText: "cancelled" })
    .or(page.locator(".state", { hasText: "completed" }))
    .first()
    .waitFor();
  assert.equal((await call("GET", `/studies/${study.id}`)).counts.running, 0);
});

await step("dark is dark, is kept, and goes back", async () => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByRole("button", { name: "Switch to dark" }).click();
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  await page.getByRole("button", { name: "Switch to light" }).waitFor();
  assert.equal(await ground(), dark);
  await page.getByRole("button", { name: "Switch to light" }).click();
  assert.equal(await ground(), light);
});

await step("ten thousand trials: few rows are drawn, and one gets to any of them", async () => {
  const huge = await outside("huge", 10_000);
  for (const trial of await suggest(huge, 100)) {
    await measure(trial, 1, 1 + trial.number / 1000);
    await measure(trial, 2, 0.5 + trial.number / 1000);
    await complete(trial);
  }
  await please("multiply", huge.id);
  const rows = () => page.locator("tbody tr.row").count();
  await page.goto(`/studies/${huge.id}/trials`);
  await text(page, "10,000 trials");
  await page.getByRole("link", { name: "9999", exact: true }).waitFor();
  const view = page.getByRole("region", { name: "Trials" });
  assert.ok((await rows()) <= 60, `${await rows()} rows are drawn`);
  await view.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await page.getByRole("link", { name: "0", exact: true }).waitFor();
  assert.ok((await rows()) <= 60, `${await rows()} rows are drawn`);
  await page.getByRole("button", { name: "loss" }).click();
  await page.getByRole("columnheader", { name: "loss" }).and(page.locator("[aria-sort=descending]")).waitFor();
  await page.getByRole("button", { name: "loss" }).click();
  await page
    .getByRole("row", { name: /completed 0\.5000 2 steps/ })
    .first()
    .waitFor();
  await page.getByRole("link", { name: "Overview" }).click();
  await assertDrawn(page, "loss by step, a line a trial");
  await assertDrawn(page, /Parallel coordinates/);
  await text(page, "9,000 trials not drawn");
});

await step("every view fits a phone", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  const views = ["/", "/cluster", `/studies/${small.id}`, `/studies/${small.id}/trials`, `/studies/${small.id}/configuration`];
  for (const path of [...views, `/trials/${trials[0].id}`, "/nowhere"]) {
    await page.goto(path);
    await page.getByRole("heading", { level: 1 }).or(page.getByText("There is nothing here")).first().waitFor();
    await assertFits(page);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
});

await step(
  "what is not there is said to be so",
  async () => {
    await page.goto("/trials/00000000-0000-0000-0000-000000000000");
    await text(page, "There is nothing here");
  },
  /status of 404/,
);

await step(
  "the service is killed: the page says so, keeps what it shows, and goes on by itself",
  async () => {
    await page.goto(`/studies/${small.id}`);
    await page.locator(".live.on").waitFor();
    await page.evaluate(() => (window.loadedOnce = true));
    await please("kill");
    await text(page, "The service does not answer");
    await page.getByText("Connecting…").waitFor();
    await page.locator(".tile", { hasText: "Best loss" }).getByText("0.1250").waitFor();
    await please("resume");
    await page.getByText("The service does not answer").waitFor({ state: "hidden" });
    await page.locator(".live.on").waitFor();
    await measure(trials[1], 2, 0.0625);
    await page.locator(".tile", { hasText: "Best loss" }).getByText("0.06250").waitFor();
    assert.ok(await page.evaluate(() => window.loadedOnce), "the page was loaded anew");
  },
  CUT,
);

await close();
console.log("done");
process.exit(0);
