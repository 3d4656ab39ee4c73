//! Trials over REST: rows, measurements, the verbs of outside workers, explanations.

use std::collections::BTreeMap;

use elastune_core::model::event::MetricValue;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::space::Params;
use elastune_core::model::trial::{CheckpointRef, RateSample, Reason, TrialState};
use elastune_core::model::width::Width;
use elastune_core::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /trials/{id}` and a line of `GET /studies/{id}/trials`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Trial {
    pub id: TrialId,
    pub study: StudyId,
    pub number: u32,
    #[schema(value_type = std::collections::BTreeMap<String, elastune_core::model::space::ParamValue>)]
    pub parameters: Params,
    pub state: TrialState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What a person should know about the state, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub attempt: u32,
    /// Attempts that ended in a failure; preemptions don't count.
    pub failures: u32,
    pub excluded: bool,
    /// Null: without bound.
    #[serde(with = "elastune_core::model::unbounded")]
    #[schema(value_type = Option<f64>)]
    pub run_until: f64,
    /// Resource done, fractions of an epoch included.
    pub done: f64,
    /// What a completed trial has done; null: it is for its worker to say.
    #[serde(with = "elastune_core::model::unbounded")]
    #[schema(value_type = Option<f64>)]
    pub max_resource: f64,
    #[schema(value_type = f64)]
    pub width: Width,
    /// Latest value of each metric.
    pub metrics: BTreeMap<String, MetricValue>,
    /// Of the study's first metric: the last one of a finished trial, the latest of a live one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    pub rates: Vec<RateSample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointRef>,
    pub created: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    pub device_seconds: f64,
}

/// `GET /trials/{id}/measurements` and the body (as a list) of its POST.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Measurement {
    /// The resource: an epoch, from 1, unless the study says otherwise. Unique within a trial; the first stays.
    pub step: f64,
    pub metrics: BTreeMap<String, MetricValue>,
    #[serde(default)]
    pub elapsed_s: f64,
}

/// Width over time: a point at each change, for `GET /trials/{id}/widths`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WidthPoint {
    pub at: Time,
    #[schema(value_type = f64)]
    pub width: Width,
    pub attempt: u32,
    pub generation: u32,
    /// Optimiser steps done at the change.
    pub step: u64,
}

/// `GET /trials/{id}/explain`: why it has its width, or waits, and what would change it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explain {
    pub trial: TrialId,
    pub state: TrialState,
    #[schema(value_type = f64)]
    pub width: Width,
    /// Of the current plan.
    pub plan: u64,
    pub code: String,
    pub text: String,
    /// Earlier verdicts and notes about this trial, newest first.
    pub history: Vec<ExplainLine>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainLine {
    pub at: Time,
    pub text: String,
}

/// `POST /studies/{id}/trials:suggest`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SuggestRequest {
    /// At most 100.
    #[serde(default = "SuggestRequest::one")]
    pub count: u32,
    /// Who asks; the lease is theirs.
    pub worker: String,
    /// How long to wait if there is nothing to try now, in seconds; at most 30.
    #[serde(default)]
    pub wait_s: u32,
}

impl SuggestRequest {
    fn one() -> u32 {
        1
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SuggestResponse {
    pub trials: Vec<Suggestion>,
    /// Nothing will ever come again: the study has ended or spent its trials.
    pub exhausted: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Suggestion {
    pub id: TrialId,
    pub number: u32,
    #[schema(value_type = std::collections::BTreeMap<String, elastune_core::model::space::ParamValue>)]
    pub parameters: Params,
    /// Report up to here, then ask `should-stop`.
    pub run_until: Option<f64>,
    /// A promoted trial goes on from where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<f64>,
    /// Sent back in heartbeat, measurements and complete as `lease`; a stale one gets 409.
    pub lease: uuid::Uuid,
    /// Heartbeat before then.
    pub lease_expires: Time,
}

/// `POST /trials/{id}/measurements`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<uuid::Uuid>,
    pub measurements: Vec<Measurement>,
}

/// What was stored; a step that was already there keeps its first values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reported {
    pub stored: u32,
    pub repeated: u32,
}

/// `POST /trials/{id}:heartbeat`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    pub lease: uuid::Uuid,
}

/// The lease as it stands after a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    pub lease: uuid::Uuid,
    pub lease_expires: Time,
}

/// `POST /trials/{id}:exclude`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExcludeRequest {
    /// False takes the trial back into the algorithm's view.
    #[serde(default = "ExcludeRequest::yes")]
    pub excluded: bool,
}

impl ExcludeRequest {
    fn yes() -> bool {
        true
    }
}

impl Default for ExcludeRequest {
    fn default() -> Self {
        ExcludeRequest { excluded: true }
    }
}

/// A line of `GET /trials/{id}/checkpoints`, newest first; its bytes lie at `/checkpoints/{sha256}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    pub checkpoint: CheckpointRef,
    pub attempt: u32,
    pub at: Time,
}

/// `PUT /checkpoints/{sha256}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredCheckpoint {
    pub sha256: String,
    pub bytes: u64,
}

/// `POST /trials/{id}:complete`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<uuid::Uuid>,
    /// Final metrics; absent: the latest measurement is final.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MetricValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<String>,
}

/// `GET /trials/{id}/should-stop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShouldStop {
    pub action: Action,
    pub reason: String,
    pub run_until: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Continue,
    /// Let go of it, without completing it: it waits at its rung, or another worker has it.
    Pause,
    /// Complete it now; if it has ended already, that changes nothing.
    Stop,
}

/// One line of a worker's or agent's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    pub id: i64,
    pub at: Time,
    pub attempt: u32,
    /// `agent`, or the rank that wrote it.
    pub source: String,
    pub line: String,
}
