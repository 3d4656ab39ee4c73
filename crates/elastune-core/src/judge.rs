//! Early stopping's two questions: which trials go on now, and which paused ones never will. Called by the service's reconciler
//! and the simulator, after folding a study's events into a `JudgeMemory`.
//!
//! No verdict completes a trial: one that has measured at `max_resource` is complete by that alone.

use serde::{Deserialize, Serialize};

pub use crate::early_stopping::memory::{Incumbent, JudgeMemory, fold, incumbent};
pub use crate::early_stopping::{groups, idle, judge};
use crate::model::ids::TrialId;

/// What happens to a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// End it (pruned, `early_stopped`); what it measured stays.
    Stop,
    /// Save and give up its slots; it may be promoted later.
    Pause,
    /// Go on to the resource `run_until`.
    Promote { run_until: f64 },
    /// It was not promoted and never will be (pruned, `not_promoted`); what it measured stays.
    Close,
}

/// A verdict and its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub trial: TrialId,
    pub verdict: Verdict,
    /// A sentence that a user reads: `rung 4 epochs: 3rd of 9, the best 2 go on`.
    pub text: String,
}
