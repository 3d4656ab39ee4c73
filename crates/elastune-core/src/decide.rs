//! Widths and places for every live trial: claims between studies, claims within each, then slots. The service calls it on every
//! wake-up and the simulator on every event; the plan that it gives is the whole desired placement.

mod claims;
mod explain;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::cluster::Slot;
use crate::model::ids::StudyId;
use crate::model::plan::{OpenSlot, Plan, PlanEntry, Report};
use crate::model::snapshot::Snapshot;
use crate::perf::StudyRates;
use crate::place::{Want, place};
use crate::rng::Seed;
use crate::sched::fluid::settles_after;
use crate::sched::{Capacity, Claim, Grant, PolicyConfig, PolicyMemory, Why, allocate};
use crate::time::Time;
use claims::{Candidate, StudyClaims, gather};

/// What `decide` keeps from one call to the next; stored in the plan's row.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DecideMemory {
    pub studies: BTreeMap<StudyId, StudyRates>,
    /// Of policies that keep something.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<StudyId, PolicyMemory>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Numbered after the current plan, its parent. Where entries and open slots equal the current plan's, nothing changes.
    pub plan: Plan,
    pub memory: DecideMemory,
    /// One explanation for each live trial, by study and number.
    pub report: Report,
    /// When to decide again at the latest, if no event comes first.
    pub wake_at: Option<Time>,
}

/// Independent of the order in which the snapshot lists things. `seed` is for policies that draw.
pub fn decide(snapshot: &Snapshot, memory: &DecideMemory, seed: Seed) -> Decision {
    let before = &memory.policies;
    let (mut studies, mut memory) = gather(snapshot, memory);
    share_between(&mut studies);
    for study in &mut studies {
        let capacity = Capacity { devices: study.share, claims: study.parallel };
        let claims: Vec<Claim> = study.candidates.iter().map(|candidate| candidate.claim.clone()).collect();
        let policy = PolicyConfig::from(study.view.spec.scheduling.policy);
        let known = before.get(&study.view.id).unwrap_or(&PolicyMemory::None);
        let allocation = allocate(&policy, &claims, capacity, known, seed.child("study", study.view.id.0.as_u64_pair().0));
        for (candidate, grant) in study.candidates.iter_mut().zip(allocation.grants) {
            candidate.grant = grant;
        }
        if !allocation.memory.is_none() {
            memory.policies.insert(study.view.id, allocation.memory);
        }
    }
    settle_places(&mut studies, snapshot);

    let mut plan = Plan { number: snapshot.current.number + 1, parent: snapshot.current.number, ..Plan::default() };
    for study in &studies {
        for candidate in study.candidates.iter().filter(|candidate| !candidate.slots.is_empty()) {
            match candidate.trial {
                Some(trial) => plan.entries.push(PlanEntry {
                    trial: trial.id,
                    attempt: trial.attempt,
                    run_until: trial.run_until,
                    slots: candidate.slots.clone(),
                }),
                None => plan.open.extend(candidate.slots.iter().map(|&slot| OpenSlot { study: study.view.id, slot })),
            }
        }
    }
    let report = explain::report(&studies, snapshot);
    Decision { plan, memory, report, wake_at: wake_at(&studies, snapshot.now) }
}

/// Devices for each study: max-min among those that use the same kind of device.
fn share_between(studies: &mut [StudyClaims]) {
    let mut pools: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
    for (at, study) in studies.iter().enumerate().filter(|(_, study)| !study.candidates.is_empty()) {
        pools.entry(study.kind as u8).or_default().push(at);
    }
    for members in pools.into_values() {
        let devices = members.iter().map(|&at| studies[at].devices).max().unwrap_or(0);
        let claims: Vec<Claim> = members.iter().map(|&at| studies[at].claim(at as u64)).collect();
        let grants = allocate(&PolicyConfig::Between, &claims, Capacity { devices, claims: u32::MAX }, &PolicyMemory::None, Seed(0)).grants;
        for (&at, grant) in members.iter().zip(grants) {
            // What it keeps on cordoned nodes is nobody else's loss.
            let (all, ready) = studies[at].frozen_devices();
            studies[at].share = grant.width.ranks() + all - ready;
        }
    }
}

/// Slots for all studies' grants at once: what runs first, the longest of it first, then newcomers in their order.
fn settle_places(studies: &mut [StudyClaims], snapshot: &Snapshot) {
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (s, study) in studies.iter().enumerate() {
        order.extend((0..study.candidates.len()).filter(|&c| !study.candidates[c].grant.width.is_zero()).map(|c| (s, c)));
    }
    let candidate = |&(s, c): &(usize, usize)| &studies[s].candidates[c];
    order.sort_by(|a, b| {
        let (x, y) = (candidate(a), candidate(b));
        let left = |candidate: &Candidate| candidate.claim.seconds_left(candidate.claim.current.max(candidate.grant.width));
        let rank = |at: &(usize, usize)| (std::cmp::Reverse(studies[at.0].view.spec.scheduling.priority), at.0);
        (!x.claim.frozen, x.kept.is_empty(), x.claim.standing)
            .cmp(&(!y.claim.frozen, y.kept.is_empty(), y.claim.standing))
            .then(rank(a).0.cmp(&rank(b).0))
            .then(left(y).total_cmp(&left(x)))
            .then(rank(a).1.cmp(&rank(b).1))
            .then((x.claim.number, x.claim.id).cmp(&(y.claim.number, y.claim.id)))
    });
    let want = |at: &(usize, usize)| {
        let (study, candidate) = (&studies[at.0], candidate(at));
        Want {
            study: at.0,
            width: candidate.grant.width,
            widths: candidate
                .claim
                .speedup
                .iter()
                .map(|(width, _)| *width)
                .filter(|width| *width >= candidate.claim.min.max(crate::model::width::Width::ONE))
                .collect(),
            current: candidate.kept.clone(),
            fixed: candidate.claim.frozen,
            kind: study.kind,
            memory_bytes: study.view.spec.resources.memory_bytes,
        }
    };
    let wants: Vec<Want> = order.iter().map(want).collect();
    let shares: Vec<u32> = studies.iter().map(|study| study.share).collect();
    let placed: Vec<Vec<Slot>> = place(&wants, &snapshot.nodes, &shares);
    for ((s, c), slots) in order.into_iter().zip(placed) {
        let candidate = &mut studies[s].candidates[c];
        // Less than its study's least width is of no use.
        let enough =
            candidate.claim.frozen || slots.iter().any(|slot| slot.parts > 1) || slots.len() >= candidate.claim.min.ranks() as usize;
        candidate.slots = if enough { slots } else { Vec::new() };
    }
    for candidate in studies.iter_mut().flat_map(|study| &mut study.candidates).filter(|candidate| candidate.stranded) {
        if candidate.slots.is_empty() {
            candidate.slots.clone_from(&candidate.before);
        }
    }
}

/// Trials that may not be resized yet may be later.
fn wake_at(studies: &[StudyClaims], now: Time) -> Option<Time> {
    let unsettled = |candidate: &&Candidate| matches!(candidate.grant, Grant { why: Why::Unsettled, .. });
    let candidates = studies.iter().flat_map(|study| study.candidates.iter()).filter(unsettled);
    let settles = candidates.filter_map(|candidate| Some(candidate.trial?.last_resize? + settles_after(candidate.claim.restart_cost)));
    settles.filter(|at| *at > now).min()
}
