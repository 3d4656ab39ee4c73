//! Search: what a trial tries, as a function of (study seed, trial number, what was learned). Called by `propose`, and by whoever
//! takes a document from a user (`validate`).

mod bohb;
mod cmaes;
pub mod constraint;
pub mod document;
mod encode;
mod gp;
pub mod grid;
pub mod history;
mod learned;
pub mod nearest;
mod normal;
mod nsga2;
mod random;
mod sobol;
pub mod space;
#[cfg(test)]
mod tests;
mod tpe;
pub mod validate;

pub use document::Document;
pub use learned::{Learned, Learner};
pub use validate::{FieldError, Validated, validate};

use std::borrow::Cow;

use crate::model::space::Params;
use crate::model::study::{Algorithm, StudySpec};
use crate::rng::Seed;
use encode::Axis;
use history::Point;
use learned::Model;
use space::Space;

/// A study's searcher: made once for a batch, then asked by number, in order.
#[derive(Debug, Clone)]
pub struct Searcher<'a> {
    space: Space<'a>,
    seed: Seed,
    method: Method,
    learned: Cow<'a, Learned>,
    axes: Vec<Axis>,
    /// A point that keeps all constraints.
    anchor: Option<Vec<f64>>,
    /// What this batch has proposed.
    ahead: Vec<(u32, Point)>,
}

#[derive(Debug, Clone)]
enum Method {
    Random,
    Sobol,
    Grid { cells: Vec<Params> },
    Tpe(tpe::Options),
    Cmaes,
    Gp { startup_trials: u32 },
    Bohb { random_fraction: f64 },
    Nsga2 { population: u32 },
}

impl<'a> Searcher<'a> {
    pub fn new(spec: &'a StudySpec, seed: Seed, learned: Option<&'a Learned>) -> Self {
        let space = Space::new(&spec.search_space, &spec.constraints);
        let method = match spec.algorithm {
            Algorithm::Random { .. } => Method::Random,
            Algorithm::Sobol { .. } => Method::Sobol,
            Algorithm::Grid { points, .. } => {
                let mut cells = grid::cells(&space, points).unwrap_or_default();
                grid::shuffle(&mut cells, seed);
                Method::Grid { cells }
            }
            Algorithm::Tpe { startup_trials, candidates, .. } => Method::Tpe(tpe::Options { startup_trials, candidates }),
            Algorithm::Cmaes { .. } => Method::Cmaes,
            Algorithm::Gp { startup_trials, .. } => Method::Gp { startup_trials },
            Algorithm::Bohb { random_fraction, .. } => Method::Bohb { random_fraction },
            Algorithm::Nsga2 { population, .. } => Method::Nsga2 { population },
        };
        let anchor = if let Method::Grid { .. } = method { None } else { space.anchor() };
        let axes = space.axes();
        let learned = match learned {
            Some(learned) => Cow::Borrowed(learned),
            None => Cow::Owned(Learned { model: Model::of(&spec.algorithm, &axes), ..Default::default() }),
        };
        Searcher { space, seed, method, learned, axes, anchor, ahead: Vec::new() }
    }

    /// The parameters of trial `number`; None: the space is exhausted.
    pub fn suggest(&mut self, number: u32) -> Option<Params> {
        let trial = self.seed.child("trial", u64::from(number));
        let (space, axes, Learned { history, model }) = (&self.space, &self.axes, &*self.learned);
        let chosen = match (&self.method, model) {
            (Method::Grid { cells }, _) => return cells.get(number as usize).cloned(),
            (Method::Sobol, _) => return Some(sobol::suggest(space, self.seed, number, self.anchor.as_deref())),
            (Method::Tpe(options), _) => tpe::suggest(space, axes, history, &self.ahead, *options, trial),
            (Method::Bohb { random_fraction }, _) => bohb::suggest(space, axes, history, &self.ahead, *random_fraction, trial),
            (Method::Cmaes, Model::Cmaes(state)) => cmaes::suggest(space, axes, state, trial),
            (Method::Nsga2 { population }, Model::Nsga2(state)) => nsga2::suggest(space, axes, state, *population, trial),
            (Method::Gp { .. }, Model::Gp(state)) => gp::suggest(space, axes, history, state, &self.ahead, trial),
            (Method::Random | Method::Cmaes | Method::Gp { .. } | Method::Nsga2 { .. }, _) => None,
        };
        // The first trials of a model cover the space evenly.
        let startup = match self.method {
            Method::Tpe(tpe::Options { startup_trials, .. }) | Method::Gp { startup_trials } => startup_trials,
            _ => 0,
        };
        let chosen = chosen.or_else(|| {
            let even = number < startup && space.dimensions() <= sobol::MAX_DIMENSIONS;
            even.then(|| sobol::suggest(space, self.seed, number, self.anchor.as_deref()))
        });
        let params = chosen.unwrap_or_else(|| random::suggest(space, trial, self.anchor.as_deref()));
        if let Method::Tpe(_) | Method::Gp { .. } | Method::Bohb { .. } = self.method {
            self.ahead.push((number, self.space.encode(&params)));
        }
        Some(params)
    }
}

/// Trials that the space has; None: without end.
pub fn size(spec: &StudySpec) -> Option<u32> {
    let Algorithm::Grid { points, .. } = spec.algorithm else { return None };
    let space = Space::new(&spec.search_space, &spec.constraints);
    Some(grid::cells(&space, points).unwrap_or_default().len() as u32)
}
