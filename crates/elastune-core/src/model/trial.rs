//! A trial's states, reasons and what a decision sees of it.

use serde::{Deserialize, Serialize};

use super::ids::TrialId;
use super::space::Params;
use super::width::Width;
use crate::time::{Span, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
    Waiting,
    Starting,
    Running,
    Resizing,
    Paused,
    Stopping,
    Completed,
    Pruned,
    Failed,
    Cancelled,
}

impl TrialState {
    pub fn is_final(self) -> bool {
        matches!(self, TrialState::Completed | TrialState::Pruned | TrialState::Failed | TrialState::Cancelled)
    }
    /// Holds slots or wants them.
    pub fn is_live(self) -> bool {
        !self.is_final() && self != TrialState::Paused
    }
}

/// Why a trial is not simply completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    NoMetric,
    WorkerLost,
    Preempted,
    OutOfMemory,
    Infeasible,
    Timeout,
    NotPromoted,
    NotStarted,
    EarlyStopped,
    StudyEnded,
    Error,
    User,
}

/// Seconds that one unit of resource (an epoch) took at a width, newest last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RateSample {
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub width: Width,
    /// Nodes that the ranks lay on.
    pub nodes: u16,
    pub seconds_per_unit: f64,
}

/// Where a trial can resume from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CheckpointRef {
    pub sha256: String,
    /// Resource done when it was taken.
    pub resource: f64,
    /// Optimiser steps done when it was taken.
    pub step: u64,
    pub bytes: u64,
}

/// What a decision sees of a trial that is not final.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialView {
    pub id: TrialId,
    /// From 0 within its study, gap-free.
    pub number: u32,
    pub parameters: Params,
    pub state: TrialState,
    /// The attempt that runs, or the one that would start next; from 1, raised when an attempt ends.
    pub attempt: u32,
    /// The resource at which it halts and asks.
    pub run_until: f64,
    /// Resource done.
    pub done: f64,
    pub rates: Vec<RateSample>,
    /// What it holds now by its carry-out row; zero if nothing.
    pub width: Width,
    /// It is in mid-switch, so its width must stay.
    pub frozen: bool,
    /// It has reached `run_until` and waits for a verdict.
    pub held: bool,
    pub restart_cost: Span,
    pub last_resize: Option<Time>,
    /// Measurements since the last resize.
    pub results_since_resize: u32,
    pub checkpoint: Option<CheckpointRef>,
    /// It ran out of memory once: place it alone on a device.
    pub alone: bool,
}
