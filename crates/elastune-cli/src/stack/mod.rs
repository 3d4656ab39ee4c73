//! The embedded stack on one machine: a private Postgres, the service, one agent; each a process of its own, supervised and
//! ended by its pid. Called by `up` and `demo`.

mod child;
mod leftovers;
mod postgres;
mod state;

pub use state::{State, admin_token_file, default_folder};

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use elastune_api::client::Client;
use elastune_api::cluster::JoinRequest;
use elastune_core::model::cluster::NodeState;

use child::{Child, Supervised};
use postgres::Postgres;

/// What the stack should be.
#[derive(Debug, Clone)]
pub struct Setup {
    pub state: PathBuf,
    pub listen: SocketAddr,
    pub devices: String,
    pub data: PathBuf,
    /// None: a private Postgres in the state folder.
    pub database_url: Option<String>,
}

/// A running stack. `stop` ends it in order; dropped without it, the processes are killed.
#[derive(Debug)]
pub struct Stack {
    pub client: Client,
    pub logs: PathBuf,
    agent: Supervised,
    service: Supervised,
    postgres: Option<Supervised>,
    state: Arc<State>,
}

/// Time for the service to answer, migrations of a large database included.
const READY: Duration = Duration::from_secs(60);

impl Stack {
    /// Starts what is missing and returns once the service is ready and the agent has joined. Errors say what to do.
    pub async fn start(setup: &Setup) -> Result<Stack> {
        let state = Arc::new(State::open(&setup.state)?);
        leftovers::end(&state).await?;
        ensure_free(setup.listen)?;
        let (service_program, agent_program) = (sibling("elastune-service")?, sibling("trial-agent")?);
        sibling("trial-worker")?;

        let (postgres, database_url) = match &setup.database_url {
            Some(url) => (None, url.clone()),
            None => {
                let postgres = Postgres::prepare(&state)?;
                let url = postgres.url();
                let child = Supervised::start(postgres.child(&state), state.clone())?;
                child.until_ready(READY, async || postgres.is_ready()).await?;
                (Some(child), url)
            }
        };

        // Known once the service listens, since it may choose the port; kept when it is started again.
        let address = Arc::new(OnceLock::new());
        let port_file = state.root().join("address");
        forget(&port_file)?;
        let serve = Child {
            name: "service",
            log: state.log("service"),
            end: rustix::process::Signal::TERM,
            grace: Duration::from_secs(20),
            command: {
                let (asked, address, port_file, token_file) = (setup.listen, address.clone(), port_file.clone(), state.admin_token_file());
                let checkpoints = state.folder("checkpoints")?;
                Box::new(move || {
                    let mut command = Command::new(&service_program);
                    command
                        .arg("serve")
                        .arg("--listen")
                        .arg(address.get().unwrap_or(&asked).to_string())
                        .arg("--port-file")
                        .arg(&port_file);
                    command.arg("--checkpoints").arg(&checkpoints).arg("--admin-token-file").arg(&token_file);
                    command.env("DATABASE_URL", &database_url);
                    command
                })
            },
        };
        let service = Supervised::start(serve, state.clone())?;
        let read = || std::fs::read_to_string(&port_file).ok()?.trim().parse::<SocketAddr>().ok();
        service.until_ready(READY, async || read().is_some_and(|read| *address.get_or_init(|| read) == read)).await?;
        let server = format!("http://{}", reachable(*address.get().context("the service gave no address")?));
        let anonymous = Client::new(&server, None)?;
        service.until_ready(READY, async || anonymous.ready().await.is_ok()).await?;
        let token = std::fs::read_to_string(state.admin_token_file())
            .with_context(|| format!("the service left no admin token at {}", state.admin_token_file().display()))?;
        let token = token.trim().to_string();
        let client = Client::new(&server, Some(&token))?;

        let join = client.join_token(&JoinRequest::default()).await.context("cannot make a join token for this machine's agent")?;
        let agent_state = state.folder("agent")?;
        let (devices, data, to) = (setup.devices.clone(), setup.data.clone(), server.clone());
        let run = Child {
            name: "agent",
            log: state.log("agent"),
            end: rustix::process::Signal::TERM,
            grace: Duration::from_secs(90),
            command: Box::new(move || {
                let mut command = Command::new(&agent_program);
                command.arg("--service").arg(&to).arg("--state").arg(&agent_state).arg("--devices").arg(&devices);
                command.arg("--data").arg(&data).env("ELASTUNE_TOKEN", &join.token);
                command
            }),
        };
        let agent = Supervised::start(run, state.clone())?;
        agent
            .until_ready(READY, async || client.nodes().await.is_ok_and(|nodes| nodes.iter().any(|n| n.state == NodeState::Ready)))
            .await?;
        Ok(Stack { client, logs: state.logs(), agent, service, postgres, state })
    }

    /// An address that logs a browser in, once.
    pub async fn login_link(&self) -> Result<String> {
        crate::commands::login::url(&self.client).await
    }

    /// Workers save and exit, then the agent, the service and Postgres end. Every failure is told, none keeps the next from ending.
    pub async fn stop(self) {
        self.agent.stop().await;
        self.service.stop().await;
        if let Some(postgres) = self.postgres {
            postgres.stop().await;
        }
        self.state.forget_processes();
    }
}

/// The program that was built beside this one.
fn sibling(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    let path = own.with_file_name(name);
    if !path.is_file() {
        bail!("there is no {name} beside {}; build it with `make build`", own.display());
    }
    Ok(path)
}

/// Removes what an earlier run wrote there.
fn forget(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(|| format!("cannot remove {}", path.display())),
        _ => Ok(()),
    }
}

fn ensure_free(listen: SocketAddr) -> Result<()> {
    match std::net::TcpListener::bind(listen) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!("{listen} is in use; choose another address with --listen"),
        Err(error) => Err(error).with_context(|| format!("cannot listen on {listen}")),
    }
}

/// Where a client on this machine reaches a socket that listens there.
fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (std::net::Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (std::net::Ipv6Addr::LOCALHOST, v6.port()).into(),
        other => other,
    }
}

/// Asks `done` until it holds, every 50 ms. False if it never did within `limit`.
async fn poll(limit: Duration, mut done: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if done().await {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
