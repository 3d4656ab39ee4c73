//! A trial's group of ranks and the order that is changing it: the row that carry-out keeps for every running trial.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::cluster::Slot;
use super::ids::{Incarnation, TrialId};
use super::width::Width;
use crate::time::Time;

/// One process of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Member {
    pub incarnation: Incarnation,
    pub slot: Slot,
    /// Its listening socket for the next store that it may have to host; None until it said READY.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub address: Option<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Joiners start, load and build; old ranks train on.
    Prepare,
    /// Members are frozen; every rank builds the new group beside the old one and the ranks decide when to switch.
    Armed,
}

/// A try at a new membership. (generation, order) is never reused within an attempt and prefixes the store's keys. Orders are
/// even where carry-out gives them, odd where a node's agent forms its own group anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Order {
    pub trial: TrialId,
    pub attempt: u32,
    /// The membership that it would make; one above the current one at the least.
    pub generation: u32,
    pub order: u32,
    pub phase: Phase,
    /// Of the new group, in rank order: stayers first, then joiners.
    pub members: Vec<Member>,
    /// Where the new group's store listens: the lowest stayer's socket, else the lowest joiner's. Set when armed.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub store: Option<SocketAddr>,
    /// Survivors of a crash re-form: the old group is broken, so nobody waits for a common step.
    pub crash: bool,
    /// Joiners not ready by then are dropped (Prepare); the order is given up (Armed).
    pub deadline: Time,
}

/// How a trial's processes should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// Save a durable checkpoint, report it, exit: the trial goes on later (paused, or preempted and waiting).
    Save,
    /// Exit at the end of the step: nothing more is wanted of it.
    Stop,
}

/// The carry-out row. Written only `WHERE attempt = and generation = and order =`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Group {
    pub trial: TrialId,
    pub attempt: u32,
    /// 0 until the attempt's first step is committed.
    pub generation: u32,
    /// The highest order of this attempt that was given or heard of; 0 before the first.
    pub order: u32,
    /// The current membership, in rank order; empty while generation is 0.
    pub members: Vec<Member>,
    /// Of the same generation, and gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Member>,
    /// The order under way.
    pub next: Option<Order>,
    /// Left the group, may still be sending state; gone once they exit.
    pub leavers: Vec<Member>,
    /// Resource at which the ranks halt.
    pub run_until: f64,
    pub finish: Option<Finish>,
    /// Slots that the current plan gives, in rank order; what `next` works towards.
    pub target: Vec<Slot>,
    pub plan: u64,
    pub last_resize: Option<Time>,
    /// Orders that failed since the target last changed or was last reached.
    pub failures: u32,
    /// The last armed order that was given up: its ranks may have switched all the same, and then they are right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned: Option<Order>,
    /// When a member was first known to be gone or the group to be broken; until survivors have re-formed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crashed: Option<Time>,
    /// Members that are in no group any more and said so, since `crashed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Incarnation>,
    /// Processes still there by then are given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_by: Option<Time>,
    /// Why the attempt will have ended, once its last process is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<AttemptEnd>,
}

impl Group {
    /// What it holds by its current membership, or by its first order while it has none.
    pub fn width(&self) -> Width {
        let members = match (&self.next, self.members.is_empty()) {
            (Some(next), true) => &next.members,
            _ => &self.members,
        };
        match members.as_slice() {
            [only] if only.slot.parts > 1 => Width::Fraction(only.slot.parts),
            members => Width::Devices(members.len() as u16),
        }
    }
}

/// Why an attempt is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It saved as asked (preempted), or stopped as asked.
    Asked,
    /// Counts as a failure.
    Lost {
        message: String,
    },
    /// Not a failure of the trial: its node went away.
    NodeLost,
    OutOfMemory {
        peak_bytes: u64,
    },
    /// Another try would fail the same way.
    Unusable {
        message: String,
    },
}

/// Why a process is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "exit", rename_all = "snake_case")]
pub enum Exit {
    /// As asked: it left the group, saved, or was stopped.
    Clean,
    OutOfMemory {
        peak_bytes: u64,
    },
    /// The parameters or data are at fault; another try would fail the same way.
    Unusable {
        message: String,
    },
    /// Crashed, was killed, never became ready.
    Lost {
        message: String,
    },
}
