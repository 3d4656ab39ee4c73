//! Owen-scrambled Sobol points (Burley, JCGT 2020): any prefix covers the cube evenly. Called by `Searcher`.

use super::random;
use super::space::Space;
use crate::model::space::Params;
use crate::rng::Seed;

/// Points of one sequence; the next ones come from another, as evenly spread, sequence.
const LENGTH: u32 = 1 << 16;
/// Most parameters of a space: the dimensions of the sequence.
pub const MAX_DIMENSIONS: usize = sobol_burley::NUM_DIMENSIONS as usize;

/// The parameters of trial `number`: the sequence's point, or, where that breaks a constraint, a random draw of the same trial.
/// (Skipping to the next point instead would make a trial depend on all before it.)
pub fn suggest(space: &Space, study: Seed, number: u32, anchor: Option<&[f64]>) -> Params {
    let scramble = study.child("sobol", u64::from(number / LENGTH)).0 as u32;
    let point = |dimension| f64::from(sobol_burley::sample(number % LENGTH, dimension as u32, scramble));
    let point: Vec<f64> = (0..space.dimensions().min(MAX_DIMENSIONS)).map(point).collect();
    let params = space.decode(&point);
    if space.allows(&params) { params } else { random::suggest(space, study.child("trial", u64::from(number)), anchor) }
}
