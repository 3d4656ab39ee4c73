//! Random clusters and studies that change: trials arrive, train, hold, end; nodes come and go.

use std::collections::BTreeMap;

use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use uuid::Uuid;

use super::super::{DecideMemory, Decision};
use crate::model::cluster::{Device, NodeState, NodeView};
use crate::model::ids::{NodeId, StudyId, TrialId};
use crate::model::plan::Plan;
use crate::model::snapshot::{Snapshot, StudyView};
use crate::model::study::{Budget, DeviceKind, PolicyName, StudySpec};
use crate::model::trial::{RateSample, TrialState, TrialView};
use crate::model::width::Width;
use crate::rng::Seed;
use crate::time::{Span, Time};

pub struct World {
    pub snapshot: Snapshot,
    pub memory: DecideMemory,
    rng: ChaCha8Rng,
    policy: PolicyName,
    next: u128,
}

pub fn spec(policy: PolicyName, shards: u32) -> StudySpec {
    let document = serde_json::json!({
        "name": "s", "metrics": [{"name": "loss", "goal": "minimize"}], "search_space": {},
        "algorithm": {"name": "random"}, "workload": {"kind": "builtin", "name": "fashion-mnist-mlp", "batch_size": 64, "shards": shards, "epochs": 16},
        "budget": {"max_trials": 100}
    });
    let mut spec: StudySpec = serde_json::from_value(document).expect("the document is a study");
    spec.scheduling.policy = policy;
    spec
}

pub fn node(id: u128, kind: DeviceKind, devices: u16, max_sharers: u8) -> NodeView {
    let device = |index| Device { index, kind, name: "d".into(), memory_bytes: 16 << 30, max_sharers };
    NodeView {
        id: NodeId(Uuid::from_u128(id)),
        name: format!("n{id}"),
        state: NodeState::Ready,
        devices: (0..devices).map(device).collect(),
    }
}

pub fn trial(id: u128, number: u32) -> TrialView {
    TrialView {
        id: TrialId(Uuid::from_u128(id)),
        number,
        parameters: BTreeMap::new(),
        state: TrialState::Waiting,
        attempt: 1,
        run_until: 16.0,
        done: 0.0,
        rates: Vec::new(),
        width: Width::ZERO,
        frozen: false,
        held: false,
        restart_cost: Span(2000),
        last_resize: None,
        results_since_resize: 0,
        checkpoint: None,
        alone: false,
    }
}

impl World {
    pub fn new(seed: u64, policy: PolicyName) -> World {
        let snapshot = Snapshot { now: Time(0), studies: Vec::new(), nodes: Vec::new(), current: Plan::default() };
        let rng = Seed(seed).child("world", 0).rng();
        let mut world = World { snapshot, memory: DecideMemory::default(), rng, policy, next: 1 };
        for _ in 0..world.rng.random_range(1..5) {
            world.add_node();
        }
        for _ in 0..world.rng.random_range(0..5) {
            world.add_study();
        }
        world
    }

    /// After some rounds of decisions and changes.
    pub fn aged(seed: u64, policy: PolicyName, rounds: u32) -> World {
        let mut world = World::new(seed, policy);
        for _ in 0..rounds {
            let decision = super::decide(&world.snapshot, &world.memory, Seed(seed));
            world.apply(&decision);
            world.change();
        }
        world
    }

    fn id(&mut self) -> u128 {
        self.next += 1;
        // Ids in no relation to age, as drawn ones are.
        (self.next << 64) ^ u128::from(self.rng.random::<u64>()) << 80 ^ self.next
    }

    fn add_node(&mut self) {
        let id = self.id();
        let (kind, sharers) = if self.rng.random_bool(0.7) { (DeviceKind::Gpu, self.rng.random_range(1..5)) } else { (DeviceKind::Cpu, 1) };
        let devices = self.rng.random_range(1..9);
        self.snapshot.nodes.push(node(id, kind, devices, sharers));
    }

    fn add_study(&mut self) {
        let id = StudyId(Uuid::from_u128(self.id()));
        let shards = [1, 2, 4, 8][self.rng.random_range(0..4)];
        let mut spec = spec(self.policy, shards);
        let max_width = self.rng.random_range(1..=shards) as u16;
        spec.resources.max_width = max_width;
        spec.resources.min_width = if self.rng.random_bool(0.8) { 1 } else { 1 + max_width / 2 };
        spec.resources.share = [1.0, 0.5, 0.25, 1.0 / 3.0][self.rng.random_range(0..4)];
        spec.resources.memory_bytes = [0, 1 << 30, 9 << 30][self.rng.random_range(0..3)];
        spec.resources.devices = [DeviceKind::Any, DeviceKind::Gpu, DeviceKind::Cpu][self.rng.random_range(0..3)];
        spec.budget = Budget { max_trials: 100, max_parallel: self.rng.random_range(1..20), deadline_ms: None };
        spec.scheduling.priority = self.rng.random_range(-1..2);
        spec.scheduling.weight = self.rng.random_range(0.5..3.0);
        let unproposed = self.rng.random_range(0..10);
        let trials = Vec::new();
        self.snapshot.studies.push(StudyView {
            id,
            created: self.snapshot.now,
            spec,
            active: true,
            unproposed,
            trials,
            groups: BTreeMap::new(),
        });
        let at = self.snapshot.studies.len() - 1;
        for _ in 0..self.rng.random_range(0..12) {
            self.add_trial(at);
        }
    }

