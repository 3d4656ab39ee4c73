//! A plan: the whole desired placement, immutable and numbered, with a reason for everything in it.

use serde::{Deserialize, Serialize};

use super::cluster::Slot;
use super::ids::{StudyId, TrialId};
use super::width::Width;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlanEntry {
    pub trial: TrialId,
    pub attempt: u32,
    pub run_until: f64,
    /// One a rank, in rank order; never empty.
    pub slots: Vec<Slot>,
}

impl PlanEntry {
    pub fn width(&self) -> Width {
        match self.slots.as_slice() {
            [only] if only.parts > 1 => Width::Fraction(only.parts),
            slots => Width::Devices(slots.len() as u16),
        }
    }
}

/// Trials that are live but not in `entries` hold nothing: they wait, or their processes save and exit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Plan {
    pub number: u64,
    pub parent: u64,
    pub entries: Vec<PlanEntry>,
    /// Slots kept for trials that a study has still to propose.
    pub open: Vec<OpenSlot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenSlot {
    pub study: StudyId,
    pub slot: Slot,
}

/// Why a trial has the width it has, or waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explanation {
    pub trial: TrialId,
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub width: Width,
    /// Machine-readable: `kept`, `grown`, `shrunk`, `started`, `waiting_for_capacity`, `guarded`, `frozen`...
    pub code: String,
    /// A sentence a user reads.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Report {
    pub trials: Vec<Explanation>,
    /// What concerns no single trial.
    pub notes: Vec<String>,
}
