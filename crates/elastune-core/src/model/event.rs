//! What happened, in order: append-only rows with a `seq` per study. The memories of `propose` and `judge` are folds over them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ids::TrialId;
use super::space::Params;
use super::study::{StudySpec, StudyState};
use super::trial::{CheckpointRef, Reason, TrialState};
use super::width::Width;
use crate::time::Time;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyEvent {
    /// From 1, without gaps, in commit order.
    pub seq: u64,
    pub at: Time,
    pub event: Event,
}

/// A metric's value, or why there is none (`nan`, `inf`, `-inf`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum MetricValue {
    Number(f64),
    NotFinite(String),
}

impl MetricValue {
    pub fn new(value: f64) -> Self {
        if value.is_finite() {
            MetricValue::Number(value)
        } else if value.is_nan() {
            MetricValue::NotFinite("nan".into())
        } else if value > 0.0 {
            MetricValue::NotFinite("inf".into())
        } else {
            MetricValue::NotFinite("-inf".into())
        }
    }
    pub fn number(&self) -> Option<f64> {
        match self {
            MetricValue::Number(value) => Some(*value),
            MetricValue::NotFinite(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    StudyCreated {
        spec: Box<StudySpec>,
    },
    /// Limits or space changed by a user.
    StudyChanged {
        spec: Box<StudySpec>,
    },
    StudyState {
        state: StudyState,
        reason: Option<String>,
    },
    /// One trial proposed (by the algorithm, or enqueued by a user).
    Proposed {
        trial: TrialId,
        number: u32,
        parameters: Params,
        #[serde(with = "super::unbounded")]
        run_until: f64,
    },
    /// The trial with the highest number was never started and is gone; its number is free again.
    Unproposed {
        trial: TrialId,
        number: u32,
    },
    /// An early-stopping verdict took effect.
    Judged {
        trial: TrialId,
        verdict: crate::judge::Verdict,
        text: String,
    },
    /// The trial's state changed.
    Changed {
        trial: TrialId,
        state: TrialState,
        reason: Option<Reason>,
        attempt: u32,
    },
    /// A user hid a finished trial from the algorithm, or showed it again.
    Excluded {
        trial: TrialId,
        excluded: bool,
    },
    Measured {
        trial: TrialId,
        resource: f64,
        metrics: BTreeMap<String, MetricValue>,
        elapsed_s: f64,
    },
    Checkpointed {
        trial: TrialId,
        checkpoint: CheckpointRef,
    },
    /// The group of ranks changed: a generation's first step was committed.
    Resized {
        trial: TrialId,
        attempt: u32,
        generation: u32,
        width: Width,
        step: u64,
    },
    /// A joiner failed, a rank was lost, a re-forming began: what a user should be able to read later.
    Noted {
        trial: Option<TrialId>,
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_without_bound_reads_back() {
        let event = Event::Proposed { trial: TrialId(uuid::Uuid::nil()), number: 0, parameters: Params::new(), run_until: f64::INFINITY };
        let text = serde_json::to_string(&event).expect("an event is plain");
        assert_eq!(serde_json::from_str::<Event>(&text).expect("it reads back"), event);
    }
}
