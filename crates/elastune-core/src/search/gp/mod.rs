//! Bayesian optimisation: a Gaussian process over what was measured, and the point of the most expected improvement. Called by
//! `Searcher` (suggestions) and `Learner` (the fit of the kernel, which is part of the fold: a suggestion only conditions).

mod acquisition;
mod minimize;
mod regression;
mod warp;

use serde::{Deserialize, Serialize};

use acquisition::Acquisition;
use regression::{Posterior, Theta};

use super::encode::Axis;
use super::history::{Ended, History, How, Point, by_key};
use super::space::Space;
use crate::model::space::Params;
use crate::rng::Seed;

/// Trials that the kernel is fitted to, at most: the best and the newest.
const FITTED: usize = 100;
/// Steps of a fit.
const FIT_STEPS: usize = 30;
/// Trials up to which the kernel is fitted anew after each; beyond, after every so many parts of them.
const OFTEN: u32 = 30;
const PARTS: u32 = 15;
/// Pending points that are taken into account: the newest.
const PENDING: usize = 64;
/// Good points around which the acquisition is searched.
const NEAR: usize = 8;

/// The kernel's parameters as they were fitted last.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    theta: Theta,
    /// Trials told so far, and when it was fitted.
    told: u32,
    fitted: u32,
}

impl State {
    /// A trial has ended: fits the kernel when that is due.
    pub fn ended(&mut self, axes: &[Axis], history: &History, startup_trials: u32) {
        self.told += 1;
        let due = self.told <= OFTEN || self.told >= self.fitted + (self.told / PARTS).min(64);
        if self.told < startup_trials.max(2) || !due {
            return;
        }
        let known = known(history);
        if known.len() < 2 {
            return;
        }
        let values = warp::warp(&known.iter().map(|(_, loss)| *loss).collect::<Vec<f64>>());
        let chosen = subset(&values);
        let points: Vec<&Point> = chosen.iter().map(|index| known[*index].0).collect();
        let values: Vec<f64> = chosen.iter().map(|index| values[*index]).collect();
        let first = regression::first(axes);
        let (mut theta, mut loss) = regression::fit(axes, &points, &values, first.clone(), FIT_STEPS);
        if self.theta.len() == first.len() {
            let (other, less) = regression::fit(axes, &points, &values, self.theta.clone(), FIT_STEPS);
            if less < loss {
                (theta, loss) = (other, less);
            }
        }
        if loss < f64::MAX {
            (self.theta, self.fitted) = (theta, self.told);
        }
    }
}

/// The best half and the newest half of what may be fitted, in order.
fn subset(values: &[f64]) -> Vec<usize> {
    if values.len() <= FITTED {
        return (0..values.len()).collect();
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|left, right| values[*left].total_cmp(&values[*right]).then(left.cmp(right)));
    let mut chosen: Vec<usize> = order[..FITTED / 2].to_vec();
    let newest: Vec<usize> = (0..values.len()).rev().filter(|index| !chosen.contains(index)).take(FITTED - FITTED / 2).collect();
    chosen.extend(newest);
    chosen.sort();
    chosen
}

/// What ended with something to learn from, and its loss: a failure counts as the worst, and what was stopped early as no better than
/// the middle.
fn known(history: &History) -> Vec<(&Point, f64)> {
    let mut completed: Vec<f64> = history.ended.iter().filter_map(Ended::loss).collect();
    completed.sort_by(f64::total_cmp);
    let (Some(worst), Some(middle)) = (completed.last().copied(), completed.get(completed.len() / 2).copied()) else { return Vec::new() };
    let loss = |ended: &Ended| match ended.how {
        How::Completed => ended.told.losses.first().copied().unwrap_or(worst),
        How::Pruned => ended.told.losses.first().copied().unwrap_or(worst).clamp(middle, worst),
        How::Broken | How::Silent => worst,
    };
    history.ended.iter().filter(|ended| ended.counts()).map(|ended| (&ended.told.point, loss(ended))).collect()
}

/// The parameters of the trial whose stream is `seed`. `ahead`: points proposed in this batch. None: too little is known.
pub fn suggest(space: &Space, axes: &[Axis], history: &History, state: &State, ahead: &[(u32, Point)], seed: Seed) -> Option<Params> {
    if state.theta.len() != axes.len() + 2 {
        return None;
    }
    let known = known(history);
    if known.len() < 2 {
        return None;
    }
    let mut values = warp::warp(&known.iter().map(|(_, loss)| *loss).collect::<Vec<f64>>());
    let mut points: Vec<&Point> = known.iter().map(|(point, _)| *point).collect();
    let mut near: Vec<&Ended> = history.ended.iter().filter(|ended| ended.counts()).collect();
    near.sort_by(|left, right| by_key(left.key(), right.key()).then(left.told.number.cmp(&right.told.number)));
    let near: Vec<&Point> = near.into_iter().take(NEAR).map(|ended| &ended.told.point).collect();

    // What runs still is believed to give what the process expects, so that parallel trials keep apart.
    let mut pending: Vec<(u32, &Point)> = history.live.values().map(|told| (told.number, &told.point)).collect();
    pending.extend(ahead.iter().map(|(number, point)| (*number, point)));
    pending.sort_by_key(|(number, _)| *number);
    let pending: Vec<&Point> = pending.iter().rev().take(PENDING).map(|(_, point)| *point).collect();
    let mut posterior = Posterior::new(axes, points.clone(), &values, &state.theta)?;
    let exact = |point: &Point| -> Vec<Option<f64>> { point.iter().map(|x| x.map(f64::from)).collect() };
    let best = points.iter().map(|point| posterior.mean(&exact(point))).fold(f64::INFINITY, f64::min);
    if !pending.is_empty() {
        values.extend(pending.iter().map(|point| posterior.mean(&exact(point))));
        points.extend(pending);
        posterior = Posterior::new(axes, points.clone(), &values, &state.theta)?;
    }
    let acquisition = Acquisition { posterior: &posterior, best, space, axes };
    acquisition.maximize(&near, points.len(), &mut seed.child("gp", 0).rng())
}
