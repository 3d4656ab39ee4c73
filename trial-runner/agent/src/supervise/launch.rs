//! Starting a worker: its folder, checkpoint and configuration first, which may take long; then the process. Called by `agent`.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use elastune_api::agent::DesiredWorker;
use elastune_api::worker::{WorkerConfig, environment};

use super::process::Process;
use super::{checkpoint, logs};
use crate::cli::Config;
use crate::devices::LocalDevice;
use crate::service::Service;
use crate::state::{self, Trials, private_folder};

/// Intra-op threads of a GPU's worker; the same everywhere, since another count is another trial.
const GPU_WORKER_THREADS: u32 = 4;

/// Everything that a start needs beside the desired worker itself.
#[derive(Debug)]
pub struct Ground<'a> {
    pub config: &'a Config,
    pub trials: &'a Trials,
    pub service: &'a Service,
    pub socket: &'a Path,
}

fn threads(device: &LocalDevice) -> u32 {
    if device.gpu_uuid.is_some() { GPU_WORKER_THREADS } else { 1 }
}

/// Makes the trial's folder, provides the checkpoint (waiting for the service if need be) and writes the configuration.
/// Answers its path. Errors: there is no such checkpoint, or the disk is full.
pub async fn prepare(ground: Ground<'_>, worker: &DesiredWorker, device: &LocalDevice) -> Result<PathBuf> {
    let folder = ground.trials.folder(worker.trial);
    private_folder(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let checkpoint = match &worker.launch.checkpoint {
        Some(checkpoint) => Some(checkpoint::provide(ground.service, ground.trials, worker.trial, checkpoint).await?),
        None => None,
    };
    let path = ground.trials.config(worker.trial, worker.incarnation);
    let config = WorkerConfig {
        trial: worker.trial,
        attempt: worker.attempt,
        incarnation: worker.incarnation,
        slot: worker.slot,
        launch: worker.launch.clone(),
        socket: ground.socket.to_owned(),
        folder,
        data: ground.config.data.clone(),
        checkpoint,
        listen: SocketAddr::new(ground.config.listen, 0),
        threads: threads(device),
        device: device.torch_name(),
        ready_delay_ms: 0,
        trace: None,
    };
    state::write(&path, &config)?;
    Ok(path)
}

/// Starts the process in a group of its own, so that it outlives the agent and dies with all that it started.
pub fn spawn(config: &Config, trials: &Trials, worker: &DesiredWorker, device: &LocalDevice, argument: &Path) -> Result<(Process, Child)> {
    let stdout = logs::create(&trials.stdout(worker.trial, worker.incarnation))?;
    let stderr = logs::create(&trials.stderr(worker.trial, worker.incarnation))?;
    let mut child = Command::new(&config.worker)
        .arg(argument)
        .current_dir(trials.folder(worker.trial))
        .env_remove("ELASTUNE_TOKEN")
        .env_remove("ELASTUNE_TOKEN_FILE")
        .envs(environment(threads(device)))
        .env("CUDA_VISIBLE_DEVICES", device.gpu_uuid.as_deref().unwrap_or(""))
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", config.worker.display()))?;
    match Process::of_child(&child) {
        Ok(process) => Ok((process, child)),
        Err(error) => {
            // What can't be watched must not run: its slot will be given to another.
            child.kill()?;
            child.wait()?;
            Err(error)
        }
    }
}
