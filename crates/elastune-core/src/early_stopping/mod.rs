//! Early stopping: the rules that say which trials go on at a rung. Called through `judge`.

mod asha;
pub(crate) mod memory;
pub mod rungs;
mod successive_halving;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::judge::{Judgement, Verdict};
use crate::model::ids::{GroupId, TrialId};
use crate::model::study::{AshaVariant, EarlyStopping, StudySpec};
use crate::propose::unproposed;
use memory::{JudgeMemory, Standing};
use rungs::Rungs;

/// The verdicts due now, highest rung first, best first. Idempotent: a verdict that took effect (`Event::Judged`) is not given
/// again.
pub fn judge(spec: &StudySpec, memory: &JudgeMemory) -> Vec<Judgement> {
    let Some(rungs) = Rungs::of(&spec.early_stopping) else { return Vec::new() };
    match spec.early_stopping {
        EarlyStopping::None => Vec::new(),
        EarlyStopping::Asha { variant: AshaVariant::Promotion, .. } => asha::promote(&rungs, memory),
        EarlyStopping::Asha { variant: AshaVariant::Stopping, .. } => asha::stop(&rungs, memory),
        EarlyStopping::SuccessiveHalving { trials, .. } => {
            successive_halving::judge(&rungs, memory, trials, unproposed(spec, &memory.proposed))
        }
    }
}

/// Closes the paused trials once none can be promoted any more: nothing is live, nothing is left to propose (`unproposed`), and
/// `judge` has nothing to say.
pub fn idle(spec: &StudySpec, memory: &JudgeMemory, unproposed: u32) -> Vec<Judgement> {
    let Some(rungs) = Rungs::of(&spec.early_stopping) else { return Vec::new() };
    let live = memory.trials.values().any(|standing| standing.state.is_live() && !standing.paused());
    if live || unproposed > 0 || !judge(spec, memory).is_empty() {
        return Vec::new();
    }
    let close = |(trial, standing): (&TrialId, &Standing)| {
        let rung = standing.waits_at(&rungs)?;
        let text = format!("{}: not promoted, and no other trial is left to change that", name(&rungs, rung));
        Some(Judgement { trial: *trial, verdict: Verdict::Close, text })
    };
    memory.trials.iter().filter_map(close).collect()
}

/// The rung that each unfinished trial is on its way to (or waits at): trials that are compared with each other. Empty without
/// rungs.
pub fn groups(spec: &StudySpec, memory: &JudgeMemory) -> BTreeMap<TrialId, GroupId> {
    let Some(rungs) = Rungs::of(&spec.early_stopping) else { return BTreeMap::new() };
    let size = match spec.early_stopping {
        EarlyStopping::SuccessiveHalving { trials, .. } => trials,
        _ => None,
    };
    let group = |(trial, standing): (&TrialId, &Standing)| {
        let rung = standing.waits_at(&rungs).unwrap_or(standing.results.len().min(rungs.last()));
        let cohort = size.map_or(0, |size| standing.number / size.max(1));
        (*trial, GroupId(u64::from(cohort) << 32 | rung as u64))
    };
    memory.trials.iter().filter(|(_, standing)| !standing.state.is_final()).map(group).collect()
}

/// A trial's place in a rung.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    trial: TrialId,
    standing: &'a Standing,
}

/// The trials that compete at the rung, best first: no finite value ranks last, ties go to the lower number.
fn ranked<'a>(rungs: &Rungs, memory: &'a JudgeMemory, rung: usize, keep: impl Fn(&Standing) -> bool) -> Vec<Place<'a>> {
    let reached = |standing: &Standing| standing.competes(rung, rungs) && keep(standing);
    let mut places: Vec<Place> =
        memory.trials.iter().filter(|(_, standing)| reached(standing)).map(|(trial, standing)| Place { trial: *trial, standing }).collect();
    let loss = |place: &Place| place.standing.results[rung].unwrap_or(f64::INFINITY);
    let finite = |place: &Place| place.standing.results[rung].is_some();
    places.sort_by(|left, right| {
        finite(right).cmp(&finite(left)).then(loss(left).total_cmp(&loss(right))).then(left.standing.number.cmp(&right.standing.number))
    });
    places
}

/// `rung 4 epochs`.
fn name(rungs: &Rungs, rung: usize) -> String {
    let resource = rungs.resources()[rung];
    format!("rung {resource} {}", if resource == 1.0 { "epoch" } else { "epochs" })
}

/// `3rd of 9`.
fn place(rank: usize, results: usize) -> String {
    let rank = rank + 1;
    let ending = match (rank % 10, rank % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{rank}{ending} of {results}")
}

/// `the best 2 go on`.
fn going_on(count: usize) -> String {
    match count {
        0 => "none goes on yet".into(),
        1 => "the best 1 goes on".into(),
        count => format!("the best {count} go on"),
    }
}
