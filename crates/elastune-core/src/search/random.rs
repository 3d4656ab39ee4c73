//! Independent uniform draws (Bergstra & Bengio, JMLR 2012). Called by `Searcher`; the last resort of `sobol`.

use super::space::Space;
use crate::model::space::Params;
use crate::rng::Seed;

/// Draws before a point is moved instead of drawn again.
const TRIES: u64 = 100;

/// The parameters of the trial whose stream is `seed`: its first draw that keeps all constraints, else its last draw moved
/// towards `anchor`. Without an anchor (`validate` refuses such a space) constraints may stay broken.
pub fn suggest(space: &Space, seed: Seed, anchor: Option<&[f64]>) -> Params {
    let mut point = Vec::new();
    for number in 0..TRIES {
        point = space.draw(seed.child("draw", number));
        let params = space.decode(&point);
        if space.allows(&params) {
            return params;
        }
    }
    match anchor {
        Some(anchor) => space.mend(&point, anchor),
        None => space.decode(&point),
    }
}
