//! `check` sees each kind of fault: a sound plan broken in one place.

use super::super::{DecideMemory, decide};
use super::world::{node, spec, trial};
use crate::check::{Violation, check};
use crate::model::cluster::{NodeState, Slot};
use crate::model::ids::{NodeId, StudyId, TrialId};
use crate::model::plan::{OpenSlot, Plan};
use crate::model::snapshot::{Snapshot, StudyView};
use crate::model::study::{DeviceKind, PolicyName};
use crate::model::trial::TrialState;
use crate::rng::Seed;
use crate::time::Time;

/// Two trials that run on devices 0 and 1 of a node of 4, and the plan that leaves them there.
fn sound() -> (Snapshot, Plan) {
    let trials = (0..2).map(|number| trial(100 + u128::from(number), number)).collect();
    let study = StudyView {
        id: StudyId(uuid::Uuid::from_u128(1)),
        created: Time(0),
        spec: spec(PolicyName::Fifo, 4),
        active: true,
        unproposed: 0,
        trials,
        groups: Default::default(),
    };
    let mut snapshot =
        Snapshot { now: Time(0), studies: vec![study], nodes: vec![node(7, DeviceKind::Gpu, 4, 2)], current: Plan::default() };
    snapshot.current = decide(&snapshot, &DecideMemory::default(), Seed(0)).plan;
    for trial in &mut snapshot.studies[0].trials {
        trial.state = TrialState::Running;
        trial.width = crate::model::width::Width::ONE;
    }
    let plan = decide(&snapshot, &DecideMemory::default(), Seed(0)).plan;
    assert_eq!((plan.entries.len(), check(&plan, &snapshot)), (2, Vec::new()));
    (snapshot, plan)
}

/// The faults of a plan broken by `change`.
fn faults(change: impl FnOnce(&mut Snapshot, &mut Plan)) -> Vec<Violation> {
    let (mut snapshot, mut plan) = sound();
    change(&mut snapshot, &mut plan);
    check(&plan, &snapshot)
}

fn node_id() -> NodeId {
    NodeId(uuid::Uuid::from_u128(7))
}

fn slot(device: u16) -> Slot {
    Slot { node: node_id(), device, parts: 1 }
}

fn id(number: u128) -> TrialId {
    TrialId(uuid::Uuid::from_u128(100 + number))
}

#[test]
fn numbers_and_trials() {
    assert_eq!(faults(|_, plan| plan.number = 9), [Violation::Numbering { number: 9, parent: 1, current: 1 }]);
    assert_eq!(faults(|_, plan| plan.parent = 0), [Violation::Numbering { number: 2, parent: 0, current: 1 }]);
    assert_eq!(faults(|snapshot, _| snapshot.studies[0].active = false).len(), 2);
    assert_eq!(faults(|snapshot, _| snapshot.studies[0].trials[0].state = TrialState::Completed), [Violation::NotLive { trial: id(0) }]);
    assert_eq!(faults(|snapshot, _| snapshot.studies[0].trials[1].state = TrialState::Stopping), [Violation::Stopping { trial: id(1) }]);
    assert_eq!(faults(|_, plan| plan.entries[0].attempt = 4), [Violation::Attempt { trial: id(0), runs: 1, planned: 4 }]);
    let twice = faults(|_, plan| {
        let mut again = plan.entries[0].clone();
        again.slots = vec![slot(3)];
        plan.entries.push(again);
    });
    assert!(twice.contains(&Violation::Twice { trial: id(0) }), "{twice:?}");
    let study = StudyId(uuid::Uuid::from_u128(99));
    assert_eq!(faults(|_, plan| plan.open.push(OpenSlot { study, slot: slot(2) })), [Violation::Open { study }]);
}

