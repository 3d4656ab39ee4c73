//! Agent to worker and back: JSON lines over a Unix socket in the agent's state folder. The worker connects and says hello;
//! after an agent's restart it connects again with the same incarnation.

use std::net::SocketAddr;
use std::path::PathBuf;

use elastune_core::model::cluster::Slot;
use elastune_core::model::ids::{Incarnation, TrialId};
use serde::{Deserialize, Serialize};

use crate::agent::{Control, Exit, Launch, ReportBody};

/// The worker's only argument is a path to this, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerConfig {
    pub trial: TrialId,
    pub attempt: u32,
    pub incarnation: Incarnation,
    pub slot: Slot,
    pub launch: Launch,
    /// Where the agent listens.
    pub socket: PathBuf,
    /// Scratch space of this trial on this node: checkpoints and logs.
    pub folder: PathBuf,
    /// Where data sets lie.
    pub data: PathBuf,
    /// The checkpoint named in `launch`, already on this node's disk.
    pub checkpoint: Option<PathBuf>,
    /// Address to bind sockets for peers at; port 0.
    pub listen: SocketAddr,
    /// Intra-op threads: part of a trial's identity, since another count gives other bits.
    pub threads: u32,
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// For tests: sleep this long before saying READY.
    #[serde(default)]
    pub ready_delay_ms: u64,
    /// For benches: a file to which each committed step adds a line `monotonic_ns,step,generation,width`.
    #[serde(default)]
    pub trace: Option<PathBuf>,
}

/// Environment that a worker needs before its libraries are loaded: thread counts (another count gives other bits), and a heap
/// that keeps what it has, since large tensors are otherwise mapped anew at each step. A worker that lacks it starts itself again.
pub fn environment(threads: u32) -> Vec<(&'static str, String)> {
    let threads = threads.max(1).to_string();
    let heap = 32u64 << 20;
    vec![
        ("OMP_NUM_THREADS", threads.clone()),
        ("MKL_NUM_THREADS", threads),
        ("MALLOC_MMAP_THRESHOLD_", heap.to_string()),
        ("MALLOC_TRIM_THRESHOLD_", heap.to_string()),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8".into()),
    ]
}

/// What an agent tells a worker. Each replaces the one of its kind before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "to_worker", rename_all = "snake_case")]
pub enum ToWorker {
    Control {
        control: Control,
    },
    /// All ranks have waited in a collective for too long: the group is to break. Void once the worker's counter has moved on.
    Abort {
        counter: u64,
    },
    /// The agent has made durable everything up to this `number`; no need to send it again.
    Ack {
        count: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    Starting,
    Computing,
    InCollective,
    Saving,
    /// At its milestone, or broken and waiting for an order.
    Waiting,
}

/// What a worker tells its agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "to_agent", rename_all = "snake_case")]
pub enum ToAgent {
    Hello {
        incarnation: Incarnation,
        pid: u32,
    },
    /// Every 250 ms: `counter` moves with every shard, validation batch and MB written.
    Alive {
        counter: u64,
        activity: Activity,
    },
    /// To be passed on to the service; `number` counts from 1 within the incarnation, so that a resend is recognised.
    /// After connecting again a worker resends, in order, what no Ack has covered.
    Report {
        number: u64,
        body: ReportBody,
    },
    /// A checkpoint lies on this node's disk, under a name of its own and never written to again.
    /// `durable`: upload it and report it (milestone, pause, drain, every 5 minutes).
    /// A durable one takes a `number` of the same count as reports, and an Ack once the agent has secured it; others have 0.
    Saved {
        #[serde(default)]
        number: u64,
        path: PathBuf,
        sha256: String,
        bytes: u64,
        resource: f64,
        step: u64,
        durable: bool,
    },
    /// The last message: why it exits.
    Goodbye {
        exit: Exit,
    },
}
