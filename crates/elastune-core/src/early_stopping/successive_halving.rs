//! Synchronous successive halving (Jamieson & Talwalkar, AISTATS'16): a rung is judged once all of its cohort is there. Called by
//! `judge`.

use std::collections::BTreeMap;

use super::memory::{JudgeMemory, Standing};
use super::rungs::Rungs;
use super::{going_on, name, place, ranked};
use crate::judge::{Judgement, Verdict};

/// `trials`: a cohort is that many consecutive numbers; None: all of the study's trials are one. `unproposed`: trials that the
/// study has still to propose. Until a rung is complete whoever holds a slot there pauses; then the best 1/factor, and at least
/// one, go on, and the others are closed. A trial that failed, was cancelled, excluded or stopped by a user leaves its rung, so that the rest can go on.
pub(super) fn judge(rungs: &Rungs, memory: &JudgeMemory, trials: Option<u32>, unproposed: u32) -> Vec<Judgement> {
    let cohort_of = |standing: &Standing| trials.map_or(0, |size| standing.number / size.max(1));
    // Trials that each cohort still counts on.
    let mut cohorts: BTreeMap<u32, Vec<&Standing>> = BTreeMap::new();
    for standing in memory.trials.values().filter(|standing| standing.counts()) {
        cohorts.entry(cohort_of(standing)).or_default().push(standing);
    }
    let mut judgements = Vec::new();
    for (cohort, members) in cohorts {
        let whole =
            unproposed == 0 || trials.is_some_and(|size| u64::from(memory.proposed.next) >= (u64::from(cohort) + 1) * u64::from(size));
        for rung in (0..rungs.last()).rev() {
            let places = ranked(rungs, memory, rung, |standing| cohort_of(standing) == cohort);
            let coming = members.iter().filter(|standing| standing.is_coming(rung)).count();
            let complete = whole && coming == 0;
            let best = rungs.go_on(places.len()).max(1);
            for (rank, at) in places.iter().enumerate().filter(|(_, at)| at.standing.waits_at(rungs) == Some(rung)) {
                let here = place(rank, places.len());
                let (verdict, text) = match (complete, rank < best) {
                    (true, true) => (Verdict::Promote { run_until: rungs.resources()[rung + 1] }, format!("{here}, {}", going_on(best))),
                    (true, false) => (Verdict::Close, format!("{here}, {}", going_on(best))),
                    (false, _) if at.standing.paused() => continue,
                    (false, _) => (Verdict::Pause, format!("{here} so far, it waits for the rest of its cohort")),
                };
                judgements.push(Judgement { trial: at.trial, verdict, text: format!("{}: {text}", name(rungs, rung)) });
            }
        }
    }
    judgements
}
