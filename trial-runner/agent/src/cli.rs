//! The agent's command line: flags with `ELASTUNE_*` equivalents, checked and turned into a `Config`. Called by `main`.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

use crate::devices::DeviceChoice;

/// Starts, resizes and ends trial workers on this machine, as an elastune service asks.
#[derive(Debug, Parser)]
#[command(name = "trial-agent", version)]
pub struct Args {
    /// Address of the service, for instance http://127.0.0.1:8080
    #[arg(long, env = "ELASTUNE_SERVICE")]
    pub service: String,
    /// Join token; needed the first time only
    #[arg(long, env = "ELASTUNE_TOKEN", hide_env_values = true, conflicts_with = "token_file")]
    pub token: Option<Secret>,
    /// File that holds the join token
    #[arg(long, env = "ELASTUNE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// This node's name in the cluster [default: the host's name]
    #[arg(long, env = "ELASTUNE_NAME")]
    pub name: Option<String>,
    /// State folder: identity, unsent reports, trials' files
    #[arg(long, env = "ELASTUNE_STATE", default_value = "/var/lib/elastune/agent")]
    pub state: PathBuf,
    /// auto (GPUs, else CPU cores), cpu, cpu:N, or GPU indices such as 0,1
    #[arg(long, env = "ELASTUNE_DEVICES", default_value = "auto")]
    pub devices: DeviceChoice,
    /// Most trials that may share one GPU
    #[arg(long, env = "ELASTUNE_MAX_SHARERS", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub max_sharers: u8,
    /// Address, or a name that resolves to it, at which workers on other nodes reach this node's workers
    #[arg(long, env = "ELASTUNE_ADVERTISE", default_value = "127.0.0.1", value_parser = address)]
    pub advertise: IpAddr,
    /// Address, or a name of it, that this node's workers listen on for each other; their traffic is not authenticated
    #[arg(long, env = "ELASTUNE_LISTEN", default_value = "127.0.0.1", value_parser = address)]
    pub listen: IpAddr,
    /// The worker's program [default: trial-worker beside this program]
    #[arg(long, env = "ELASTUNE_WORKER")]
    pub worker: Option<PathBuf>,
    /// Where data sets lie
    #[arg(long, env = "ELASTUNE_DATA", default_value = "/usr/share/datasets")]
    pub data: PathBuf,
    /// What happens to the workers when the agent is asked to end
    #[arg(long, env = "ELASTUNE_ON_EXIT", default_value = "stop")]
    pub on_exit: OnExit,
    /// Seconds of silence after which a worker is killed
    #[arg(long, env = "ELASTUNE_SILENCE_S", default_value_t = 10.0, value_parser = seconds)]
    pub silence_s: f64,
    /// Seconds without progress after which a computing worker is killed
    #[arg(long, env = "ELASTUNE_STALL_S", default_value_t = 60.0, value_parser = seconds)]
    pub stall_s: f64,
    /// Seconds that all ranks of a group may wait in one collective before the group is broken up
    #[arg(long, env = "ELASTUNE_COLLECTIVE_S", default_value_t = 25.0, value_parser = seconds)]
    pub collective_s: f64,
    /// Seconds that a worker may take to start
    #[arg(long, env = "ELASTUNE_START_S", default_value_t = 120.0, value_parser = seconds)]
    pub start_s: f64,
    /// Seconds between SIGTERM and SIGKILL
    #[arg(long, env = "ELASTUNE_GRACE_S", default_value_t = 5.0, value_parser = seconds)]
    pub grace_s: f64,
    /// Seconds that workers get to save when all of them must end
    #[arg(long, env = "ELASTUNE_SAVE_S", default_value_t = 60.0, value_parser = seconds)]
    pub save_s: f64,
    /// Most bytes of unsent reports kept on disk before logs and progress are dropped
    #[arg(long, env = "ELASTUNE_SPOOL_BYTES", default_value_t = 64 << 20)]
    pub spool_bytes: u64,
}

/// What the agent's end means for its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnExit {
    /// They train on; a restarted agent takes them over.
    Keep,
    /// They save and exit first.
    Stop,
}

