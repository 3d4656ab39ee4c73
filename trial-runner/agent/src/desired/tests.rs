//! Properties of the difference between desired and actual, over random histories of a node.

use elastune_api::agent::Launch;
use elastune_core::model::ids::{NodeId, TrialId};
use elastune_core::model::study::{Reduction, Workload, WorkloadKind};
use elastune_core::rng::Seed;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn worker(id: u8, slot: (u16, u8), run_until: f64) -> DesiredWorker {
    DesiredWorker {
        trial: TrialId(Uuid::from_u128(u128::from(id))),
        attempt: 1,
        incarnation: Incarnation(Uuid::from_u128(u128::from(id))),
        slot: Slot { node: NodeId(Uuid::nil()), device: slot.0, parts: slot.1 },
        launch: Launch {
            study_name: "s".into(),
            trial_number: 0,
            workload: Workload {
                kind: WorkloadKind::Builtin,
                name: "fashion-mnist-mlp".into(),
                batch_size: 64,
                shards: 4,
                reduction: Reduction::Exact,
                epochs: None,
            },
            parameters: BTreeMap::new(),
            seed: Seed(1),
            metrics: vec!["val_accuracy".into()],
            max_resource: 4.0,
            checkpoint: None,
        },
        control: Control { generation: 0, order: None, run_until, finish: None },
    }
}

fn state(epoch: u64, plan: u64, workers: Vec<DesiredWorker>) -> Desired {
    Desired { epoch, plan, version: format!("{epoch}/{plan}"), workers, draining: false }
}

/// A node without clocks and processes: actions are taken at once, except that an ended process stays until it `exits`.
#[derive(Default)]
struct World {
    held: Held,
    desired: Option<Desired>,
    actual: Actual,
    starts: BTreeMap<Incarnation, u32>,
}

impl World {
    fn receive(&mut self, desired: Desired) {
        if self.held.admits(Held::of(&desired)) {
            self.held = Held::of(&desired);
            self.desired = Some(desired);
        }
        self.settle();
    }

    fn exit(&mut self, incarnation: Incarnation) {
        if self.actual.processes.remove(&incarnation).is_some() {
            self.actual.ended.insert(incarnation);
        }
        self.settle();
    }

    fn settle(&mut self) {
        let Some(desired) = &self.desired else { return };
        for action in actions(desired, &self.actual) {
            match action {
                Action::Start(worker) => {
                    *self.starts.entry(worker.incarnation).or_default() += 1;
                    let process = Process { slot: worker.slot, epoch: desired.epoch, ending: false, control: Some(worker.control) };
                    self.actual.processes.insert(worker.incarnation, process);
                }
                Action::Control { incarnation, control } => {
                    self.actual.processes.get_mut(&incarnation).expect("controls go to what is there").control = Some(*control);
                }
                Action::End { incarnation, .. } => {
                    self.actual.processes.get_mut(&incarnation).expect("only what is there is ended").ending = true;
                }
                Action::ReportExit(incarnation) => assert!(self.actual.ended.contains(&incarnation)),
            }
        }
        let again = actions(desired, &self.actual);
        assert!(again.iter().all(|action| matches!(action, Action::ReportExit(_))), "one round is enough: {again:?}");
    }

    fn check(&self) {
        assert!(self.starts.values().all(|count| *count == 1), "each incarnation starts once at most");
        let mut loads: BTreeMap<u16, f64> = BTreeMap::new();
        for process in self.actual.processes.values() {
            *loads.entry(process.slot.device).or_default() += part(process.slot);
        }
        assert!(loads.values().all(|load| *load <= 1.0 + 1e-9), "no device is held by more than fits");
    }
}

#[derive(Debug, Clone)]
enum Happening {
    Receive { epoch: u64, plan: u64, workers: Vec<(u8, (u16, u8), u8)> },
    Exit(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    let workers = prop::collection::vec((0u8..12, (0u16..3, prop::sample::select(vec![1u8, 2, 3, 4])), 1u8..4), 0..6);
    prop_oneof![
        3 => (0u64..2, 0u64..6, workers).prop_map(|(epoch, plan, workers)| Happening::Receive { epoch, plan, workers }),
        2 => (0u8..12).prop_map(Happening::Exit),
    ]
}

proptest! {
    #[test]
    fn no_history_starts_twice_overfills_a_device_or_goes_back(history in prop::collection::vec(happening(), 1..40)) {
        let mut world = World::default();
        for happening in history {
            let before = world.held;
            match happening {
                Happening::Receive { epoch, plan, workers } => {
                    world.receive(state(epoch, plan, workers.into_iter().map(|(id, slot, until)| worker(id, slot, f64::from(until))).collect()));
                }
                Happening::Exit(id) => world.exit(Incarnation(Uuid::from_u128(u128::from(id)))),
            }
            prop_assert!(world.held >= before);
            world.check();
        }
        // Whatever happened, once what is ending has exited the node has nothing but what is listed, of this epoch.
        let ending: Vec<_> = world.actual.processes.iter().filter(|(_, process)| process.ending).map(|(id, _)| *id).collect();
        for incarnation in ending {
            world.exit(incarnation);
        }
        if let Some(desired) = &world.desired {
            for (incarnation, process) in &world.actual.processes {
                let listed = desired.workers.iter().find(|worker| worker.incarnation == *incarnation);
                prop_assert!(listed.is_some() && process.epoch == desired.epoch);
                prop_assert_eq!(process.control.as_ref(), listed.map(|worker| &worker.control));
            }
        }
    }

    #[test]
    fn a_state_that_fits_is_reached(ids in prop::collection::btree_set(0u8..12, 0..6)) {
        let workers: Vec<_> = ids.iter().enumerate().map(|(device, id)| worker(*id, (device as u16, 1), 1.0)).collect();
        let mut world = World::default();
        world.receive(state(1, 1, workers.clone()));
        prop_assert_eq!(world.actual.processes.len(), workers.len());
        world.check();
    }
}

#[test]
fn a_slot_is_handed_over_only_after_the_exit() {
    let mut world = World::default();
    let (first, second) = (worker(1, (0, 1), 1.0), worker(2, (0, 1), 1.0));
    world.receive(state(1, 1, vec![first.clone()]));
    world.receive(state(1, 2, vec![second.clone()]));
    assert!(world.actual.processes[&first.incarnation].ending);
    assert!(!world.starts.contains_key(&second.incarnation));
    world.exit(first.incarnation);
    assert_eq!(world.starts[&second.incarnation], 1);
}

#[test]
fn parts_of_a_device_are_counted() {
    let mut world = World::default();
    world.receive(state(1, 1, vec![worker(1, (0, 2), 1.0), worker(2, (0, 2), 1.0), worker(3, (0, 2), 1.0)]));
    assert_eq!(world.actual.processes.len(), 2);
    world.exit(worker(1, (0, 2), 1.0).incarnation);
    assert_eq!(world.actual.processes.len(), 2, "the third got the first one's half");
}

#[test]
fn a_new_epoch_ends_everything_even_what_it_lists() {
    let mut world = World::default();
    world.receive(state(1, 9, vec![worker(1, (0, 1), 1.0)]));
    world.receive(state(2, 3, vec![worker(1, (0, 1), 1.0), worker(2, (1, 1), 1.0)]));
    assert!(world.actual.processes[&worker(1, (0, 1), 1.0).incarnation].ending);
    assert_eq!(world.starts.len(), 2);
    world.receive(state(1, 10, vec![]));
    assert_eq!(world.held, Held { epoch: 2, plan: 3 }, "the old service is not listened to");
}
