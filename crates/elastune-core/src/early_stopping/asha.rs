//! Asynchronous successive halving (Li et al., MLSys'20, algorithm 2), by promotion and by stopping. Called by `judge`.

use super::memory::JudgeMemory;
use super::rungs::Rungs;
use super::{Place, going_on, name, place, ranked};
use crate::judge::{Judgement, Verdict};

/// By promotion: whoever is among the best 1/factor of a rung's results so far goes on, from its slot or from its pause; whoever
/// else holds a slot there pauses. Once promoted, a trial stays so, even if better ones arrive later; hence more than 1/factor
/// of a rung may have gone on in the end, and always all of the best 1/factor.
pub(super) fn promote(rungs: &Rungs, memory: &JudgeMemory) -> Vec<Judgement> {
    at_each_rung(rungs, memory, |rung, rank, results, place_at| {
        let best = rungs.go_on(results);
        if rank < best {
            let text = format!("{}: {}, {}", name(rungs, rung), place(rank, results), going_on(best));
            return Some((Verdict::Promote { run_until: rungs.resources()[rung + 1] }, text));
        }
        let so_far = match best {
            0 => format!("it waits until the rung has {} results", first_promotion(rungs)),
            best => going_on(best),
        };
        let text = format!("{}: {}, {so_far}", name(rungs, rung), place(rank, results));
        (!place_at.standing.paused()).then_some((Verdict::Pause, text))
    })
}

/// By stopping: nobody waits. Whoever is among the best 1/factor of the results so far, or the best of all, goes on at once; the
/// others end.
pub(super) fn stop(rungs: &Rungs, memory: &JudgeMemory) -> Vec<Judgement> {
    at_each_rung(rungs, memory, |rung, rank, results, _| {
        let best = rungs.go_on(results).max(1);
        let text = format!("{}: {} so far, {}", name(rungs, rung), place(rank, results), going_on(best));
        let verdict = if rank < best { Verdict::Promote { run_until: rungs.resources()[rung + 1] } } else { Verdict::Stop };
        Some((verdict, text))
    })
}

/// Asks `verdict(rung, rank, results, trial)` of every trial that waits at a rung, highest rung first, best first.
fn at_each_rung(
    rungs: &Rungs,
    memory: &JudgeMemory,
    verdict: impl Fn(usize, usize, usize, &Place) -> Option<(Verdict, String)>,
) -> Vec<Judgement> {
    let mut judgements = Vec::new();
    for rung in (0..rungs.last()).rev() {
        let places = ranked(rungs, memory, rung, |_| true);
        for (rank, place) in places.iter().enumerate() {
            if place.standing.waits_at(rungs) != Some(rung) {
                continue;
            }
            if let Some((verdict, text)) = verdict(rung, rank, places.len(), place) {
                judgements.push(Judgement { trial: place.trial, verdict, text });
            }
        }
    }
    judgements
}

/// Results at which the first trial of a rung goes on.
fn first_promotion(rungs: &Rungs) -> usize {
    (1..).find(|results| rungs.go_on(*results) > 0).unwrap_or(usize::MAX)
}
