//! Tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011; multivariate as in Falkner et al., ICML 2018): draws from where
//! good trials are dense and takes the draw where bad ones are thin. Called by `Searcher`.
//!
//! Beside Optuna's: half as many again count as good, the better of them weigh more, and their kernels may be narrower.

pub mod parzen;

use parzen::Parzen;

use super::encode::Axis;
use super::history::{Ended, History, How, Point, by_key};
use super::space::Space;
use crate::model::space::Params;
use crate::rng::Seed;

/// Part of the trials that counts as good, and how many at most.
const GOOD: f64 = 0.15;
const MOST_GOOD: usize = 25;
/// The good ones' least bandwidth as a part of Optuna's, which grows finer too slowly to close in on an optimum in 200 trials.
const NARROWER: f64 = 0.3;
/// Newest bad trials with full weight; older ones fade.
const FRESH: usize = 25;
/// Rounds of candidates, while none keeps the constraints.
const ROUNDS: u64 = 4;

/// How TPE is set.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub startup_trials: u32,
    pub candidates: u32,
}

/// The parameters of the trial whose stream is `seed`. `ahead`: points proposed in this batch, with their numbers. None: too few
/// trials have ended, or no candidate keeps the constraints; draw at random.
pub fn suggest(space: &Space, axes: &[Axis], history: &History, ahead: &[(u32, Point)], options: Options, seed: Seed) -> Option<Params> {
    let told = history.ended.iter().filter(|ended| ended.counts() && ended.how != How::Broken).count();
    if told < (options.startup_trials as usize).max(1) {
        return None;
    }
    let (good, bad) = split(history, ahead, ((told as f64 * GOOD).ceil() as usize).min(MOST_GOOD));
    let good = Parzen::new(axes, &good, &by_rank(good.len()), parzen::least(good.len(), NARROWER));
    let bad = Parzen::new(axes, &bad, &by_age(bad.len()), parzen::least(bad.len(), 1.0));
    choose(space, &good, &bad, options.candidates, seed)
}

/// The candidate from `good` that keeps the constraints and is likeliest under `good` against `bad`; the first of equals.
pub fn choose(space: &Space, good: &Parzen, bad: &Parzen, candidates: u32, seed: Seed) -> Option<Params> {
    for round in 0..ROUNDS {
        let mut rng = seed.child("candidates", round).rng();
        let mut best: Option<(f64, Params)> = None;
        for _ in 0..candidates {
            let params = space.decode(&good.draw(&mut rng));
            if !space.allows(&params) {
                continue;
            }
            let point = space.encode(&params);
            let score = good.log_density(&point) - bad.log_density(&point);
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, params));
            }
        }
        if let Some((_, params)) = best {
            return Some(params);
        }
    }
    None
}

/// The points of the good trials, the best first, and those of the rest by number. What runs still counts as bad (the constant
/// liar), so that parallel trials keep apart.
fn split<'a>(history: &'a History, ahead: &'a [(u32, Point)], good: usize) -> (Vec<&'a Point>, Vec<&'a Point>) {
    let mut ended: Vec<&Ended> = history.ended.iter().filter(|ended| ended.counts()).collect();
    ended.sort_by(|left, right| by_key(left.key(), right.key()).then(left.told.number.cmp(&right.told.number)));
    let (good, rest) = ended.split_at(good.min(ended.len()));
    let live = history.live.values().map(|told| (told.number, &told.point));
    let coming = ahead.iter().map(|(number, point)| (*number, point));
    let mut bad: Vec<(u32, &Point)> = rest.iter().map(|ended| (ended.told.number, &ended.told.point)).chain(live).chain(coming).collect();
    bad.sort_by_key(|(number, _)| *number);
    (good.iter().map(|ended| &ended.told.point).collect(), bad.into_iter().map(|(_, point)| point).collect())
}

/// Of good trials, the best first: logarithmic in the rank, as CMA-ES weighs parents; one in the mean.
fn by_rank(count: usize) -> Vec<f64> {
    let raw: Vec<f64> = (1..=count).map(|rank| ((count as f64 + 1.0) / rank as f64).ln()).collect();
    let mean = raw.iter().sum::<f64>() / count.max(1) as f64;
    raw.into_iter().map(|weight| weight / mean).collect()
}

/// Of trials by number: the newest weigh one, the older the less.
fn by_age(count: usize) -> Vec<f64> {
    let ramp = count.saturating_sub(FRESH);
    let first = 1.0 / count.max(1) as f64;
    let rising = |index: usize| if ramp > 1 { first + (1.0 - first) * index as f64 / (ramp - 1) as f64 } else { first };
    (0..count).map(|index| if index < ramp { rising(index) } else { 1.0 }).collect()
}
