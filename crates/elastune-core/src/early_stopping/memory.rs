//! What early stopping remembers: each trial's results at the rungs, folded from the study's events. Read by every rule.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rungs::Rungs;
use crate::judge::Verdict;
use crate::model::event::{Event, MetricValue, StudyEvent};
use crate::model::ids::TrialId;
use crate::model::study::StudySpec;
use crate::model::trial::TrialState;
use crate::propose::ProposeMemory;

/// A fold over the study's events. Rungs are no table: they are read off the trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JudgeMemory {
    /// Its counts alone: what the search has learned is for `propose`.
    pub proposed: ProposeMemory,
    pub(super) trials: BTreeMap<TrialId, Standing>,
}

/// Where a trial stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Standing {
    pub number: u32,
    pub state: TrialState,
    pub excluded: bool,
    #[serde(with = "crate::model::unbounded")]
    pub run_until: f64,
    /// The last verdict that took effect since it reached its rung.
    pub verdict: Option<Verdict>,
    /// Its loss at each rung that it reached, lowest first; None: no finite value.
    pub results: Vec<Option<f64>>,
    /// Its newest measurement: resource, loss.
    pub latest: Option<(f64, Option<f64>)>,
    /// Its best measurement: resource, loss.
    pub best: Option<(f64, f64)>,
}

/// Takes the events after `memory.proposed.seq`, in order; earlier ones are skipped. Metric and rungs are the document's, which
/// no user may change.
pub fn fold(spec: &StudySpec, mut memory: JudgeMemory, events: &[StudyEvent]) -> JudgeMemory {
    let rungs = Rungs::of(&spec.early_stopping);
    for event in events {
        if event.seq > memory.proposed.seq {
            memory.proposed.seq = event.seq;
            memory.proposed.count(&event.event);
            memory.apply(spec, rungs.as_ref(), &event.event);
        }
    }
    memory
}

impl JudgeMemory {
    fn apply(&mut self, spec: &StudySpec, rungs: Option<&Rungs>, event: &Event) {
        match event {
            Event::Proposed { trial, number, run_until, .. } => {
                self.trials.insert(*trial, Standing::new(*number, *run_until));
            }
            Event::Unproposed { trial, .. } => {
                self.trials.remove(trial);
            }
            Event::Measured { trial, resource, metrics, .. } => {
                let loss = loss(spec, metrics);
                self.with(trial, |standing| standing.measure(*resource, loss, rungs));
            }
            Event::Judged { trial, verdict, .. } => self.with(trial, |standing| standing.judged(*verdict, rungs)),
            Event::Changed { trial, state, .. } => self.with(trial, |standing| {
                if standing.state.is_final() && !state.is_final() {
                    // A retry: it comes back to the rung that it had reached.
                    standing.verdict = None;
                }
                standing.state = *state;
            }),
            Event::Excluded { trial, excluded } => self.with(trial, |standing| standing.excluded = *excluded),
            _ => {}
        }
    }

    fn with(&mut self, trial: &TrialId, change: impl FnOnce(&mut Standing)) {
        if let Some(standing) = self.trials.get_mut(trial) {
            change(standing);
        }
    }
}

impl Standing {
    fn new(number: u32, run_until: f64) -> Self {
        Standing {
            number,
            state: TrialState::Waiting,
            excluded: false,
            run_until,
            verdict: None,
            results: Vec::new(),
            latest: None,
            best: None,
        }
    }

    fn measure(&mut self, resource: f64, loss: Option<f64>, rungs: Option<&Rungs>) {
        // A crash redoes what no checkpoint held; the first measurement of a resource stays.
        if self.latest.is_some_and(|(latest, _)| latest >= resource) {
            return;
        }
        self.latest = Some((resource, loss));
        if let Some(loss) = loss.filter(|loss| self.best.is_none_or(|(_, best)| *loss < best)) {
            self.best = Some((resource, loss));
        }
        self.climb(rungs);
    }

    /// Its newest measurement is its result at every rung that it has reached and may train to.
    fn climb(&mut self, rungs: Option<&Rungs>) {
        let (Some(rungs), Some((resource, loss))) = (rungs, self.latest) else { return };
        for rung in rungs.resources().iter().skip(self.results.len()) {
            if resource < *rung || self.run_until < *rung {
                break;
            }
            self.results.push(loss);
        }
    }

    fn judged(&mut self, verdict: Verdict, rungs: Option<&Rungs>) {
        self.verdict = match verdict {
            Verdict::Promote { run_until } => {
                self.run_until = self.run_until.max(run_until);
                None
            }
            other => Some(other),
        };
        self.climb(rungs);
    }

    /// Its measurements say something about the study.
    pub fn counts(&self) -> bool {
        !self.excluded && !matches!(self.state, TrialState::Failed | TrialState::Cancelled)
    }

    /// It has a result at the rung that others are compared with. One that was ended there by a user, and not by the rule, has
    /// left: it would hold a place among the best that nobody can take.
    pub fn competes(&self, rung: usize, rungs: &Rungs) -> bool {
        let gone = self.state.is_final() && !self.judged_out() && !self.promoted(rung, rungs);
        self.counts() && self.results.len() > rung && !gone
    }

    fn judged_out(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Stop | Verdict::Close))
    }

    /// It has no result at the rung yet, and may still get one.
    pub fn is_coming(&self, rung: usize) -> bool {
        self.counts() && self.results.len() <= rung && !self.state.is_final() && !self.judged_out()
    }

    /// The rung whose resource it has done and beyond which it may not train, if it waits there for a verdict or for a
    /// promotion.
    pub fn waits_at(&self, rungs: &Rungs) -> Option<usize> {
        let rung = self.results.len().checked_sub(1)?;
        let over = self.state.is_final() || self.state == TrialState::Stopping || self.judged_out();
        (!over && rung < rungs.last() && !self.promoted(rung, rungs)).then_some(rung)
    }

    /// It gave up its slots, or was told to.
    pub fn paused(&self) -> bool {
        self.verdict == Some(Verdict::Pause) || self.state == TrialState::Paused
    }

    /// It may train beyond the rung.
    pub fn promoted(&self, rung: usize, rungs: &Rungs) -> bool {
        self.run_until > rungs.resources()[rung]
    }
}

fn loss(spec: &StudySpec, metrics: &BTreeMap<String, MetricValue>) -> Option<f64> {
    let metric = spec.metrics.first()?;
    let value = metrics.get(&metric.name)?.number()?;
    value.is_finite().then(|| metric.goal.loss(value))
}

/// The best measurement of a study.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Incumbent {
    pub trial: TrialId,
    pub number: u32,
    /// Of the first metric, as it was reported.
    pub value: f64,
    pub resource: f64,
}

/// The best value that any trial measured, at whatever resource; ties go to the lower number. Failed, cancelled and excluded
/// trials don't count.
pub fn incumbent(spec: &StudySpec, memory: &JudgeMemory) -> Option<Incumbent> {
    let goal = spec.metrics.first()?.goal;
    let measured = memory.trials.iter().filter(|(_, standing)| standing.counts());
    let best = measured.filter_map(|(trial, standing)| standing.best.map(|(resource, loss)| (*trial, standing.number, resource, loss)));
    let (trial, number, resource, loss) = best.min_by(|left, right| left.3.total_cmp(&right.3).then(left.1.cmp(&right.1)))?;
    // `loss` is its own inverse.
    Some(Incumbent { trial, number, value: goal.loss(loss), resource })
}