    fn add_trial(&mut self, study: usize) {
        let id = self.id();
        let study = &mut self.snapshot.studies[study];
        let number = study.trials.iter().map(|trial| trial.number + 1).max().unwrap_or(0);
        let mut trial = trial(id, number);
        trial.alone = self.rng.random_bool(0.05);
        trial.run_until = self.rng.random_range(1.0f64..32.0).round();
        study.trials.push(trial);
    }

    /// Carries the plan out at once; how many running trials changed their slots' devices.
    pub fn apply(&mut self, decision: &Decision) -> usize {
        let mut resizes = 0;
        let devices = |slots: &[crate::model::cluster::Slot]| slots.iter().map(|slot| (slot.node, slot.device)).collect::<Vec<_>>();
        for trial in self.snapshot.studies.iter_mut().flat_map(|study| &mut study.trials) {
            let before = self.snapshot.current.entries.iter().find(|entry| entry.trial == trial.id && entry.attempt == trial.attempt);
            let after = decision.plan.entries.iter().find(|entry| entry.trial == trial.id);
            match (before, after) {
                (Some(before), Some(after)) if devices(&before.slots) != devices(&after.slots) => {
                    resizes += 1;
                    trial.last_resize = Some(self.snapshot.now);
                    trial.results_since_resize = 0;
                }
                (Some(_), None) => {
                    trial.attempt += 1;
                    trial.frozen = false;
                    trial.held = false;
                    resizes += 1;
                }
                _ => {}
            }
            trial.width = after.map_or(Width::ZERO, |entry| entry.width());
            if trial.state != TrialState::Stopping {
                trial.state = if after.is_some() { TrialState::Running } else { TrialState::Waiting };
            }
        }
        self.snapshot.current = decision.plan.clone();
        self.memory = decision.memory.clone();
        resizes
    }

    /// A little time passes; how many things other than measurements happened.
    pub fn change(&mut self) -> usize {
        let mut changes = 0;
        self.snapshot.now = self.snapshot.now + Span(self.rng.random_range(0..4000));
        for at in 0..self.snapshot.studies.len() {
            changes += self.train(at);
            if self.rng.random_bool(0.2) {
                self.add_trial(at);
                changes += 1;
            }
            let study = &mut self.snapshot.studies[at];
            if self.rng.random_bool(0.03) {
                study.active = !study.active;
                changes += study.trials.len() + study.unproposed as usize;
            }
        }
        for at in 0..self.snapshot.nodes.len() {
            if self.rng.random_bool(0.03) {
                let states = [NodeState::Ready, NodeState::Cordoned, NodeState::Draining, NodeState::Lost, NodeState::Removed];
                self.snapshot.nodes[at].state = states[self.rng.random_range(0..states.len())];
                changes += 2 * self.snapshot.nodes[at].devices.len();
            }
        }
        if self.rng.random_bool(0.03) && self.snapshot.nodes.len() < 6 {
            self.add_node();
            changes += 2 * self.snapshot.nodes.last().map_or(0, |node| node.devices.len());
        }
        if self.rng.random_bool(0.05) && self.snapshot.studies.len() < 6 {
            self.add_study();
            changes += self.snapshot.studies.last().map_or(0, |study| study.trials.len() + study.unproposed as usize);
        }
        changes
    }

    /// Running trials of a study measure; some reach their milestone, start or end a switch, end.
    fn train(&mut self, at: usize) -> usize {
        let rng = &mut self.rng;
        let mut changes = 0;
        let study = &mut self.snapshot.studies[at];
        let lost = |slots: &[crate::model::cluster::Slot], nodes: &[NodeView]| {
            slots
                .iter()
                .all(|slot| nodes.iter().any(|node| node.id == slot.node && matches!(node.state, NodeState::Lost | NodeState::Removed)))
        };
        for trial in study.trials.iter_mut().filter(|trial| trial.state == TrialState::Running) {
            let entry = self.snapshot.current.entries.iter().find(|entry| entry.trial == trial.id);
            if entry.is_some_and(|entry| lost(&entry.slots, &self.snapshot.nodes)) && rng.random_bool(0.5) {
                (trial.state, trial.width, trial.frozen, trial.held) = (TrialState::Waiting, Width::ZERO, false, false);
                trial.attempt += 1;
                continue;
            }
            if rng.random_bool(0.5) && trial.done < trial.run_until {
                trial.done += 1.0;
                trial.results_since_resize += 1;
                let seconds = f64::from(1 + trial.number % 5) / trial.width.devices().powf(0.7) * rng.random_range(0.9..1.1);
                trial.rates.push(RateSample { width: trial.width, nodes: 1, seconds_per_unit: seconds });
            }
            trial.held = trial.done >= trial.run_until;
            trial.frozen = rng.random_bool(0.1);
            if trial.held && rng.random_bool(0.5) {
                trial.run_until += 8.0;
                trial.held = false;
            }
            if rng.random_bool(0.03) {
                trial.state = TrialState::Stopping;
            }
        }
        let before = study.trials.len();
        study.trials.retain(|trial| !((trial.held || trial.state == TrialState::Stopping) && rng.random_bool(0.5)));
        changes += before - study.trials.len();
        if study.unproposed > 0 && rng.random_bool(0.3) {
            study.unproposed -= 1;
            changes += 1;
        }
        changes
    }

    pub fn shuffle(&mut self) {
        let rng = &mut self.rng;
        self.snapshot.studies.shuffle(rng);
        self.snapshot.nodes.shuffle(rng);
        self.snapshot.current.entries.shuffle(rng);
        self.snapshot.studies.iter_mut().for_each(|study| study.trials.shuffle(rng));
    }
}
