//! A study driven by hand or by a list of random steps: what the service does with events and verdicts, without clock or devices.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::judge::{JudgeMemory, Judgement, Verdict, fold, idle, judge};
use crate::model::event::{Event, MetricValue, StudyEvent};
use crate::model::ids::{StudyId, TrialId};
use crate::model::study::StudySpec;
use crate::model::trial::{Reason, TrialState};
use crate::propose::{StudyContext, propose, unproposed};
use crate::search::validate;
use crate::time::Time;

pub fn id(number: u32) -> TrialId {
    TrialId(Uuid::from_u128(u128::from(number) + 1))
}

/// A study of 9 epochs a trial that maximizes `value`.
pub fn document(early_stopping: Value, max_trials: u32) -> StudySpec {
    let document = json!({
        "name": "test",
        "metrics": [{"name": "value", "goal": "maximize"}],
        "search_space": {"x": {"type": "float", "min": 0, "max": 1}},
        "algorithm": "random",
        "early_stopping": early_stopping,
        "budget": {"max_trials": max_trials, "max_parallel": 8}
    });
    validate(&document).unwrap_or_else(|errors| panic!("{errors:?}")).spec
}

#[derive(Debug)]
pub struct Trial {
    pub run_until: f64,
    pub state: TrialState,
    /// By a user.
    stopped: bool,
    /// One an epoch.
    losses: Vec<f64>,
}

/// A verdict, and where its trial stood then by this file's own count.
#[derive(Debug)]
pub struct Judged {
    pub trial: TrialId,
    pub verdict: Verdict,
    pub rung: u32,
    pub rank: usize,
    pub results: usize,
}

#[derive(Debug)]
pub struct World {
    pub spec: StudySpec,
    pub events: Vec<StudyEvent>,
    pub memory: JudgeMemory,
    pub trials: BTreeMap<TrialId, Trial>,
    pub judged: Vec<Judged>,
    failures: bool,
}

impl World {
    pub fn new(spec: StudySpec, failures: bool) -> Self {
        World { spec, events: Vec::new(), memory: JudgeMemory::default(), trials: BTreeMap::new(), judged: Vec::new(), failures }
    }

    fn record(&mut self, event: Event) {
        let event = StudyEvent { seq: self.events.len() as u64 + 1, at: Time(0), event };
        self.memory = fold(&self.spec, std::mem::take(&mut self.memory), std::slice::from_ref(&event));
        self.events.push(event);
    }

    fn change(&mut self, trial: TrialId, state: TrialState, reason: Option<Reason>) {
        self.trials.get_mut(&trial).expect("it is known").state = state;
        self.record(Event::Changed { trial, state, reason, attempt: 1 });
    }

    pub fn propose(&mut self) {
        let study = StudyContext::new(StudyId(Uuid::nil()), self.spec.clone());
        for proposal in propose(&study, &self.memory.proposed, 1) {
            let (trial, number, run_until) = (id(proposal.number), proposal.number, proposal.run_until);
            self.trials.insert(trial, Trial { run_until, state: TrialState::Waiting, stopped: false, losses: Vec::new() });
            self.record(Event::Proposed { trial, number, parameters: proposal.parameters, run_until });
            self.change(trial, TrialState::Running, None);
        }
    }

    /// One epoch of trial `number`.
    pub fn measure(&mut self, number: u32, loss: f64) {
        let trial = id(number);
        let known = self.trials.get_mut(&trial).expect("it is known");
        known.losses.push(loss);
        let resource = known.losses.len() as f64;
        let metrics = BTreeMap::from([("value".to_string(), MetricValue::new(-loss))]);
        self.record(Event::Measured { trial, resource, metrics, elapsed_s: 0.0 });
        if resource == self.spec.max_resource() {
            self.change(trial, TrialState::Completed, None);
        }
    }

    pub fn exclude(&mut self, number: u32) {
        self.record(Event::Excluded { trial: id(number), excluded: true });
    }

    pub fn judge_all(&mut self) {
        for judgement in judge(&self.spec, &self.memory) {
            self.apply(judgement);
        }
    }

    fn apply(&mut self, judgement: Judgement) {
        let Judgement { trial, verdict, text } = judgement;
        let known = self.trials.get_mut(&trial).expect("verdicts are about trials of the study");
        let rung = known.losses.len() as u32;
        assert!(!known.state.is_final(), "{trial} is over: {text}");
        if let Verdict::Promote { run_until } = verdict {
            known.run_until = run_until;
        }
        let held_or_paused = known.state;
        let ranked = self.ranked(rung);
        let cohort = self.cohort(&ranked, trial);
        let rank = cohort.iter().position(|other| *other == trial).expect("it has a result there");
        self.judged.push(Judged { trial, verdict, rung, rank, results: cohort.len() });
        self.record(Event::Judged { trial, verdict, text });
        match verdict {
            Verdict::Promote { .. } if held_or_paused == TrialState::Paused => self.change(trial, TrialState::Waiting, None),
            Verdict::Promote { .. } => {}
            Verdict::Pause => self.change(trial, TrialState::Paused, None),
            Verdict::Stop => self.change(trial, TrialState::Pruned, Some(Reason::EarlyStopped)),
            Verdict::Close => self.change(trial, TrialState::Pruned, Some(Reason::NotPromoted)),
        }
    }

