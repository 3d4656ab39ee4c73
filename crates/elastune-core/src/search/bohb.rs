//! BOHB's model (Falkner et al., ICML 2018): Parzen estimators of what is good and bad at the highest rung of early stopping that has
//! enough results, and a part of the trials at random. With ASHA or successive halving it is BOHB; alone it learns from final
//! results. Called by `Searcher`.

use super::encode::Axis;
use super::history::{Ended, History, How, Point, Told};
use super::normal;
use super::space::Space;
use super::tpe::choose;
use super::tpe::parzen::{self, Parzen};
use crate::model::space::Params;
use crate::rng::Seed;

/// Part of a rung's results that is good.
const GOOD: f64 = 0.15;
/// Candidates among which the model chooses.
const CANDIDATES: u32 = 64;

/// A result: its loss (infinite where it failed), its trial's number and point.
type Result<'a> = (f64, u32, &'a Point);

/// The parameters of the trial whose stream is `seed`. `ahead`: points proposed in this batch. None: this one is random.
pub fn suggest(
    space: &Space,
    axes: &[Axis],
    history: &History,
    ahead: &[(u32, Point)],
    random_fraction: f64,
    seed: Seed,
) -> Option<Params> {
    if normal::uniform(&mut seed.child("random", 0).rng()) < random_fraction {
        return None;
    }
    let needed = axes.iter().filter(|axis| **axis != Axis::Fixed).count() + 2;
    let mut results = highest(history, needed + 1)?;
    results.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
    let good = needed.max((results.len() as f64 * GOOD) as usize).min(results.len() - 1);
    let points = |results: &[Result<'_>]| {
        let mut numbered: Vec<(u32, Point)> = results.iter().map(|(_, number, point)| (*number, (*point).clone())).collect();
        numbered.sort_by_key(|(number, _)| *number);
        numbered
    };
    let (good, mut bad) = (points(&results[..good]), points(&results[good..]));
    // What has no result there yet counts as bad (the constant liar), so that parallel trials keep apart.
    let known = |number: u32| results.iter().any(|(_, other, _)| *other == number);
    let mut coming: Vec<(u32, Point)> =
        history.live.values().filter(|told| !known(told.number)).map(|told| (told.number, told.point.clone())).collect();
    coming.sort_by_key(|(number, _)| *number);
    bad.extend(coming);
    bad.extend(ahead.iter().cloned());
    let parzen = |numbered: &[(u32, Point)]| {
        let points: Vec<&Point> = numbered.iter().map(|(_, point)| point).collect();
        Parzen::new(axes, &points, &vec![1.0; points.len()], parzen::least(points.len(), 1.0))
    };
    choose(space, &parzen(&good), &parzen(&bad), CANDIDATES, seed)
}

/// The results at the highest rung that has `needed`; without rungs, the final ones.
fn highest<'a>(history: &'a History, needed: usize) -> Option<Vec<Result<'a>>> {
    let counting = || history.ended.iter().filter(|ended| ended.counts()).map(|ended| &ended.told);
    let told: Vec<&'a Told> = counting().chain(history.live.values()).collect();
    let rungs = told.iter().map(|told| told.rungs.len()).max().unwrap_or(0);
    for rung in (0..rungs).rev() {
        let at = |told: &&&Told| told.rungs.len() > rung;
        if told.iter().filter(at).count() >= needed {
            let result = |told: &&'a Told| (told.rungs[rung].unwrap_or(f64::INFINITY), told.number, &told.point);
            return Some(told.iter().filter(at).map(result).collect());
        }
    }
    if rungs > 0 {
        return None;
    }
    let final_loss = |ended: &Ended| if ended.how == How::Completed { ended.loss().unwrap_or(f64::INFINITY) } else { f64::INFINITY };
    let results: Vec<Result<'a>> = history
        .ended
        .iter()
        .filter(|ended| ended.counts())
        .map(|ended| (final_loss(ended), ended.told.number, &ended.told.point))
        .collect();
    (results.len() >= needed).then_some(results)
}
