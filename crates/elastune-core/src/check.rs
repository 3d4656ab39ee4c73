//! Lints a plan against the snapshot that it was made from. A plan that fails is not stored: the service keeps the old one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::cluster::{Device, NodeState, NodeView, Slot};
use crate::model::ids::{NodeId, StudyId, TrialId};
use crate::model::plan::{Plan, PlanEntry};
use crate::model::snapshot::{Snapshot, StudyView};
use crate::model::trial::{TrialState, TrialView};
use crate::model::width::{Width, legal_widths};
use crate::sched::{UNITS_PER_DEVICE, units};

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "violation", rename_all = "snake_case")]
pub enum Violation {
    #[error("plan {number} follows {parent}, but the current plan is {current}")]
    Numbering { number: u64, parent: u64, current: u64 },
    #[error("trial {trial} is not live, or its study is not active, yet has slots")]
    NotLive { trial: TrialId },
    #[error("trial {trial} is being stopped, yet has slots")]
    Stopping { trial: TrialId },
    #[error("trial {trial} appears twice")]
    Twice { trial: TrialId },
    #[error("trial {trial} runs attempt {runs}, the plan is for attempt {planned}")]
    Attempt { trial: TrialId, runs: u32, planned: u32 },
    #[error("trial {trial} gets width {width:?}, which its study does not allow")]
    Width { trial: TrialId, width: Width },
    #[error("trial {trial} has two ranks on one device of node {node}")]
    SameDevice { trial: TrialId, node: NodeId, device: u16 },
    #[error("trial {trial} is in mid-switch, but its slots change")]
    Frozen { trial: TrialId },
    #[error("node {node} has no device {device}")]
    UnknownDevice { node: NodeId, device: u16 },
    #[error("node {node} takes nothing, or nothing new, yet device {device} is handed out")]
    Unready { node: NodeId, device: u16 },
    #[error("device {device} of node {node} is handed out more than once over")]
    Capacity { node: NodeId, device: u16 },
    #[error("device {device} of node {node} has more sharers than it may")]
    Sharers { node: NodeId, device: u16 },
    #[error("device {device} of node {node} has too little memory for its ranks")]
    Memory { node: NodeId, device: u16 },
    #[error("trial {trial} would start on device {device} of node {node} before a trial that moves away has left it")]
    HandedOver { trial: TrialId, node: NodeId, device: u16 },
    #[error("a slot is left open for study {study}, which is unknown or not active")]
    Open { study: StudyId },
}

struct Known<'a> {
    trials: BTreeMap<TrialId, (&'a StudyView, &'a TrialView)>,
    devices: BTreeMap<(NodeId, u16), (&'a NodeView, &'a Device)>,
    current: BTreeMap<TrialId, &'a PlanEntry>,
}

/// Everything that is wrong with `plan`; empty if nothing is.
pub fn check(plan: &Plan, snapshot: &Snapshot) -> Vec<Violation> {
    let trials = snapshot.studies.iter().flat_map(|study| study.trials.iter().map(move |trial| (trial.id, (study, trial)))).collect();
    let known = Known {
        trials,
        devices: snapshot
            .nodes
            .iter()
            .flat_map(|node| node.devices.iter().map(move |device| ((node.id, device.index), (node, device))))
            .collect(),
        current: snapshot.current.entries.iter().map(|entry| (entry.trial, entry)).collect(),
    };
    let mut found = Vec::new();
    if plan.parent != snapshot.current.number || plan.number != snapshot.current.number + 1 {
        found.push(Violation::Numbering { number: plan.number, parent: plan.parent, current: snapshot.current.number });
    }
    let mut seen = BTreeSet::new();
    for entry in &plan.entries {
        if !seen.insert(entry.trial) {
            found.push(Violation::Twice { trial: entry.trial });
        }
        check_entry(entry, &known, &mut found);
    }
    for open in &plan.open {
        if !snapshot.studies.iter().any(|study| study.id == open.study && study.active) {
            found.push(Violation::Open { study: open.study });
        }
    }
    check_devices(plan, &known, &mut found);
    check_hand_overs(plan, &known, &mut found);
    found
}

