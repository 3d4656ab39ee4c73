//! Everything that `decide` may look at. Built by the service from one transaction, or by the simulator.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cluster::NodeView;
use super::ids::{GroupId, StudyId, TrialId};
use super::plan::Plan;
use super::study::StudySpec;
use super::trial::TrialView;
use crate::time::Time;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyView {
    pub id: StudyId,
    pub created: Time,
    pub spec: StudySpec,
    /// Paused and stopping studies hold nothing.
    pub active: bool,
    /// Trials that it may still start and has not proposed.
    pub unproposed: u32,
    /// Live trials (waiting, starting, running, resizing, stopping) and the paused ones, whose rates `decide` learns from, by number.
    pub trials: Vec<TrialView>,
    /// The rung or batch that a trial belongs to, where early stopping knows it.
    pub groups: BTreeMap<TrialId, GroupId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub now: Time,
    /// By creation time, then id.
    pub studies: Vec<StudyView>,
    /// By id.
    pub nodes: Vec<NodeView>,
    pub current: Plan,
}
