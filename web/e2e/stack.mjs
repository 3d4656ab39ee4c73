// What the browser test needs of the stack: the REST API with the admin's token, outside workers, and the Rust test that started all.
import { createInterface } from "node:readline";

const { ELASTUNE_SERVER: server, ELASTUNE_TOKEN: token } = process.env;
if (!server || !token) throw new Error("ELASTUNE_SERVER and ELASTUNE_TOKEN are missing: tests/tests/browser.rs sets them");

export { server, token };

export async function call(method, path, body) {
  const yaml = typeof body === "string";
  const response = await fetch(`${server}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": yaml ? "application/yaml" : "application/json" },
    body: yaml || body === undefined ? body : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** A study that outside workers run. */
export function outside(name, trials) {
  return call(
    "POST",
    "/studies",
    `name: ${name}
metrics: [{name: loss, goal: minimize}]
search_space:
  lr: {type: float, min: 1.0e-4, max: 1.0, scale: log}
  layers: {type: int, min: 1, max: 8}
  optimizer: {type: categorical, values: [sgd, adam]}
  momentum: {type: float, min: 0.0, max: 0.9, when: {optimizer: [sgd]}}
algorithm: {name: random, seed: 3}
budget: {max_trials: ${trials}, max_parallel: 100}
`,
  );
}

/** A study that the node's agent runs. */
export function inside(name, trials, epochs) {
  return call(
    "POST",
    "/studies",
    `name: ${name}
metrics: [{name: val_accuracy, goal: maximize}]
search_space:
  lr: {type: float, min: 0.01, max: 0.2, scale: log}
  momentum: {type: float, min: 0.0, max: 0.9}
algorithm: {name: sobol, seed: 11}
workload: {kind: builtin, name: fashion-mnist-mlp, batch_size: 64, shards: 4, epochs: ${epochs}}
resources: {min_width: 1, max_width: 2}
budget: {max_trials: ${trials}, max_parallel: ${trials}}
`,
  );
}

/** Takes trials of a study as an outside worker does. */
export async function suggest(study, count) {
  const { trials } = await call("POST", `/studies/${study.id}/trials:suggest`, { worker: "browser-test", count, wait_s: 10 });
  if (trials.length !== count) throw new Error(`${count} trials were wanted, ${trials.length} given`);
  for (const trial of trials) held.set(trial.id, trial.lease);
  return trials;
}

/** Trials taken and not given back, with their leases. */
const held = new Map();

// What every outside worker does: a lease without a heartbeat is taken away. While the service is down nobody can, nor need.
setInterval(() => {
  for (const [id, lease] of held) call("POST", `/trials/${id}:heartbeat`, { lease }).catch(() => {});
}, 10_000).unref();

export function measure(trial, step, loss) {
  const measurements = [{ step, metrics: { loss, accuracy: 1 / (1 + loss) }, elapsed_s: step }];
  return call("POST", `/trials/${trial.id}/measurements`, { lease: trial.lease, measurements });
}

export function complete(trial) {
  held.delete(trial.id);
  return call("POST", `/trials/${trial.id}:complete`, { lease: trial.lease });
}

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the Rust test to do what only it can, such as to kill the service, and waits until it has. */
export async function please(...words) {
  console.log(`@${words.join(" ")}`);
  const { value, done } = await answers.next();
  if (done || value !== "done") throw new Error(`the test that started this did not do \`${words.join(" ")}\``);
}
