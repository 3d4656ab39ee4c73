//! Early stopping: folds a study's events into rungs and says which trials go on. Pure; called by the service's reconciler and the simulator.

use serde::{Deserialize, Serialize};

/// What happens to a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// End it; what it measured stays.
    Stop,
    /// Save and give up its slots; it may be promoted later.
    Pause,
    /// Go on to the resource `run_until`.
    Promote { run_until: f64 },
}
