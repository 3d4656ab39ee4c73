//! A generation's move: mean, step size, covariance (equations of Hansen, arXiv:1604.00772). Called by `State::ended`.
//!
//! Where the tutorial whitens by the covariance's symmetric root this does by its Cholesky factor, which serves the same and costs
//! a tenth (Krause et al., NeurIPS 2016).

use nalgebra::{DMatrix, DVector};

use super::{State, ordered, unordered};
use crate::search::encode::Axis;
use crate::search::history::by_key;

/// Trials of a generation (equation 48).
pub fn population(dimensions: usize) -> usize {
    4 + (3.0 * (dimensions.max(1) as f64).ln()).floor() as usize
}

/// Learning rates and weights (equations 49 to 58).
struct Rates {
    weights: Vec<f64>,
    parents: f64,
    step: f64,
    damping: f64,
    path: f64,
    one: f64,
    many: f64,
    length: f64,
}

impl Rates {
    fn new(dimensions: usize, population: usize) -> Rates {
        let n = dimensions as f64;
        let raw: Vec<f64> = (0..population).map(|rank| ((population as f64 + 1.0) / 2.0).ln() - (rank as f64 + 1.0).ln()).collect();
        let half = population / 2;
        let effective = |weights: &[f64]| weights.iter().sum::<f64>().powi(2) / weights.iter().map(|weight| weight * weight).sum::<f64>();
        let (parents, losers) = (effective(&raw[..half]), effective(&raw[half..]));
        let one = 2.0 / ((n + 1.3).powi(2) + parents);
        let many = (2.0 * (parents - 2.0 + 1.0 / parents) / ((n + 2.0).powi(2) + parents)).min(1.0 - one - 1e-8);
        let most = (1.0 + one / many).min(1.0 + 2.0 * losers / (parents + 2.0)).min((1.0 - one - many) / (n * many));
        let (up, down) = raw.iter().fold((0.0, 0.0), |(up, down), weight| (up + weight.max(0.0), down - weight.min(0.0)));
        let weights = raw.iter().map(|weight| if *weight >= 0.0 { weight / up } else { weight * most / down }).collect();
        let step = (parents + 2.0) / (n + parents + 5.0);
        Rates {
            weights,
            parents,
            step,
            damping: 1.0 + 2.0 * (((parents - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + step,
            path: (4.0 + parents / n) / (n + 4.0 + 2.0 * parents / n),
            one,
            many,
            length: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }
}

impl State {
    /// Moves by what has ended, and begins the next generation.
    pub(super) fn update(&mut self, axes: &[Axis]) {
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by(|(left, _), (right, _)| by_key(left.key(), right.key()).then(left.told.number.cmp(&right.told.number)));
        self.generation += 1;
        self.choose(axes, &ended);
        let dimensions = self.mean.len();
        if dimensions == 0 {
            return;
        }
        let rates = Rates::new(dimensions, ended.len());
        let factor = self.factor();
        let whiten = |step: &DVector<f64>| factor.solve_lower_triangular(step).unwrap_or_else(|| step.clone());

        let mut steps: Vec<(DVector<f64>, f64)> = Vec::with_capacity(ended.len());
        for (trial, exact) in &ended {
            let coordinate = |(index, dimension): (usize, usize)| match (exact, trial.told.point[dimension]) {
                // Where its condition left it out it says nothing.
                (_, None) => 0.0,
                (Some(exact), _) => exact[index] - self.mean[index],
                (None, Some(unit)) => f64::from(unit) - self.mean[index],
            };
            let mut step = DVector::from_iterator(dimensions, ordered(axes).enumerate().map(coordinate)) / self.step;
            let mut length = whiten(&step).norm();
            // A point from elsewhere counts as the farthest likely one in its direction.
            let most = (dimensions as f64).sqrt() + 2.0 * dimensions as f64 / (dimensions as f64 + 2.0);
            if length > most {
                step *= most / length;
                length = most;
            }
            steps.push((step, length));
        }

        let weighted = |from: usize, to: usize| {
            (from..to).fold(DVector::zeros(dimensions), |sum: DVector<f64>, rank| sum + &steps[rank].0 * rates.weights[rank])
        };
        let mean_step = weighted(0, ended.len() / 2);
        for (mean, step) in self.mean.iter_mut().zip(mean_step.iter()) {
            *mean = (*mean + self.step * step).clamp(0.0, 1.0);
        }

        // Step size (equations 43 and 44).
        let mut path = DVector::from_vec(std::mem::take(&mut self.path_step));
        path = path * (1.0 - rates.step) + whiten(&mean_step) * (rates.step * (2.0 - rates.step) * rates.parents).sqrt();
        let length = path.norm();
        self.step = (self.step * ((rates.step / rates.damping) * (length / rates.length - 1.0)).min(1.0).exp()).clamp(1e-12, 1.0);
        self.path_step = path.iter().copied().collect();

        // Covariance (equations 45 to 47).
        let grown = length / (1.0 - (1.0 - rates.step).powf(2.0 * f64::from(self.generation) + 2.0)).sqrt();
        let slow = f64::from(u8::from(grown < (1.4 + 2.0 / (dimensions as f64 + 1.0)) * rates.length));
        let mut path = DVector::from_vec(std::mem::take(&mut self.path_covariance));
        path = path * (1.0 - rates.path) + &mean_step * (slow * (rates.path * (2.0 - rates.path) * rates.parents).sqrt());
        let lost = (1.0 - slow) * rates.one * rates.path * (2.0 - rates.path);
        let kept = 1.0 + lost - rates.one - rates.many * rates.weights.iter().sum::<f64>();
        let mut covariance: DMatrix<f64> = self.matrix() * kept + &path * path.transpose() * rates.one;
        for ((step, length), weight) in steps.iter().zip(&rates.weights) {
            let scale = if *weight >= 0.0 { 1.0 } else { dimensions as f64 / (length * length + 1e-8) };
            covariance += step * step.transpose() * (rates.many * weight * scale);
        }
        self.path_covariance = path.iter().copied().collect();
        let entries = (0..dimensions).flat_map(|row| (0..=row).map(move |column| (row, column)));
        self.covariance = entries.map(|(row, column)| covariance[(row, column)]).collect();
    }

    /// Moves the unordered dimensions' probabilities towards the better half's values; none falls below the margin.
    fn choose(&mut self, axes: &[Axis], ended: &[(crate::search::history::Ended, Option<Vec<f64>>)]) {
        let half = ended.len() / 2;
        let dimensions = self.mean.len() + self.choices.len();
        for ((dimension, count), chances) in unordered(axes).zip(&mut self.choices) {
            let seen: Vec<usize> = ended[..half]
                .iter()
                .filter_map(|(trial, _)| trial.told.point[dimension])
                .map(|unit| ((f64::from(unit) * f64::from(count)) as usize).min(count as usize - 1))
                .collect();
            if seen.is_empty() {
                continue;
            }
            let rate = 1.0 / (1.0 + dimensions as f64).sqrt();
            let least = 1.0 / (4.0 * dimensions as f64 * f64::from(count));
            for (value, chance) in chances.iter_mut().enumerate() {
                let part = seen.iter().filter(|other| **other == value).count() as f64 / seen.len() as f64;
                *chance = (*chance * (1.0 - rate) + part * rate).max(least);
            }
            let sum: f64 = chances.iter().sum();
            chances.iter_mut().for_each(|chance| *chance /= sum);
        }
    }
}
