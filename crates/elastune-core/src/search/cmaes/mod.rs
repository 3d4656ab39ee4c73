//! CMA-ES: a normal distribution that moves and bends towards what is good (Hansen, arXiv:1604.00772, with negative weights), with
//! a margin that keeps integers from freezing (Hamano et al., GECCO 2022). Called by `Searcher` (draws) and `Learner` (the fold).
//!
//! A generation is full once so many trials have ended since the last, whichever distribution they came from: workers never
//! wait, and a straggler counts as far as a point so far off may (Hansen, arXiv:1110.4181). Unordered parameters are drawn
//! from probabilities that move along (Hamano et al., CatCMA, GECCO 2024, its simplest form).

mod update;

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::encode::Axis;
use super::history::{Ended, Point};
use super::normal;
use super::space::Space;
use crate::model::ids::TrialId;
use crate::model::space::Params;
use crate::rng::Seed;

/// The first step size, as a part of the range.
const FIRST_STEP: f64 = 1.0 / 6.0;
/// Draws before a point outside of the cube, or one that breaks a constraint, is taken for lack of a better.
const TRIES: u64 = 100;

/// The distribution, and what has come since it last moved. The coordinates are those dimensions that have an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub generation: u32,
    /// In the unit cube.
    mean: Vec<f64>,
    step: f64,
    /// Its lower triangle, row by row.
    covariance: Vec<f64>,
    path_step: Vec<f64>,
    path_covariance: Vec<f64>,
    /// For each unordered dimension, its values' probabilities.
    choices: Vec<Vec<f64>>,
    /// The exact points of live trials that were drawn here.
    drawn: BTreeMap<TrialId, Vec<f64>>,
    /// What ended since, and the exact point where there is one.
    ended: Vec<(Ended, Option<Vec<f64>>)>,
}

/// A point that was drawn.
struct Drawn {
    /// Moved into the cube.
    unit: Vec<f64>,
    /// Its ordered coordinates without the margin, from which the distribution learns.
    exact: Vec<f64>,
    /// It lay in the cube.
    inside: bool,
}

