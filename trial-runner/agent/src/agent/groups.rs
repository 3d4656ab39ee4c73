//! Groups of ranks as far as they concern this node alone: broken ones that it forms anew, hanging ones that it aborts. The choices
//! are `elastic::Survivors`' and `liveness`'; used by `node`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use elastune_core::elastic::{Fact, Survivors};
use elastune_core::model::group::Order;
use elastune_core::model::ids::{Incarnation, TrialId};
use elastune_core::time::Time;

use super::worker::Worker;

/// What has been heard of each trial's newest attempt.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<TrialId, (u32, Survivors)>);

impl Groups {
    pub fn hear(&mut self, trial: TrialId, attempt: u32, fact: &Fact) {
        let (known, survivors) = self.0.entry(trial).or_insert((attempt, Survivors::default()));
        if *known < attempt {
            (*known, *survivors) = (attempt, Survivors::default());
        }
        if *known == attempt {
            survivors.hear(fact);
        }
    }

    /// The order under which the trial's survivors go on, if it is for this node to give and now. Forgets trials without processes.
    pub fn form(&mut self, trial: TrialId, workers: &BTreeMap<Incarnation, Worker>, now: Time) -> Option<Order> {
        let of_trial = || workers.values().filter(|worker| worker.record.trial == trial);
        if of_trial().next().is_none() {
            self.0.remove(&trial);
        }
        let (attempt, survivors) = self.0.get_mut(&trial)?;
        let left = || of_trial().filter(|worker| worker.record.attempt == *attempt && worker.serves());
        // Told to save or stop, they go by themselves.
        if left().any(|worker| worker.control.as_ref().is_some_and(|control| control.finish.is_some())) {
            return None;
        }
        let node = left().next()?.record.slot.node;
        let alive: BTreeSet<Incarnation> = left().map(|worker| worker.record.incarnation).collect();
        survivors.form(trial, *attempt, node, &alive, now)
    }
}

/// Ranks of groups in which nobody here does anything but wait in a collective, and has for longer than `limit`.
pub(super) fn hanging(workers: &BTreeMap<Incarnation, Worker>, now: Instant, limit: Duration) -> Vec<Incarnation> {
    let mut trials: BTreeMap<TrialId, Option<Vec<Incarnation>>> = BTreeMap::new();
    for (incarnation, worker) in workers.iter().filter(|(_, worker)| worker.serves() && !worker.pulse.is_starting()) {
        let waits = worker.pulse.waits_in_collective(now).is_some_and(|span| span > limit);
        let entry = trials.entry(worker.record.trial).or_insert_with(|| Some(Vec::new()));
        match entry {
            Some(ranks) if waits => ranks.push(*incarnation),
            entry => *entry = None,
        }
    }
    trials.into_values().flatten().flatten().collect()
}
