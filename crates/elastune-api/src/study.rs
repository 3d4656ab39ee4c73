//! Studies over REST: documents in, summaries, curves and exports out.

use std::collections::BTreeMap;

use elastune_core::model::event::MetricValue;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::space::Params;
use elastune_core::model::study::{Metric, StudySpec, StudyState};
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::FieldError;
use crate::trial::WidthPoint;

/// `GET /studies/{id}` and, without `spec`, a line of `GET /studies`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Study {
    pub id: StudyId,
    pub name: String,
    /// What is optimised: the first metric of the document.
    pub metric: Metric,
    pub state: StudyState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub archived: bool,
    pub created: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    pub counts: TrialCounts,
    pub max_trials: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<BestTrial>,
    /// Device-seconds used so far.
    pub device_seconds: f64,
    /// Number of the study's newest event.
    pub seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<StudySpec>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TrialCounts {
    pub waiting: u32,
    pub starting: u32,
    pub running: u32,
    pub resizing: u32,
    pub paused: u32,
    pub stopping: u32,
    pub completed: u32,
    pub pruned: u32,
    pub failed: u32,
    pub cancelled: u32,
}

impl TrialCounts {
    pub fn add(&mut self, state: TrialState, count: u32) {
        let slot = match state {
            TrialState::Waiting => &mut self.waiting,
            TrialState::Starting => &mut self.starting,
            TrialState::Running => &mut self.running,
            TrialState::Resizing => &mut self.resizing,
            TrialState::Paused => &mut self.paused,
            TrialState::Stopping => &mut self.stopping,
            TrialState::Completed => &mut self.completed,
            TrialState::Pruned => &mut self.pruned,
            TrialState::Failed => &mut self.failed,
            TrialState::Cancelled => &mut self.cancelled,
        };
        *slot += count;
    }
    pub fn total(&self) -> u32 {
        self.live() + self.paused + self.completed + self.pruned + self.failed + self.cancelled
    }
    pub fn live(&self) -> u32 {
        self.waiting + self.starting + self.running + self.resizing + self.stopping
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BestTrial {
    pub trial: TrialId,
    pub number: u32,
    pub value: f64,
    pub resource: f64,
    #[schema(value_type = std::collections::BTreeMap<String, elastune_core::model::space::ParamValue>)]
    pub parameters: Params,
}

/// `POST /studies:validate`: the document as it would be stored, with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Validated {
    pub spec: StudySpec,
    /// What is allowed but should be looked at again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FieldError>,
}

/// A page of a listing; ask again with `page_token` while there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// `PATCH /studies/{id}`: limits of a live study.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StudyPatch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_trials: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_width: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_width: Option<u16>,
}

/// `GET /studies/{id}/curves?metric=`: learning curves, down-sampled on the server to what a screen can show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Curves {
    pub metric: String,
    pub curves: Vec<Curve>,
    /// The best value so far, by the time that it was reported.
    pub best_so_far: Vec<HistoryPoint>,
    /// Trials left out of `curves` (the best and an even sample stay).
    pub omitted: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Curve {
    pub trial: TrialId,
    pub number: u32,
    pub state: TrialState,
    /// [resource, value]; a value that is not finite is null.
    pub points: Vec<(f64, Option<f64>)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryPoint {
    pub at: Time,
    pub number: u32,
    pub value: f64,
}

/// `GET /studies/{id}/widths`: who held how many devices when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StudyWidths {
    /// Those that ever held one, by number.
    pub trials: Vec<TrialWidths>,
    /// Some of what happened first is left out.
    pub truncated: bool,
}

/// A point at each change of the trial's width, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrialWidths {
    pub trial: TrialId,
    pub number: u32,
    pub points: Vec<WidthPoint>,
}

/// `GET /studies/{id}/trials:parallel`: one line a trial for parallel coordinates, down-sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Parallel {
    pub metric: String,
    pub lines: Vec<ParallelLine>,
    pub omitted: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ParallelLine {
    pub trial: TrialId,
    pub number: u32,
    #[schema(value_type = std::collections::BTreeMap<String, elastune_core::model::space::ParamValue>)]
    pub parameters: Params,
    pub value: Option<f64>,
}

/// One event of `GET /studies/{id}/events` (SSE data; the SSE id is `seq`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StudyEventLine {
    pub seq: u64,
    pub at: Time,
    /// `proposed`, `changed`, `measured`, `resized`...
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialId>,
    #[schema(value_type = Object)]
    pub event: serde_json::Value,
}

/// `GET /studies/{id}/export.json`: what was tried and measured, without times, ids or widths, so that two runs that tried and
/// measured the same are the same to the byte. Trials by number, measurements by step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    pub name: String,
    pub spec: StudySpec,
    pub trials: Vec<ExportedTrial>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExportedTrial {
    pub number: u32,
    pub state: TrialState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[schema(value_type = std::collections::BTreeMap<String, elastune_core::model::space::ParamValue>)]
    pub parameters: Params,
    pub measurements: Vec<ExportedMeasurement>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExportedMeasurement {
    pub step: f64,
    pub metrics: BTreeMap<String, MetricValue>,
}