fn check_entry(entry: &PlanEntry, known: &Known, found: &mut Vec<Violation>) {
    let trial = entry.trial;
    let Some((study, view)) = known.trials.get(&trial) else {
        return found.push(Violation::NotLive { trial });
    };
    if view.state == TrialState::Stopping {
        found.push(Violation::Stopping { trial });
    } else if !view.state.is_live() || !study.active || study.spec.workload.is_none() {
        found.push(Violation::NotLive { trial });
    }
    if view.attempt != entry.attempt {
        found.push(Violation::Attempt { trial, runs: view.attempt, planned: entry.attempt });
    }
    let before: &[Slot] = match known.current.get(&trial) {
        Some(current) if current.attempt == entry.attempt => &current.slots,
        _ => &[],
    };
    let usable = |slot: &&Slot| match known.devices.get(&(slot.node, slot.device)) {
        Some((node, _)) => matches!(node.state, NodeState::Ready | NodeState::Cordoned),
        None => false,
    };
    let kept: Vec<Slot> = before.iter().filter(usable).copied().collect();
    let frozen = (view.frozen || view.held) && !kept.is_empty();
    let silent = |slot: &Slot| known.devices.get(&(slot.node, slot.device)).is_some_and(|(node, _)| node.state == NodeState::Lost);
    let stranded = !before.is_empty() && before == entry.slots && before.iter().all(silent);
    if frozen && kept != entry.slots {
        found.push(Violation::Frozen { trial });
    }
    if !frozen && !stranded && !legal(study, view, entry) {
        found.push(Violation::Width { trial, width: entry.width() });
    }
    let mut own = BTreeSet::new();
    for slot in &entry.slots {
        let (node, device) = (slot.node, slot.device);
        if !own.insert((node, device)) {
            found.push(Violation::SameDevice { trial, node, device });
        }
        let had = before.iter().any(|slot| (slot.node, slot.device) == (node, device));
        match known.devices.get(&(node, device)) {
            None => found.push(Violation::UnknownDevice { node, device }),
            Some((view, _)) => match view.state {
                NodeState::Ready => {}
                NodeState::Cordoned if had => {}
                NodeState::Lost if stranded => {}
                _ => found.push(Violation::Unready { node, device }),
            },
        }
    }
}

fn legal(study: &StudyView, trial: &TrialView, entry: &PlanEntry) -> bool {
    let resources = &study.spec.resources;
    let shards = study.spec.workload.as_ref().map_or(1, |workload| workload.shards);
    match entry.width() {
        Width::Fraction(parts) => resources.min_width <= 1 && !trial.alone && resources.share * f64::from(parts) <= 1.0 + 1e-9,
        Width::Devices(devices) => {
            let whole = entry.slots.iter().all(|slot| slot.parts == 1);
            whole && devices >= resources.min_width && legal_widths(shards, u32::from(resources.max_width)).contains(&devices)
        }
    }
}

fn check_devices(plan: &Plan, known: &Known, found: &mut Vec<Violation>) {
    let mut held: BTreeMap<(NodeId, u16), (u32, u32, u64)> = BTreeMap::new();
    let memory = |trial: &TrialId| known.trials.get(trial).map_or(0, |(study, _)| study.spec.resources.memory_bytes);
    let entries = plan.entries.iter().flat_map(|entry| entry.slots.iter().map(|slot| (*slot, memory(&entry.trial))));
    let open = plan.open.iter().map(|open| (open.slot, 0));
    for (slot, bytes) in entries.chain(open) {
        let held = held.entry((slot.node, slot.device)).or_default();
        held.0 = held.0.saturating_add(units(Width::Fraction(slot.parts)));
        held.1 += 1;
        held.2 = held.2.saturating_add(bytes);
    }
    for ((node, device), (parts, sharers, bytes)) in held {
        let Some((_, view)) = known.devices.get(&(node, device)) else { continue };
        if parts > UNITS_PER_DEVICE {
            found.push(Violation::Capacity { node, device });
        }
        if sharers > u32::from(view.max_sharers.max(1)) {
            found.push(Violation::Sharers { node, device });
        }
        if bytes > view.memory_bytes {
            found.push(Violation::Memory { node, device });
        }
    }
}

/// A trial with a joiner holds its old slots until the joiner is in, so nobody may start on those.
fn check_hand_overs(plan: &Plan, known: &Known, found: &mut Vec<Violation>) {
    let same = |slot: &Slot, other: &Slot| (slot.node, slot.device) == (other.node, other.device);
    let mut lingering: BTreeMap<(NodeId, u16), u32> = BTreeMap::new();
    let mut new_units: BTreeMap<(NodeId, u16), u32> = BTreeMap::new();
    for entry in &plan.entries {
        for slot in &entry.slots {
            *new_units.entry((slot.node, slot.device)).or_default() += units(Width::Fraction(slot.parts));
        }
        let Some(before) = known.current.get(&entry.trial).filter(|before| before.attempt == entry.attempt) else { continue };
        if entry.slots.iter().all(|slot| before.slots.iter().any(|old| same(old, slot))) {
            continue;
        }
        for old in before.slots.iter().filter(|old| !entry.slots.iter().any(|slot| same(slot, old))) {
            *lingering.entry((old.node, old.device)).or_default() += units(Width::Fraction(old.parts));
        }
    }
    for entry in &plan.entries {
        let before = known.current.get(&entry.trial).filter(|before| before.attempt == entry.attempt);
        for slot in &entry.slots {
            let key = (slot.node, slot.device);
            let starts = !before.is_some_and(|before| before.slots.iter().any(|old| same(old, slot)));
            let crowded = |left: &u32| left + new_units.get(&key).copied().unwrap_or(0) > UNITS_PER_DEVICE;
            if starts && lingering.get(&key).is_some_and(crowded) {
                found.push(Violation::HandedOver { trial: entry.trial, node: slot.node, device: slot.device });
            }
        }
    }
}
