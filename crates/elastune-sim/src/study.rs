//! A simulated study: its trials and its events, through the real `propose` and `judge`.

use std::collections::BTreeMap;

use elastune_core::judge::{self, JudgeMemory, Verdict};
use elastune_core::model::event::{Event, MetricValue, StudyEvent};
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::snapshot::StudyView;
use elastune_core::model::study::{EarlyStopping, StudySpec};
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::propose::{self, ProposeMemory, StudyContext, propose, unproposed};
use elastune_core::rng::Seed;
use elastune_core::time::Time;
use uuid::Uuid;

use crate::trial::{Costs, Population, Trial};

/// A study and when it is submitted.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub at: Time,
    pub spec: StudySpec,
    pub population: Population,
}

pub(crate) struct Study {
    context: StudyContext,
    pub arrival: Arrival,
    seed: Seed,
    pub memory: JudgeMemory,
    proposed: ProposeMemory,
    last_seq: u64,
    pub trials: BTreeMap<TrialId, Trial>,
    pub ended: BTreeMap<TrialState, u32>,
    pub promotions: u32,
    /// When the last trial ended.
    pub ended_at: Time,
}

impl Study {
    pub fn new(index: usize, arrival: Arrival, seed: Seed) -> Study {
        let id = StudyId(Uuid::from_u128(index as u128 + 1));
        let (context, ended_at) = (StudyContext::new(id, arrival.spec.clone()), arrival.at);
        Study {
            context,
            arrival,
            seed: seed.child("study", index as u64),
            memory: JudgeMemory::default(),
            proposed: ProposeMemory::default(),
            last_seq: 0,
            trials: BTreeMap::new(),
            ended: BTreeMap::new(),
            promotions: 0,
            ended_at,
        }
    }

    fn record(&mut self, at: Time, event: Event) {
        self.last_seq += 1;
        let event = StudyEvent { seq: self.last_seq, at, event };
        let events = [event];
        self.memory = judge::fold(&self.context.spec, std::mem::take(&mut self.memory), &events);
        self.proposed = propose::fold(&self.context.spec, std::mem::take(&mut self.proposed), &events);
    }

    fn changed(&mut self, at: Time, trial: TrialId, state: TrialState, reason: Option<Reason>) {
        let attempt = self.trials.get(&trial).map_or(1, |trial| trial.view.attempt);
        self.record(at, Event::Changed { trial, state, reason, attempt });
    }

    fn unproposed(&self) -> u32 {
        unproposed(&self.context.spec, &self.proposed)
    }

    /// Fills `open` slots, or the whole first rung where rungs are synchronous. Whether anything was proposed.
    pub fn propose(&mut self, now: Time, open: u32, costs: &Costs) -> bool {
        let whole = matches!(self.context.spec.early_stopping, EarlyStopping::SuccessiveHalving { .. });
        let proposals = propose(&self.context, &self.proposed, if whole { u32::MAX } else { open });
        let any = !proposals.is_empty();
        for proposal in proposals {
            let trial = TrialId(Uuid::from_u128(self.context.id.0.as_u128() << 64 | u128::from(proposal.number)));
            let truth = self.arrival.population.draw(self.seed, proposal.number);
            let (number, run_until) = (proposal.number, proposal.run_until);
            self.trials.insert(trial, Trial::new(trial, number, proposal.parameters.clone(), run_until, costs, truth));
            self.record(now, Event::Proposed { trial, number, parameters: proposal.parameters, run_until });
        }
        any
    }

    /// Records what the trial measured; one at its full resource is complete.
    pub fn measured(&mut self, now: Time, trial: TrialId) {
        let Some(view) = self.trials.get(&trial) else { return };
        let (resource, loss) = (view.view.done, view.truth.loss);
        let name = self.context.spec.metrics.first().map_or(String::new(), |metric| metric.name.clone());
        let metrics = BTreeMap::from([(name, MetricValue::new(loss))]);
        self.record(now, Event::Measured { trial, resource, metrics, elapsed_s: now.0 as f64 / 1000.0 });
        if resource >= self.context.spec.max_resource() {
            self.end(now, trial, TrialState::Completed, None);
        }
    }

    /// Applies the verdicts that are due. Whether there was one.
    pub fn judge(&mut self, now: Time) -> bool {
        let mut judgements = judge::judge(&self.context.spec, &self.memory);
        if judgements.is_empty() {
            judgements = judge::idle(&self.context.spec, &self.memory, self.unproposed());
        }
        let any = !judgements.is_empty();
        for judgement in judgements {
            let trial = judgement.trial;
            self.record(now, Event::Judged { trial, verdict: judgement.verdict, text: judgement.text });
            match judgement.verdict {
                Verdict::Stop => self.end(now, trial, TrialState::Pruned, Some(Reason::EarlyStopped)),
                Verdict::Close => self.end(now, trial, TrialState::Pruned, Some(Reason::NotPromoted)),
                Verdict::Pause => {
                    if let Some(trial) = self.trials.get_mut(&trial) {
                        trial.release();
                        trial.view.state = TrialState::Paused;
                    }
                    self.changed(now, trial, TrialState::Paused, None);
                }
                Verdict::Promote { run_until } => {
                    self.promotions += 1;
                    let state = self.trials.get_mut(&trial).map(|trial| {
                        trial.promote(run_until, now);
                        trial.view.state
                    });
                    self.changed(now, trial, state.unwrap_or(TrialState::Waiting), None);
                }
            }
        }
        any
    }

    fn end(&mut self, now: Time, trial: TrialId, state: TrialState, reason: Option<Reason>) {
        self.changed(now, trial, state, reason);
        if self.trials.remove(&trial).is_some() {
            *self.ended.entry(state).or_default() += 1;
            self.ended_at = now;
        }
    }

    pub fn view(&self) -> StudyView {
        let mut trials: Vec<_> = self.trials.values().map(|trial| trial.view.clone()).collect();
        trials.sort_by_key(|trial| trial.number);
        StudyView {
            id: self.context.id,
            created: self.arrival.at,
            spec: self.context.spec.clone(),
            active: true,
            unproposed: self.unproposed(),
            trials,
            groups: judge::groups(&self.context.spec, &self.memory),
        }
    }
}
