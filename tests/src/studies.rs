//! Documents of small studies. Used by the tests.

/// Trials of `epochs` epochs of a small network, without early stopping.
pub fn plain(name: &str, algorithm: &str, trials: u32, epochs: u32, max_width: u32) -> String {
    format!(
        "name: {name}
metrics: [{{name: val_accuracy, goal: maximize}}]
search_space:
  lr: {{type: float, min: 0.01, max: 0.2, scale: log}}
  momentum: {{type: float, min: 0.0, max: 0.9}}
algorithm: {{name: {algorithm}, seed: 11}}
workload: {{kind: builtin, name: fashion-mnist-mlp, batch_size: 64, shards: 4, epochs: {epochs}}}
resources: {{min_width: 1, max_width: {max_width}}}
budget: {{max_trials: {trials}, max_parallel: {trials}}}
"
    )
}

/// ASHA by promotion from 1 to 16 epochs.
pub fn asha(name: &str, trials: u32, max_width: u32) -> String {
    plain(name, "sobol", trials, 1, max_width).replace(", epochs: 1", "")
        + "early_stopping: {name: asha, min_resource: 1, max_resource: 16, reduction_factor: 4}\n"
}

/// Trials that outside workers run.
pub fn outside(name: &str, trials: u32) -> String {
    format!(
        "name: {name}
metrics: [{{name: loss, goal: minimize}}]
search_space:
  x: {{type: float, min: -1.0, max: 1.0}}
algorithm: {{name: random, seed: 5}}
budget: {{max_trials: {trials}, max_parallel: {trials}}}
"
    )
}
