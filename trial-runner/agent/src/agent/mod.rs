//! The agent itself: sets everything up, starts its loops and turns until it is asked to end. Called by `main`.

mod folders;
mod groups;
mod node;
mod rounds;
mod worker;

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use elastune_api::agent::Desired;
use elastune_core::model::ids::Incarnation;
use elastune_core::time::Time;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::cli::{Config, OnExit};
use crate::outbox::Outbox;
use crate::service::Service;
use crate::state::StateFolder;
use crate::supervise::link::{self, Post, Said};
use crate::{devices, supervise};
use node::Node;

/// How often liveness, logs and deadlines are looked at.
const TICK: Duration = Duration::from_millis(250);
/// How long the last reports may take to reach the service when the agent ends; they stay on disk otherwise.
const FLUSH: Duration = Duration::from_secs(5);

/// What the agent's one decision-making task is told by its loops.
#[derive(Debug)]
pub enum Event {
    Desired(Box<Desired>),
    Said {
        incarnation: Incarnation,
        link: u64,
        said: Said,
    },
    /// Its folder, checkpoint and configuration are there, or can't be.
    Prepared {
        incarnation: Incarnation,
        outcome: Result<std::path::PathBuf>,
    },
    /// Its process is gone.
    Exited {
        incarnation: Incarnation,
        status: Option<ExitStatus>,
    },
}

pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Runs until SIGTERM or SIGINT. Errors: the state folder, socket or devices can't be used; an unreachable service is none.
pub async fn run(config: Config) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let config = Arc::new(config);
    let state = Arc::new(StateFolder::open(&config.state)?);
    let devices = devices::discover(&config.devices, config.max_sharers)?;
    let service = Arc::new(Service::new(&config.service, state.identity()?)?);
    let outbox = Arc::new(Outbox::open(&state.outbox(), config.spool_bytes)?);
    let incarnations = supervise::incarnations::Incarnations::open(&state.incarnations())?;
    let socket = state.socket()?;
    let (events, mut inbox) = mpsc::channel(1024);
    let (alive, heartbeats) = watch::channel(Vec::new());
    let request = rounds::request(&config, &devices);
    let mut node =
        Node::new(config.clone(), state.clone(), service.clone(), outbox.clone(), devices, incarnations, socket.clone(), events.clone())?;
    node.adopt();
    let post = Post { outbox: outbox.clone(), trials: state.trials(), events: events.clone(), advertise: config.advertise };
    let mut loops = tokio::task::JoinSet::new();
    loops.spawn(link::listen(&socket, post)?);
    loops.spawn(rounds::talk(config.clone(), state.clone(), service.clone(), request, heartbeats, events));
    loops.spawn(outbox.clone().upload_checkpoints(service.clone()));
    let sender = outbox.clone();
    loops.spawn(async move { sender.send_reports(&service).await });
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tracing::info!(name = config.name, state = %config.state.display(), "the agent runs");
    loop {
        tokio::select! {
            Some(event) = inbox.recv() => node.handle(event),
            _ = ticks.tick() => node.tick(),
            _ = terminate.recv() => node.close(),
            _ = interrupt.recv() => node.close(),
        }
        alive.send_if_modified(|known| {
            let alive = node.alive();
            let changed = *known != alive;
            *known = alive;
            changed
        });
        if node.is_closed() {
            break;
        }
    }
    let flush = if config.on_exit == OnExit::Stop { FLUSH } else { Duration::from_millis(500) };
    let _ = tokio::time::timeout(flush, async {
        while !outbox.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    tracing::info!(unsent = !outbox.is_empty(), "the agent ends");
    Ok(())
}
