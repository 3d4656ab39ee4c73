//! What the agent must do to get from the processes it has to those it should have. Pure; called by `agent` whenever either changes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use elastune_api::agent::{Control, Desired, DesiredWorker};
use elastune_core::model::cluster::Slot;
use elastune_core::model::ids::Incarnation;
use serde::{Deserialize, Serialize};

/// Which decision a desired state carries out. Later ones supersede earlier ones; a restored service raises the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Held {
    pub epoch: u64,
    pub plan: u64,
}

impl Held {
    pub fn of(desired: &Desired) -> Self {
        Held { epoch: desired.epoch, plan: desired.plan }
    }
    /// The same plan comes again as its orders are carried out; an older one came late and is ignored.
    pub fn admits(self, next: Held) -> bool {
        next >= self
    }
}

/// A process that is there: being prepared, running or ending.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    pub slot: Slot,
    /// Of the desired state that started it.
    pub epoch: u64,
    pub ending: bool,
    /// The last one passed on to it.
    pub control: Option<Control>,
}

/// What the node has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Actual {
    pub processes: BTreeMap<Incarnation, Process>,
    /// Started once and gone.
    pub ended: BTreeSet<Incarnation>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The slot is free and the incarnation was never started.
    Start(Box<DesiredWorker>),
    Control {
        incarnation: Incarnation,
        control: Box<Control>,
    },
    End {
        incarnation: Incarnation,
        why: End,
    },
    /// It is gone, and the service does not know.
    ReportExit(Incarnation),
}

/// Why a process is ended; says how much time it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Not listed any more.
    Unlisted,
    /// The service was restored from a backup: whatever an earlier epoch started saves and goes.
    OldEpoch,
}

/// Ends first, then controls and exits in the desired order, then the starts whose slots are free of every other process,
/// those being ended included.
pub fn actions(desired: &Desired, actual: &Actual) -> Vec<Action> {
    let listed: BTreeSet<Incarnation> = desired.workers.iter().map(|worker| worker.incarnation).collect();
    let mut actions = Vec::new();
    for (incarnation, process) in &actual.processes {
        let why = match () {
            _ if process.ending => continue,
            _ if process.epoch < desired.epoch => End::OldEpoch,
            _ if !listed.contains(incarnation) => End::Unlisted,
            _ => continue,
        };
        actions.push(Action::End { incarnation: *incarnation, why });
    }
    let mut loads = Loads::default();
    for process in actual.processes.values() {
        loads.add(process.slot);
    }
    let mut starts = Vec::new();
    let mut seen = BTreeSet::new();
    for worker in desired.workers.iter().filter(|worker| seen.insert(worker.incarnation)) {
        let incarnation = worker.incarnation;
        if let Some(process) = actual.processes.get(&incarnation) {
            if process.epoch == desired.epoch && !process.ending && process.control.as_ref() != Some(&worker.control) {
                actions.push(Action::Control { incarnation, control: Box::new(worker.control.clone()) });
            }
        } else if actual.ended.contains(&incarnation) {
            actions.push(Action::ReportExit(incarnation));
        } else if loads.fits(worker.slot) {
            loads.add(worker.slot);
            starts.push(Action::Start(Box::new(worker.clone())));
        }
    }
    actions.append(&mut starts);
    actions
}

/// How much of each device is held. Slots of 1/n of a device are not told apart: n of them fit.
#[derive(Default)]
struct Loads(BTreeMap<u16, f64>);

impl Loads {
    fn add(&mut self, slot: Slot) {
        *self.0.entry(slot.device).or_default() += part(slot);
    }
    fn fits(&self, slot: Slot) -> bool {
        self.0.get(&slot.device).copied().unwrap_or_default() + part(slot) <= 1.0 + 1e-9
    }
}

fn part(slot: Slot) -> f64 {
    1.0 / f64::from(slot.parts.max(1))
}