#[test]
fn widths_and_devices() {
    let width = crate::model::width::Width::Devices;
    assert_eq!(faults(|_, plan| plan.entries[0].slots.clear()), [Violation::Width { trial: id(0), width: width(0) }]);
    assert_eq!(
        faults(|_, plan| plan.entries[0].slots = vec![slot(0), slot(2), slot(3)]),
        [Violation::Width { trial: id(0), width: width(3) }]
    );
    let same = faults(|_, plan| plan.entries[0].slots = vec![slot(0), slot(0)]);
    assert!(same.contains(&Violation::SameDevice { trial: id(0), node: node_id(), device: 0 }), "{same:?}");
    assert_eq!(faults(|_, plan| plan.entries[0].slots = vec![slot(9)]), [Violation::UnknownDevice { node: node_id(), device: 9 }]);
    let twice = faults(|_, plan| plan.entries[0].slots = vec![slot(1)]);
    assert!(twice.contains(&Violation::Capacity { node: node_id(), device: 1 }), "{twice:?}");
    let shared = faults(|snapshot, plan| {
        snapshot.studies[0].spec.resources.share = 0.25;
        snapshot.nodes[0].devices[0].max_sharers = 1;
        for entry in &mut plan.entries {
            entry.slots = vec![Slot { parts: 4, ..slot(0) }];
        }
    });
    assert_eq!(shared, [Violation::Sharers { node: node_id(), device: 0 }]);
    let fraction = faults(|_, plan| plan.entries[0].slots = vec![Slot { parts: 2, ..slot(0) }]);
    assert_eq!(fraction, [Violation::Width { trial: id(0), width: crate::model::width::Width::Fraction(2) }], "share is 1.0");
    let memory = faults(|snapshot, _| snapshot.studies[0].spec.resources.memory_bytes = 17 << 30);
    assert!(memory.contains(&Violation::Memory { node: node_id(), device: 0 }), "{memory:?}");
}

#[test]
fn what_must_stay_stays() {
    let frozen = |snapshot: &mut Snapshot| snapshot.studies[0].trials[0].frozen = true;
    let moved = faults(|snapshot, plan| {
        frozen(snapshot);
        plan.entries[0].slots = vec![slot(3)];
    });
    assert_eq!(moved, [Violation::Frozen { trial: id(0) }]);
    let cordoned = |snapshot: &mut Snapshot| snapshot.nodes[0].state = NodeState::Cordoned;
    assert_eq!(faults(|snapshot, _| cordoned(snapshot)), [], "it keeps what it has");
    let new = faults(|snapshot, plan| {
        cordoned(snapshot);
        plan.entries[0].slots = vec![slot(0), slot(2)];
    });
    assert_eq!(new, [Violation::Unready { node: node_id(), device: 2 }]);
    assert_eq!(faults(|snapshot, _| snapshot.nodes[0].state = NodeState::Draining).len(), 2);
    let silent = |snapshot: &mut Snapshot| snapshot.nodes[0].state = NodeState::Lost;
    assert_eq!(faults(|snapshot, _| silent(snapshot)), [], "nobody can be told to go");
    let moved = faults(|snapshot, plan| {
        silent(snapshot);
        plan.entries[0].slots = vec![slot(2)];
    });
    assert_eq!(moved, [Violation::Unready { node: node_id(), device: 2 }]);
}

#[test]
fn a_slot_changes_hands_only_where_its_holder_has_no_joiner() {
    // Trial 0 moves from device 0 to 2, and trial 1 to where it was: it could wait for a joiner that never comes.
    let swapped = faults(|_, plan| {
        plan.entries[0].slots = vec![slot(2)];
        plan.entries[1].slots = vec![slot(0)];
    });
    assert_eq!(swapped, [Violation::HandedOver { trial: id(1), node: node_id(), device: 0 }]);
    // A trial that shrinks has no joiner: what it gives up may be used at once.
    let shrunk = faults(|snapshot, plan| {
        snapshot.current.entries[0].slots = vec![slot(0), slot(2)];
        plan.entries[1].slots = vec![slot(1), slot(2)];
    });
    assert_eq!(shrunk, []);
}
