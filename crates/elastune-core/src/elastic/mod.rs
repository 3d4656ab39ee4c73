//! The switch protocol's controller: `carry_out` steers a trial's group of ranks to what the plan gives it. Holds no opinion.
//! Called by the service, in the transaction that stores what happened, and by the simulator.

mod alone;
mod carry_out;
mod hear;
mod steer;

pub use alone::Survivors;
pub use carry_out::carry_out;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::model::cluster::Slot;
pub use crate::model::group::AttemptEnd;
use crate::model::group::{Exit, Group, Member};
use crate::model::ids::{Incarnation, NodeId, TrialId};
use crate::model::width::Width;
use crate::time::Time;

/// What the trial's row and the current plan want of its processes. Decided by state alone:
/// a live trial with a plan entry of its attempt runs; a live one without saves (it is preempted); paused, stopping and
/// final ones, and any whose `attempt` is above its group's, stop.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    Run { slots: Vec<Slot>, run_until: f64, plan: u64 },
    Save,
    Stop,
}

/// What happened to a process of the group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    Ready {
        incarnation: Incarnation,
        address: SocketAddr,
    },
    /// First step of a generation committed by this rank, together with `members` (in rank order).
    Committed {
        incarnation: Incarnation,
        generation: u32,
        order: u32,
        step: u64,
        members: Vec<Incarnation>,
        address: SocketAddr,
    },
    /// The group broke under this rank; `address` is its next store socket.
    Broken {
        incarnation: Incarnation,
        generation: u32,
        /// The highest that it took up.
        order: u32,
        step: u64,
        /// The generation on which it last committed a step, and with whom; 0 and nobody if it never did.
        committed: u32,
        members: Vec<Member>,
        address: SocketAddr,
    },
    /// This rank could not take part; the old group goes on.
    OrderFailed {
        incarnation: Incarnation,
        generation: u32,
        order: u32,
        error: String,
        address: SocketAddr,
    },
    Exited {
        incarnation: Incarnation,
        exit: Exit,
    },
    /// The node is silent, or removed (`for_good`). Its processes are dropped, never waited for, except where nobody else holds
    /// the state and the plan has no other place for the trial: then they may as well come back.
    NodeLost {
        node: NodeId,
        for_good: bool,
    },
}

/// What the caller must do in the same transaction that stores the group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// A generation became the membership: the attempt's first (the trial is running) or a later one (it was resized).
    Stable { generation: u32, width: Width, step: u64 },
    /// No process is left. The trial's attempt is over.
    Ended { end: AttemptEnd },
    /// For the trial's history.
    Note { text: String },
}

/// The row to store (None: delete it), what follows from it, and when to be asked again at the latest.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub group: Option<Group>,
    pub effects: Vec<Effect>,
    pub wake_at: Option<Time>,
}

/// Names the attempt that a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub trial: TrialId,
    pub attempt: u32,
}
