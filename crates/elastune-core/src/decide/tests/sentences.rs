//! What a user reads.

use super::super::{DecideMemory, decide};
use super::world::{node, spec, trial};
use crate::model::cluster::NodeState;
use crate::model::ids::StudyId;
use crate::model::plan::{Plan, PlanEntry};
use crate::model::snapshot::{Snapshot, StudyView};
use crate::model::study::{DeviceKind, PolicyName};
use crate::model::trial::{RateSample, TrialState};
use crate::model::width::Width;
use crate::rng::Seed;
use crate::time::{Span, Time};

fn snapshot(policy: PolicyName, devices: u16, trials: u32) -> Snapshot {
    let trials = (0..trials).map(|number| trial(100 + u128::from(number), number)).collect();
    let view = StudyView {
        id: StudyId(uuid::Uuid::from_u128(1)),
        created: Time(0),
        spec: spec(policy, 4),
        active: true,
        unproposed: 0,
        trials,
        groups: Default::default(),
    };
    Snapshot { now: Time(60_000), studies: vec![view], nodes: vec![node(7, DeviceKind::Cpu, devices, 1)], current: Plan::default() }
}

/// Trial `at` runs at the width that `plan` gave it and measured `seconds` a unit there.
fn runs(snapshot: &mut Snapshot, at: usize, measured: &[(u16, f64)]) {
    let trial = &mut snapshot.studies[0].trials[at];
    trial.state = TrialState::Running;
    trial.done = 6.0;
    trial.rates = measured
        .iter()
        .map(|(width, seconds)| RateSample { width: Width::Devices(*width), nodes: 1, seconds_per_unit: *seconds })
        .collect();
    let entry = snapshot.current.entries.iter().find(|entry| entry.trial == trial.id).expect("it is in the plan");
    trial.width = entry.width();
}

fn text(snapshot: &Snapshot, at: usize) -> (String, String) {
    let decision = decide(snapshot, &DecideMemory::default(), Seed(0));
    let line = &decision.report.trials[at];
    (line.code.clone(), line.text.clone())
}

#[test]
fn a_trial_starts_and_the_next_waits() {
    let snapshot = snapshot(PolicyName::Fifo, 2, 3);
    assert_eq!(text(&snapshot, 0), ("started".into(), "starts at width 1; not measured yet".into()));
    assert_eq!(
        text(&snapshot, 2),
        ("waiting_for_capacity".into(), "waits: all 2 devices of the study are held by 2 running trials".into())
    );
}

#[test]
fn the_last_trial_grows_once_it_was_measured_and_says_what_that_gives() {
    let mut world = snapshot(PolicyName::Fluid, 2, 1);
    world.current = decide(&world, &DecideMemory::default(), Seed(0)).plan;
    assert_eq!(world.current.entries[0].width(), Width::ONE, "nothing was measured: width 1");
    runs(&mut world, 0, &[(1, 4.0), (1, 4.0)]);
    let (code, text) = text(&world, 0);
    assert_eq!(code, "grown");
    assert_eq!(text, "grows from width 1 to width 2 (2.00x the speed of width 1 expected); about 20 s of its work left");
}

#[test]
fn a_small_gain_does_not_pay_for_a_resize() {
    let mut world = snapshot(PolicyName::Fluid, 2, 1);
    world.current = decide(&world, &DecideMemory::default(), Seed(0)).plan;
    runs(&mut world, 0, &[(1, 4.0), (2, 3.0)]);
    world.studies[0].trials[0].restart_cost = Span::from_secs(9);
    let (code, text) = text(&world, 0);
    assert_eq!(code, "guarded");
    assert!(text.starts_with("keeps width 1; about 40 s of its work left; growing to width 2 would gain 1.0"), "{text}");
}

#[test]
fn a_raised_least_width_makes_a_running_trial_grow_whatever_it_gains() {
    let mut world = snapshot(PolicyName::Fluid, 4, 1);
    world.current = decide(&world, &DecideMemory::default(), Seed(0)).plan;
    runs(&mut world, 0, &[(1, 4.0), (2, 4.0), (4, 5.0)]);
    world.studies[0].spec.resources.min_width = 4;
    let decision = decide(&world, &DecideMemory::default(), Seed(0));
    assert_eq!((decision.report.trials[0].code.as_str(), decision.plan.entries[0].slots.len()), ("grown", 4));
    world.nodes[0].devices.truncate(3);
    let decision = decide(&world, &DecideMemory::default(), Seed(0));
    assert_eq!((decision.report.trials[0].code.as_str(), decision.plan.entries.len()), ("preempted", 0), "three are too few");
}

#[test]
fn a_trial_on_silent_nodes_stays_in_the_plan_until_another_node_has_room() {
    let mut world = snapshot(PolicyName::Fluid, 2, 1);
    world.current = decide(&world, &DecideMemory::default(), Seed(0)).plan;
    runs(&mut world, 0, &[(1, 4.0)]);
    world.nodes[0].state = NodeState::Lost;
    let decision = decide(&world, &DecideMemory::default(), Seed(0));
    assert_eq!((&decision.plan.entries, decision.report.trials[0].code.as_str()), (&world.current.entries, "lost"));
    world.nodes.push(node(8, DeviceKind::Cpu, 1, 1));
    let decision = decide(&world, &DecideMemory::default(), Seed(0));
    assert_eq!(decision.plan.entries[0].slots[0].node, world.nodes[1].id);
}

#[test]
fn a_second_study_makes_the_first_shrink() {
    let mut world = snapshot(PolicyName::Fluid, 2, 1);
    world.current = Plan {
        number: 1,
        parent: 0,
        entries: vec![PlanEntry {
            trial: world.studies[0].trials[0].id,
            attempt: 1,
            run_until: 16.0,
            slots: (0..2).map(|device| crate::model::cluster::Slot { node: world.nodes[0].id, device, parts: 1 }).collect(),
        }],
        open: Vec::new(),
    };
    runs(&mut world, 0, &[(1, 4.0), (2, 3.0)]);
    let mut second = world.studies[0].clone();
    second.id = StudyId(uuid::Uuid::from_u128(2));
    second.created = Time(1);
    second.trials = vec![trial(200, 0)];
    world.studies.push(second);
    let decision = decide(&world, &DecideMemory::default(), Seed(0));
    assert_eq!(decision.report.trials[0].code, "shrunk");
    assert_eq!(decision.report.trials[1].code, "started");
    assert_eq!(decision.plan.entries[0].slots.len(), 1);
}