/// A token. Its Debug and Display forms don't show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Everything that the agent was told, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Without a slash at its end.
    pub service: String,
    pub join_token: Option<Secret>,
    pub name: String,
    pub state: PathBuf,
    pub devices: DeviceChoice,
    pub max_sharers: u8,
    pub advertise: IpAddr,
    pub listen: IpAddr,
    pub worker: PathBuf,
    pub data: PathBuf,
    pub on_exit: OnExit,
    pub limits: Limits,
    pub spool_bytes: u64,
}

/// How long things may take before the agent acts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Nothing heard of a worker.
    pub silence: Duration,
    /// Its counter stands still while it computes or saves.
    pub stall: Duration,
    /// All ranks of a group stand still in a collective.
    pub collective: Duration,
    /// From its start to its first counted work.
    pub start: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// The same where a worker should save first.
    pub save: Duration,
    /// For a worker of an earlier agent to connect again.
    pub adopt: Duration,
}

impl Args {
    /// Errors say which flag to change.
    pub fn config(self) -> Result<Config> {
        let service = self.service.trim_end_matches('/').to_owned();
        if !service.starts_with("http://") && !service.starts_with("https://") {
            bail!("--service must start with http:// or https://, not `{service}`");
        }
        let join_token = match (self.token, self.token_file) {
            (Some(token), _) => Some(token),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read --token-file {}", path.display()))?;
                Some(Secret::new(text.trim()))
            }
            (None, None) => None,
        };
        let worker = match self.worker {
            Some(path) => path,
            None => std::env::current_exe().context("cannot find this program's own path; give --worker")?.with_file_name("trial-worker"),
        };
        if !worker.is_file() {
            bail!("there is no worker program at {}; give --worker", worker.display());
        }
        let worker = worker.canonicalize().with_context(|| format!("cannot resolve {}", worker.display()))?;
        Ok(Config {
            service,
            join_token,
            name: self.name.unwrap_or_else(host_name),
            state: self.state,
            devices: self.devices,
            max_sharers: self.max_sharers,
            advertise: self.advertise,
            listen: self.listen,
            worker,
            data: self.data,
            on_exit: self.on_exit,
            limits: Limits {
                silence: Duration::from_secs_f64(self.silence_s),
                stall: Duration::from_secs_f64(self.stall_s),
                collective: Duration::from_secs_f64(self.collective_s),
                start: Duration::from_secs_f64(self.start_s),
                grace: Duration::from_secs_f64(self.grace_s),
                save: Duration::from_secs_f64(self.save_s),
                adopt: Duration::from_secs(15),
            },
            spool_bytes: self.spool_bytes,
        })
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "node".into() } else { name.trim().to_owned() }
}

/// Names are looked up once, here: workers and their peers must mean the same address for as long as the agent runs.
fn address(text: &str) -> Result<IpAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let mut found = (text, 0).to_socket_addrs().map_err(|error| format!("no IP address, and it cannot be looked up as a name: {error}"))?;
    found.next().map(|socket| socket.ip()).ok_or_else(|| "this name has no address".into())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=86_400.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds from 0 to 86400".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_shows() {
        let args = Args::try_parse_from(["trial-agent", "--service", "http://x", "--token", "hunter2"]).expect("valid");
        assert!(!format!("{args:?}").contains("hunter2"));
        assert_eq!(args.token.expect("given").reveal(), "hunter2");
    }

    #[test]
    fn nonsense_is_refused_with_the_flag_named() {
        let error = Args::try_parse_from(["trial-agent", "--service", "http://x", "--devices", "gpu?"]).expect_err("invalid");
        assert!(error.to_string().contains("--devices"));
        let error = Args::try_parse_from(["trial-agent", "--service", "http://x", "--advertise", "a name"]).expect_err("invalid");
        assert!(error.to_string().contains("--advertise"));
        let args = Args::try_parse_from(["trial-agent", "--service", "localhost:80"]).expect("clap can't know");
        assert!(args.config().expect_err("no scheme").to_string().contains("--service"));
    }

    #[test]
    fn an_address_may_be_given_by_name() {
        let args = ["trial-agent", "--service", "http://x", "--advertise", "localhost", "--listen", "127.0.0.3"];
        let args = Args::try_parse_from(args).expect("both are addresses");
        assert!(args.advertise.is_loopback());
        assert_eq!(args.listen, IpAddr::from([127, 0, 0, 3]));
    }
}
