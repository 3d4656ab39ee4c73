//! What a study's trials have told a searcher: points of the unit cube and how they ended, folded from the study's events. Kept in
//! `ProposeMemory` for the algorithms that learn; read by each of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::space::Space;
use crate::early_stopping::rungs::Rungs;
use crate::model::event::{Event, MetricValue};
use crate::model::ids::TrialId;
use crate::model::study::StudySpec;
use crate::model::trial::{Reason, TrialState};

/// Ended trials that are kept at the most, so that a suggestion costs the same at any age.
pub const MAX_ENDED: usize = 1024;
/// The best ones, which are never dropped.
const BEST: usize = 128;

/// A trial's place in the unit cube: a coordinate for each dimension, None where its condition leaves the parameter out. Single
/// precision, since that is finer than any model looks and half the bytes to store.
pub type Point = Vec<Option<f32>>;

/// A fold over events, bounded in size.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct History {
    /// Trials that go on, or wait.
    pub live: BTreeMap<TrialId, Told>,
    /// Trials that ended, in the order in which they did.
    pub ended: Vec<Ended>,
}

/// What a trial has told so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub number: u32,
    pub point: Point,
    /// The highest resource that it measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<f64>,
    /// There, a loss for each objective; empty: nothing yet, or one of them is not finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<f64>,
    /// Its loss at each rung of early stopping that it has reached; None: not finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rungs: Vec<Option<f64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub trial: TrialId,
    pub told: Told,
    pub how: How,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excluded: bool,
}

/// How a trial ended, as far as the search is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Completed,
    /// Early stopping ended it.
    Pruned,
    /// Its parameters are to blame: no finite metric, out of memory, infeasible, an error.
    Broken,
    /// Its end says nothing about its parameters.
    Silent,
}

impl Ended {
    /// Says something about the space.
    pub fn counts(&self) -> bool {
        !self.excluded && self.how != How::Silent
    }

    /// Its first loss, where it has completed.
    pub fn loss(&self) -> Option<f64> {
        let counts = self.how == How::Completed && !self.excluded;
        counts.then(|| self.told.losses.first().copied()).flatten()
    }

    /// Sorts the best first: the completed by loss, then the pruned by how far they came and their loss, then the broken.
    pub fn key(&self) -> (u8, f64, f64) {
        let loss = self.told.losses.first().copied().unwrap_or(f64::INFINITY);
        match self.how {
            How::Completed => (0, loss, 0.0),
            How::Pruned => (1, -self.told.resource.unwrap_or(0.0), loss),
            How::Broken | How::Silent => (2, 0.0, 0.0),
        }
    }
}

/// Orders two keys; equal ones are for the caller to order by number.
pub fn by_key(left: (u8, f64, f64), right: (u8, f64, f64)) -> std::cmp::Ordering {
    left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)).then(left.2.total_cmp(&right.2))
}

impl History {
    /// Takes one event. `objectives`: how many of the study's metrics are optimised. Gives the place in `ended` of a trial that
    /// this event ended.
    pub fn apply(&mut self, spec: &StudySpec, space: &Space, objectives: usize, event: &Event) -> Option<usize> {
        match event {
            Event::Proposed { trial, number, parameters, .. } => {
                let told = Told { number: *number, point: space.encode(parameters), resource: None, losses: Vec::new(), rungs: Vec::new() };
                self.live.insert(*trial, told);
            }
            Event::Unproposed { trial, .. } => {
                self.live.remove(trial);
            }
            Event::Measured { trial, resource, metrics, .. } => {
                if let Some(told) = self.live.get_mut(trial) {
                    told.measure(spec, objectives, *resource, metrics);
                }
            }
            Event::Changed { trial, state, reason, .. } => return self.changed(*trial, *state, *reason),
            Event::Excluded { trial, excluded } => {
                if let Some(ended) = self.ended.iter_mut().rev().find(|ended| ended.trial == *trial) {
                    ended.excluded = *excluded;
                }
            }
            _ => {}
        }
        None
    }

    fn changed(&mut self, trial: TrialId, state: TrialState, reason: Option<Reason>) -> Option<usize> {
        if !state.is_final() {
            // Only a retry comes back from its end.
            if !self.live.contains_key(&trial)
                && let Some(place) = self.ended.iter().rposition(|ended| ended.trial == trial)
            {
                let ended = self.ended.remove(place);
                self.live.insert(trial, ended.told);
            }
            return None;
        }
        let told = self.live.remove(&trial)?;
        let how = match (state, reason) {
            (TrialState::Completed, _) if told.losses.is_empty() => How::Broken,
            (TrialState::Completed, _) => How::Completed,
            (TrialState::Pruned, _) => How::Pruned,
            (TrialState::Failed, Some(Reason::WorkerLost | Reason::Preempted | Reason::User | Reason::StudyEnded)) => How::Silent,
            (TrialState::Failed, _) => How::Broken,
            _ => How::Silent,
        };
        self.ended.push(Ended { trial, told, how, excluded: false });
        self.forget();
        Some(self.ended.len() - 1)
    }

    /// Drops the oldest that is not among the best.
    fn forget(&mut self) {
        if self.ended.len() <= MAX_ENDED {
            return;
        }
        let mut order: Vec<usize> = (0..self.ended.len()).collect();
        order.sort_by(|left, right| by_key(self.ended[*left].key(), self.ended[*right].key()).then(left.cmp(right)));
        let best: BTreeSet<usize> = order.into_iter().take(BEST).collect();
        if let Some(oldest) = (0..self.ended.len()).find(|place| !best.contains(place)) {
            self.ended.remove(oldest);
        }
    }
}

impl Told {
    fn measure(&mut self, spec: &StudySpec, objectives: usize, resource: f64, metrics: &BTreeMap<String, MetricValue>) {
        if self.resource.is_some_and(|latest| latest >= resource) {
            return;
        }
        let mut losses = Vec::with_capacity(objectives);
        for metric in spec.metrics.iter().take(objectives) {
            let value = metrics.get(&metric.name).and_then(MetricValue::number).filter(|value| value.is_finite());
            // Plus zero: minus zero would not survive being stored.
            losses.extend(value.map(|value| metric.goal.loss(value) + 0.0));
        }
        if losses.len() < objectives {
            losses.clear();
        }
        (self.resource, self.losses) = (Some(resource), losses);
        if let Some(rungs) = Rungs::of(&spec.early_stopping) {
            for rung in rungs.resources().iter().skip(self.rungs.len()) {
                if resource < *rung {
                    break;
                }
                self.rungs.push(self.losses.first().copied());
            }
        }
    }
}