impl State {
    pub fn new(axes: &[Axis]) -> State {
        let dimensions = ordered(axes).count();
        State {
            generation: 0,
            mean: vec![0.5; dimensions],
            step: FIRST_STEP,
            covariance: (0..dimensions).flat_map(|row| (0..=row).map(move |column| f64::from(u8::from(row == column)))).collect(),
            path_step: vec![0.0; dimensions],
            path_covariance: vec![0.0; dimensions],
            choices: unordered(axes).map(|(_, count)| vec![1.0 / f64::from(count); count as usize]).collect(),
            drawn: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Remembers the exact point of a trial that has these parameters, if it was drawn here.
    pub fn proposed(&mut self, space: &Space, axes: &[Axis], seed: Seed, trial: TrialId, point: &Point) {
        let drawn = self.draw(space, axes, seed);
        if space.encode(&space.decode(&drawn.unit)) == *point {
            self.drawn.insert(trial, drawn.exact);
        }
    }

    pub fn unproposed(&mut self, trial: TrialId) {
        self.drawn.remove(&trial);
    }

    /// Takes a trial that has ended, and moves once a generation is full.
    pub fn ended(&mut self, axes: &[Axis], ended: Ended) {
        let exact = self.drawn.remove(&ended.trial);
        if !ended.counts() {
            return;
        }
        self.ended.push((ended, exact));
        let dimensions = self.mean.len() + self.choices.len();
        if self.ended.len() >= update::population(dimensions) {
            self.update(axes);
        }
    }

    /// A trial's point in the unit cube: a function of the distribution and the trial's stream.
    fn draw(&self, space: &Space, axes: &[Axis], seed: Seed) -> Drawn {
        let factor = self.factor();
        let spread = self.margins(axes);
        let mut number = 0;
        loop {
            let drawn = self.once(axes, &factor, &spread, &mut seed.child("cmaes", number).rng());
            number += 1;
            if number == TRIES || drawn.inside && space.allows(&space.decode(&drawn.unit)) {
                return drawn;
            }
        }
    }

    fn once(&self, axes: &[Axis], factor: &DMatrix<f64>, spread: &[f64], rng: &mut ChaCha8Rng) -> Drawn {
        let normals = DVector::from_fn(self.mean.len(), |_, _| normal::gauss(rng));
        let steps = factor * normals;
        let mut unit = vec![0.5; axes.len()];
        let mut exact = Vec::with_capacity(self.mean.len());
        let mut inside = true;
        for (index, dimension) in ordered(axes).enumerate() {
            let x = self.mean[index] + self.step * spread[index] * steps[index];
            inside &= (0.0..1.0).contains(&x);
            unit[dimension] = x.clamp(0.0, 1.0 - f64::EPSILON);
            exact.push(self.mean[index] + (unit[dimension] - self.mean[index]) / spread[index]);
        }
        for ((dimension, count), chances) in unordered(axes).zip(&self.choices) {
            let mut left = normal::uniform(rng);
            let picked = chances.iter().position(|chance| {
                left -= chance;
                left < 0.0
            });
            unit[dimension] = (picked.unwrap_or(count as usize - 1) as f64 + 0.5) / f64::from(count);
        }
        Drawn { unit, exact, inside }
    }

    fn matrix(&self) -> DMatrix<f64> {
        DMatrix::from_fn(self.mean.len(), self.mean.len(), |row, column| {
            let (row, column) = (row.max(column), row.min(column));
            self.covariance[row * (row + 1) / 2 + column]
        })
    }

    /// The covariance's lower Cholesky factor; of one that rounding has spoilt, its diagonal's.
    fn factor(&self) -> DMatrix<f64> {
        let matrix = self.matrix();
        match matrix.clone().cholesky() {
            Some(cholesky) => cholesky.l(),
            None => DMatrix::from_diagonal(&matrix.diagonal().map(|variance| variance.max(1e-20).sqrt())),
        }
    }

    /// What each coordinate's deviation is multiplied with, so that a lattice's value is left with the margin's probability.
    fn margins(&self, axes: &[Axis]) -> Vec<f64> {
        let dimensions = self.mean.len();
        let margin = 1.0 / (dimensions.max(1) * update::population(dimensions + self.choices.len())) as f64;
        let spread = |(index, dimension): (usize, usize)| {
            let mean = self.mean[index].clamp(0.0, 1.0 - f64::EPSILON);
            let Some((low, high)) = axes[dimension].cell(mean) else { return 1.0 };
            let deviation = self.step * self.covariance[index * (index + 3) / 2].max(1e-20).sqrt();
            // Beyond the cube there is nothing to go to.
            let (low, high) =
                (if low <= 1e-12 { f64::NEG_INFINITY } else { low - mean }, if high >= 1.0 - 1e-12 { f64::INFINITY } else { high - mean });
            let leaves = |factor: f64| 1.0 - normal::mass(low / (factor * deviation), high / (factor * deviation));
            let mut factor = 1.0;
            while leaves(factor) < margin && factor < 1e12 {
                factor *= 1.25;
            }
            factor
        };
        ordered(axes).enumerate().map(spread).collect()
    }
}

/// The parameters of the trial whose stream is `seed`; None: none keeps the constraints, draw at random.
pub fn suggest(space: &Space, axes: &[Axis], state: &State, seed: Seed) -> Option<Params> {
    let params = space.decode(&state.draw(space, axes, seed).unit);
    space.allows(&params).then_some(params)
}

/// The dimensions that have an order.
fn ordered(axes: &[Axis]) -> impl Iterator<Item = usize> {
    axes.iter().enumerate().filter(|(_, axis)| !matches!(axis, Axis::Choice { .. } | Axis::Fixed)).map(|(dimension, _)| dimension)
}

/// The others, with their numbers of values.
fn unordered(axes: &[Axis]) -> impl Iterator<Item = (usize, u32)> {
    axes.iter().enumerate().filter_map(|(dimension, axis)| match axis {
        Axis::Choice { count } => Some((dimension, *count)),
        _ => None,
    })
}
