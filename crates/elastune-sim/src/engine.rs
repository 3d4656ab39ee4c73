//! The loop: settle everything that is due now, then jump to the next event.

use std::collections::BTreeMap;

use elastune_core::check::check;
use elastune_core::decide::{DecideMemory, decide};
use elastune_core::model::cluster::{NodeView, Slot};
use elastune_core::model::ids::NodeId;
use elastune_core::model::plan::Plan;
use elastune_core::model::snapshot::Snapshot;
use elastune_core::model::trial::TrialState;
use elastune_core::rng::Seed;
use elastune_core::time::Time;
use serde::Serialize;

use crate::study::{Arrival, Study};
use crate::trial::Costs;

/// Rounds of verdicts, proposals and plans at one moment; a decision that never comes to rest is a fault of it.
const MOST_ROUNDS: usize = 1000;

/// What came of a simulation.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Outcome {
    /// From the first moment until the last trial ended.
    pub makespan_s: f64,
    pub completed: u32,
    pub pruned: u32,
    pub promotions: u32,
    /// Changes of a running trial's ranks.
    pub resizes: u32,
    /// Plans that changed something.
    pub plans: u32,
    /// Device-seconds during which a device had a trial.
    pub busy_device_s: f64,
    /// Plans that `check` refused, moments that never came to rest: none, unless a decision is at fault.
    pub faults: Vec<String>,
}

/// A cluster, the studies that are submitted to it, and a virtual clock that starts at 0.
pub struct Simulation {
    now: Time,
    nodes: Vec<NodeView>,
    costs: Costs,
    studies: Vec<Study>,
    plan: Plan,
    memory: DecideMemory,
    wake_at: Option<Time>,
    seed: Seed,
    outcome: Outcome,
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation").field("now", &self.now).field("studies", &self.studies.len()).finish_non_exhaustive()
    }
}

impl Simulation {
    pub fn new(nodes: Vec<NodeView>, arrivals: Vec<Arrival>, costs: Costs, seed: Seed) -> Simulation {
        let studies = arrivals.into_iter().enumerate().map(|(index, arrival)| Study::new(index, arrival, seed)).collect();
        let (plan, memory, outcome) = (Plan::default(), DecideMemory::default(), Outcome::default());
        Simulation { now: Time(0), nodes, costs, studies, plan, memory, wake_at: None, seed, outcome }
    }

    /// Until nothing can happen any more, or the first fault.
    pub fn run(mut self) -> Outcome {
        loop {
            self.settle();
            if !self.outcome.faults.is_empty() {
                break;
            }
            let Some(next) = self.next_event() else { break };
            self.advance(next);
        }
        for study in &self.studies {
            let ended = |state| study.ended.get(&state).copied().unwrap_or(0);
            self.outcome.completed += ended(TrialState::Completed);
            self.outcome.pruned += ended(TrialState::Pruned);
            self.outcome.promotions += study.promotions;
            self.outcome.makespan_s = self.outcome.makespan_s.max(study.ended_at.0 as f64 / 1000.0);
        }
        self.outcome
    }

    /// What `decide` sees now.
    pub fn snapshot(&self) -> Snapshot {
        let arrived = self.studies.iter().filter(|study| study.arrival.at <= self.now);
        Snapshot { now: self.now, studies: arrived.map(Study::view).collect(), nodes: self.nodes.clone(), current: self.plan.clone() }
    }

    fn settle(&mut self) {
        for _ in 0..MOST_ROUNDS {
            let mut changed = false;
            for study in self.studies.iter_mut().filter(|study| study.arrival.at <= self.now) {
                let id = study.view().id;
                let open = self.plan.open.iter().filter(|open| open.study == id).count() as u32;
                changed |= study.judge(self.now);
                changed |= study.propose(self.now, open, &self.costs);
            }
            changed |= self.decide();
            if !changed || !self.outcome.faults.is_empty() {
                return;
            }
        }
        self.outcome.faults.push(format!("at {} ms decisions never come to rest", self.now.0));
    }

    /// Whether the plan changed.
    fn decide(&mut self) -> bool {
        let snapshot = self.snapshot();
        let decision = decide(&snapshot, &self.memory, self.seed.child("plan", self.plan.number));
        self.outcome.faults.extend(check(&decision.plan, &snapshot).iter().map(ToString::to_string));
        (self.memory, self.wake_at) = (decision.memory, decision.wake_at);
        if decision.plan.entries == self.plan.entries && decision.plan.open == self.plan.open {
            return false;
        }
        self.outcome.plans += 1;
        self.plan = decision.plan;
        let mut slots: BTreeMap<_, Vec<Slot>> = self.plan.entries.iter().map(|entry| (entry.trial, entry.slots.clone())).collect();
        for trial in self.studies.iter_mut().flat_map(|study| study.trials.values_mut()).filter(|trial| trial.view.state.is_live()) {
            let slots = slots.remove(&trial.view.id).unwrap_or_default();
            self.outcome.resizes += u32::from(trial.place(slots, self.now, &self.costs));
        }
        true
    }

    fn residents(&self) -> BTreeMap<(NodeId, u16), usize> {
        let mut residents = BTreeMap::new();
        for slot in self.studies.iter().flat_map(|study| study.trials.values()).flat_map(|trial| &trial.slots) {
            *residents.entry((slot.node, slot.device)).or_default() += 1;
        }
        residents
    }

    fn next_event(&mut self) -> Option<Time> {
        let residents = self.residents();
        for trial in self.studies.iter_mut().flat_map(|study| study.trials.values_mut()) {
            let sharers = trial.slots.first().and_then(|slot| residents.get(&(slot.node, slot.device))).copied().unwrap_or(1);
            trial.set_speed(sharers, self.now, &self.costs);
        }
        let arrivals = self.studies.iter().map(|study| study.arrival.at).filter(|at| *at > self.now);
        let trials = self.studies.iter().flat_map(|study| study.trials.values()).filter_map(|trial| trial.next_event(self.now));
        let work = arrivals.chain(trials).min()?;
        Some(self.wake_at.map_or(work, |wake| wake.min(work)))
    }

    fn advance(&mut self, then: Time) {
        self.outcome.busy_device_s += self.residents().len() as f64 * (then - self.now).as_secs_f64();
        for study in &mut self.studies {
            let measured: Vec<_> =
                study.trials.values_mut().filter_map(|trial| trial.advance(self.now, then).then_some(trial.view.id)).collect();
            for trial in measured {
                study.measured(then, trial);
            }
        }
        self.now = then;
    }
}