    /// Trials with a result at `rung` that neither failed nor were stopped there by a user, best first.
    pub fn ranked(&self, rung: u32) -> Vec<TrialId> {
        let at = |trial: &Trial| trial.losses.get(rung as usize - 1).copied();
        let gone = |trial: &Trial| trial.state == TrialState::Failed || trial.stopped && trial.run_until <= f64::from(rung);
        let reached = self.trials.iter().filter(|(_, trial)| !gone(trial) && at(trial).is_some());
        let mut ranked: Vec<(bool, f64, TrialId)> = reached
            .filter_map(|(id, trial)| at(trial).map(|loss| (!loss.is_finite(), if loss.is_finite() { loss } else { 0.0 }, *id)))
            .collect();
        ranked.sort_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)).then(left.2.cmp(&right.2)));
        ranked.into_iter().map(|(_, _, id)| id).collect()
    }

    fn cohort(&self, ranked: &[TrialId], trial: TrialId) -> Vec<TrialId> {
        let crate::model::study::EarlyStopping::SuccessiveHalving { trials: Some(size), .. } = self.spec.early_stopping else {
            return ranked.to_vec();
        };
        let of = |trial: &TrialId| (trial.0.as_u128() - 1) / u128::from(size);
        ranked.iter().copied().filter(|other| of(other) == of(&trial)).collect()
    }

    pub fn promoted_once(&self) -> bool {
        let mut seen = BTreeSet::new();
        let promotions = self.judged.iter().filter(|judged| matches!(judged.verdict, Verdict::Promote { .. }));
        promotions.map(|judged| (judged.trial, judged.rung)).all(|promotion| seen.insert(promotion))
    }

    /// Trials that train now.
    fn training(&self) -> Vec<TrialId> {
        let trains = |trial: &Trial| trial.state.is_live() && (trial.losses.len() as f64) < trial.run_until;
        self.trials.iter().filter(|(_, trial)| trains(trial)).map(|(id, _)| *id).collect()
    }

    fn live(&self) -> usize {
        self.trials.values().filter(|trial| trial.state.is_live()).count()
    }

    /// Takes `steps` of (action, which trial, loss).
    pub fn run(&mut self, steps: &[(u8, u8, u16)]) {
        for (action, which, loss) in steps {
            let training = self.training();
            let chosen = training.get(usize::from(*which) % training.len().max(1)).copied();
            let number = chosen.map(|trial| (trial.0.as_u128() - 1) as u32);
            match action % 16 {
                0..=3 if self.live() < self.spec.budget.max_parallel as usize => self.propose(),
                4 if self.failures => chosen.into_iter().for_each(|trial| self.change(trial, TrialState::Failed, Some(Reason::WorkerLost))),
                5 => chosen.into_iter().for_each(|trial| self.change(trial, TrialState::Waiting, Some(Reason::Preempted))),
                6 => self.judge_all(),
                7 => judge(&self.spec, &self.memory).into_iter().take(1).for_each(|judgement| self.apply(judgement)),
                8 if self.failures => {
                    let open: Vec<TrialId> = self.trials.iter().filter(|(_, trial)| !trial.state.is_final()).map(|(id, _)| *id).collect();
                    if let Some(trial) = open.get(usize::from(*which) % open.len().max(1)) {
                        self.trials.get_mut(trial).expect("it is known").stopped = true;
                        self.change(*trial, TrialState::Pruned, Some(Reason::User));
                    }
                }
                _ => {
                    // A few equal and a few that are no number.
                    let loss = if loss % 11 == 0 { f64::NAN } else { f64::from(loss % 50) };
                    number.into_iter().for_each(|number| self.measure(number, loss));
                }
            }
        }
    }

    /// Lets everything happen until nothing does.
    pub fn finish(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the study is stuck: {:?}", self.trials);
            let before = self.events.len();
            if self.live() < self.spec.budget.max_parallel as usize {
                self.propose();
            }
            for trial in self.training() {
                self.measure((trial.0.as_u128() - 1) as u32, f64::from(round % 13));
            }
            self.judge_all();
            for judgement in idle(&self.spec, &self.memory, unproposed(&self.spec, &self.memory.proposed)) {
                self.apply(judgement);
            }
            if self.events.len() == before {
                return;
            }
        }
    }
}
