//! Search: what a trial tries, as a function of (study seed, trial number). Called by `propose`, and by whoever takes a document
//! from a user (`validate`).

pub mod constraint;
pub mod document;
pub mod grid;
pub mod nearest;
mod random;
mod sobol;
pub mod space;
#[cfg(test)]
mod tests;
pub mod validate;

pub use document::Document;
pub use validate::{FieldError, Validated, validate};

use crate::model::space::Params;
use crate::model::study::{Algorithm, StudySpec};
use crate::rng::Seed;
use space::Space;

/// A study's searcher: made once, then asked by number.
#[derive(Debug, Clone)]
pub struct Searcher<'a> {
    space: Space<'a>,
    seed: Seed,
    method: Method,
}

#[derive(Debug, Clone)]
enum Method {
    Random { anchor: Option<Vec<f64>> },
    Sobol { anchor: Option<Vec<f64>> },
    Grid { cells: Vec<Params> },
}

impl<'a> Searcher<'a> {
    pub fn new(spec: &'a StudySpec, seed: Seed) -> Self {
        let space = Space::new(&spec.search_space, &spec.constraints);
        let method = match spec.algorithm {
            Algorithm::Random { .. } => Method::Random { anchor: space.anchor() },
            Algorithm::Sobol { .. } => Method::Sobol { anchor: space.anchor() },
            Algorithm::Grid { points, .. } => {
                let mut cells = grid::cells(&space, points).unwrap_or_default();
                grid::shuffle(&mut cells, seed);
                Method::Grid { cells }
            }
        };
        Searcher { space, seed, method }
    }

    /// The parameters of trial `number`; None: the space is exhausted.
    pub fn suggest(&self, number: u32) -> Option<Params> {
        match &self.method {
            Method::Random { anchor } => Some(random::suggest(&self.space, self.seed.child("trial", u64::from(number)), anchor.as_deref())),
            Method::Sobol { anchor } => Some(sobol::suggest(&self.space, self.seed, number, anchor.as_deref())),
            Method::Grid { cells } => cells.get(number as usize).cloned(),
        }
    }
}

/// Trials that the space has; None: without end.
pub fn size(spec: &StudySpec) -> Option<u32> {
    let Algorithm::Grid { points, .. } = spec.algorithm else { return None };
    let space = Space::new(&spec.search_space, &spec.constraints);
    Some(grid::cells(&space, points).unwrap_or_default().len() as u32)
}
