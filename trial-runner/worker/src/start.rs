//! From a worker's configuration to a trainer that could take its first step. Called by `main`, off the training thread and at
//! low priority, so that a joining process takes nothing from those that train.

use std::path::Path;

use anyhow::Context;
use elastune_api::agent::Exit;
use elastune_api::worker::WorkerConfig;
use elastune_core::model::workload::{MAX_SHARDS, METRICS, bind};
use tch::Device;

use crate::checkpoint::Subject;
use crate::data::Data;
use crate::identity::Identity;
use crate::models::Network;
use crate::optimiser::Optimiser;
use crate::pulse::Pulse;
use crate::schedule::Schedule;
use crate::train::Trainer;

/// Larger batches or thread counts are a mistake.
const MOST: u32 = 65_536;

/// Reads the file that the only argument names.
pub fn config(path: &Path) -> anyhow::Result<WorkerConfig> {
    let text = std::fs::read(path).with_context(|| format!("the configuration {} cannot be read", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no worker's configuration", path.display()))
}

fn unusable(message: impl Into<String>) -> Exit {
    Exit::Unusable { message: message.into() }
}

fn device(name: &str) -> Result<Device, Exit> {
    match name.strip_prefix("cuda:").map(str::parse) {
        None if name == "cpu" => Ok(Device::Cpu),
        Some(Ok(index)) if tch::Cuda::device_count() > index as i64 => {
            c10d::kernels::pin().map_err(|error| Exit::Lost { message: error.to_string() })?;
            Ok(Device::Cuda(index))
        }
        _ => Err(Exit::Lost { message: format!("this build of libtorch has no device {name}") }),
    }
}

/// Loads the data and builds the network, all zero yet, kernels warm. Errors: `Unusable` for what another try would not mend,
/// `Lost` for what another node might.
pub fn build(config: &WorkerConfig, pulse: Pulse) -> Result<(Trainer, Subject), Exit> {
    let launch = &config.launch;
    let workload = &launch.workload;
    let parameters = bind(&workload.name, &launch.parameters).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|(name, message)| format!("{name}: {message}")).collect();
        unusable(lines.join("; "))
    })?;
    if let Some(name) = launch.metrics.iter().find(|name| !METRICS.contains(&name.as_str())) {
        return Err(unusable(format!("the workload {} does not report {name}; it reports {}", workload.name, METRICS.join(", "))));
    }
    if !(1..=MAX_SHARDS).contains(&workload.shards) || !(1..=MOST).contains(&workload.batch_size) {
        return Err(unusable(format!("shards must be from 1 to {MAX_SHARDS} and the batch size from 1 to {MOST}")));
    }
    let device = device(&config.device)?;
    let data = Data::load(&config.data, device).map_err(|error| Exit::Lost { message: format!("{error:#}") })?;
    let (network, layout) = Network::new(&workload.name, &parameters).ok_or_else(|| unusable("no such workload"))?;
    let schedule = Schedule { samples: data.train.len, batch_size: u64::from(workload.batch_size), shards: workload.shards };
    let subject = Subject {
        workload: workload.name.clone(),
        seed: launch.seed.0,
        batch_size: schedule.batch_size,
        shards: schedule.shards,
        samples: schedule.samples,
        identity: Identity::here(config.threads, &config.device),
        parameters,
    };
    let optimiser = Optimiser::new(&subject.parameters);
    let mut trainer = Trainer::new(network, layout, optimiser, data, schedule, launch.seed, pulse);
    trainer.warm_up();
    Ok((trainer, subject))
}
