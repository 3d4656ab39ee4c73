//! The controller's one function. Called through `elastic::carry_out`.

use super::{Attempt, Fact, Step, Want};
use crate::model::group::Group;
use crate::time::Time;

/// Takes the stored group (None: no process of the trial exists), what is wanted, and what happened since; gives the group
/// to store. Idempotent: the same facts again change nothing.
pub fn carry_out(attempt: Attempt, group: Option<Group>, want: &Want, facts: &[Fact], now: Time) -> Step {
    let _ = (attempt, want, facts, now);
    Step { group, effects: Vec::new(), wake_at: None }
}
