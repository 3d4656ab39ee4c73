//! Every cell of the grid once, in a shuffled order. Called by `Searcher`, and by `validate` to count.

use rand_chacha::rand_core::RngCore;

use super::space::{Space, applies, cardinality, nth, value};
use crate::model::space::{Domain, ParamValue, Params};
use crate::rng::Seed;

/// Most cells, the forbidden ones included.
pub const MAX_CELLS: usize = 10_000;

/// The values that a parameter takes on the grid: all it has, or `points` evenly spread on its scale, ends included. Integers
/// that round to the same value count once.
fn levels(domain: &Domain, points: u32) -> Vec<ParamValue> {
    let lattice = !matches!(domain, Domain::Int { step: None, .. });
    if let Some(count) = cardinality(domain).filter(|count| lattice || *count <= u64::from(points)) {
        return (0..count.min(MAX_CELLS as u64 + 1)).map(|index| nth(domain, index)).collect();
    }
    let mut levels: Vec<ParamValue> = Vec::new();
    for point in 0..points {
        let unit = if points == 1 { 0.5 } else { f64::from(point) / f64::from(points - 1) };
        let level = value(domain, unit);
        if levels.last() != Some(&level) {
            levels.push(level);
        }
    }
    levels
}

/// All cells that keep the constraints, in lexicographic order, parents first; a parameter that its condition leaves out
/// multiplies nothing. None: more than `MAX_CELLS`.
pub fn cells(space: &Space, points: u32) -> Option<Vec<Params>> {
    let mut cells = vec![Params::new()];
    for (name, parameter) in space.parameters() {
        let levels = levels(&parameter.domain, points);
        let mut next = Vec::with_capacity(cells.len());
        for cell in cells {
            if !applies(parameter, &cell) {
                next.push(cell);
                continue;
            }
            if next.len() + levels.len() > MAX_CELLS {
                return None;
            }
            next.extend(levels.iter().map(|level| {
                let mut cell = cell.clone();
                cell.insert(name.to_string(), level.clone());
                cell
            }));
        }
        if next.len() > MAX_CELLS {
            return None;
        }
        cells = next;
    }
    cells.retain(|cell| space.allows(cell));
    Some(cells)
}

/// Fisher and Yates, so that a study that cannot afford all cells doesn't see one corner only.
pub fn shuffle(cells: &mut [Params], study: Seed) {
    let mut rng = study.child("grid", 0).rng();
    for last in (1..cells.len()).rev() {
        let other = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
        cells.swap(last, other as usize);
    }
}
