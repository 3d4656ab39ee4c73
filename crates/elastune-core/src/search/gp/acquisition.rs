//! Logarithm of the expected improvement (Ament et al., NeurIPS 2023), and the search for its maximum over every kind of dimension.
//! Called by `gp`.

use rand_chacha::ChaCha8Rng;

use super::minimize::minimize;
use super::regression::{Posterior, is_unordered};
use crate::model::space::Params;
use crate::search::encode::Axis;
use crate::search::history::Point;
use crate::search::normal;
use crate::search::space::Space;

/// Points that are looked at before the best ones are climbed from; fewer where a look is dear.
const LOOKS: usize = 600;
/// Work of the looks, in entries of the kernel's inverse.
const LOOK_WORK: usize = 60_000_000;
/// Points that are climbed from.
const STARTS: usize = 4;
/// Rounds of a climb: the continuous dimensions together, then each discrete one.
const ROUNDS: usize = 2;
const STEPS: usize = 25;
/// Other values that are tried of a discrete dimension.
const OTHERS: usize = 12;

/// The logarithm of the expected improvement below `best`, and its derivatives by mean and by variance.
pub fn log_improvement(best: f64, mean: f64, variance: f64) -> (f64, f64, f64) {
    let deviation = variance.sqrt();
    let z = (best - mean) / deviation;
    // log(density + z cumulative), and its derivative; far out by their series, where the two cancel.
    let (log, slope) = if z > -25.0 {
        let gain = normal::density(z) + z * normal::cumulative(z);
        (gain.ln(), normal::cumulative(z) / gain)
    } else {
        (-0.5 * z * z - 0.5 * (2.0 * std::f64::consts::PI).ln() - 2.0 * z.abs().ln(), -z - 2.0 / z)
    };
    (log + deviation.ln(), -slope / deviation, (1.0 - slope * z) / (2.0 * variance))
}

/// What is climbed: a process, the loss to improve on, the space.
pub struct Acquisition<'a> {
    pub posterior: &'a Posterior<'a>,
    pub best: f64,
    pub space: &'a Space<'a>,
    pub axes: &'a [Axis],
}

impl Acquisition<'_> {
    /// The allowed parameters with the most expected improvement that were found. `near`: good points, to look around. `points`:
    /// how many the process is conditioned on.
    pub fn maximize(&self, near: &[&Point], points: usize, rng: &mut ChaCha8Rng) -> Option<Params> {
        let looks = (LOOK_WORK / (points * points).max(1)).clamp(60, LOOKS);
        let mut seen: Vec<(f64, Vec<f64>)> = Vec::with_capacity(looks);
        for look in 0..looks {
            let unit = if look % 3 == 0 && !near.is_empty() { self.around(near[look / 3 % near.len()], rng) } else { self.anywhere(rng) };
            if let Some(score) = self.score(&unit) {
                seen.push((score, unit));
            }
        }
        seen.sort_by(|left, right| right.0.total_cmp(&left.0));
        seen.truncate(STARTS);
        let climbed = seen.into_iter().map(|(score, unit)| self.climb(score, unit, rng));
        let best = climbed.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        Some(self.space.decode(&best.1))
    }

    fn anywhere(&self, rng: &mut ChaCha8Rng) -> Vec<f64> {
        self.axes.iter().map(|_| normal::uniform(rng)).collect()
    }

    /// A good point, some of its coordinates moved a little or a lot.
    fn around(&self, point: &Point, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let width = 10f64.powf(-0.5 - 2.0 * normal::uniform(rng));
        let coordinate = |(axis, coordinate): (&Axis, &Option<f32>)| {
            let (moves, uniform, shift) = (normal::uniform(rng) < 0.6, normal::uniform(rng), normal::gauss(rng));
            match coordinate {
                None => uniform,
                Some(x) if !moves => f64::from(*x),
                Some(_) if is_unordered(axis) => uniform,
                Some(x) => (f64::from(*x) + width * shift).clamp(0.0, 1.0 - f64::EPSILON),
            }
        };
        self.axes.iter().zip(point).map(coordinate).collect()
    }

    /// The point as the model sees it: what its parameters are, not what was drawn. None: it breaks a constraint.
    fn seen(&self, unit: &[f64]) -> Option<Vec<Option<f64>>> {
        let params = self.space.decode(unit);
        if !self.space.allows(&params) {
            return None;
        }
        let point = self.space.encode(&params);
        // Real coordinates in full precision.
        Some(point.iter().zip(unit).zip(self.axes).map(|((x, unit), axis)| x.map(|_| axis.snap(*unit))).collect())
    }

    fn score(&self, unit: &[f64]) -> Option<f64> {
        let (mean, variance) = self.posterior.at(&self.seen(unit)?);
        let score = log_improvement(self.best, mean, variance).0;
        score.is_finite().then_some(score)
    }

    fn climb(&self, mut score: f64, mut unit: Vec<f64>, rng: &mut ChaCha8Rng) -> (f64, Vec<f64>) {
        for _ in 0..ROUNDS {
            let before = score;
            self.glide(&mut score, &mut unit);
            self.switch(&mut score, &mut unit, rng);
            if score - before < 1e-4 {
                break;
            }
        }
        (score, unit)
    }

    /// Along the gradient of the real dimensions.
    fn glide(&self, score: &mut f64, unit: &mut Vec<f64>) {
        let Some(seen) = self.seen(unit) else { return };
        let real: Vec<usize> = (0..unit.len()).filter(|d| self.axes[*d] == Axis::Real && seen[*d].is_some()).collect();
        if real.is_empty() {
            return;
        }
        let loss = |x: &[f64]| {
            let mut seen = seen.clone();
            for (d, x) in real.iter().zip(x) {
                seen[*d] = Some(*x);
            }
            let (mean, variance, by_mean, by_variance) = self.posterior.slope(&seen);
            let (log, mean_slope, variance_slope) = log_improvement(self.best, mean, variance);
            let slope = real.iter().map(|d| -(mean_slope * by_mean[*d] + variance_slope * by_variance[*d])).collect();
            if log.is_finite() { (-log, slope) } else { (f64::MAX, vec![0.0; real.len()]) }
        };
        let start = real.iter().map(|d| unit[*d]).collect();
        let (end, _) = minimize(loss, start, &vec![(0.0, 1.0 - f64::EPSILON); real.len()], STEPS, 1e-4);
        let mut next = unit.clone();
        for (d, x) in real.iter().zip(end) {
            next[*d] = x;
        }
        self.take(score, unit, next);
    }

    /// Each discrete dimension to the best of its other values.
    fn switch(&self, score: &mut f64, unit: &mut Vec<f64>, rng: &mut ChaCha8Rng) {
        for (d, axis) in self.axes.iter().enumerate() {
            let others: Vec<f64> = match *axis {
                Axis::Fixed | Axis::Real => continue,
                Axis::Choice { count } | Axis::Lattice { count } if count as usize <= OTHERS => {
                    (0..count).map(|value| (f64::from(value) + 0.5) / f64::from(count)).collect()
                }
                _ => {
                    let beside = axis.cell(unit[d]).map(|(low, high)| [low - 1e-9, high + 1e-9]);
                    let beside = beside.into_iter().flatten().filter(|x| (0.0..1.0).contains(x));
                    beside.chain((0..OTHERS).map(|_| normal::uniform(rng))).collect()
                }
            };
            for other in others {
                let mut next = unit.clone();
                next[d] = other;
                self.take(score, unit, next);
            }
        }
    }

    /// Goes to `next` if it is better.
    fn take(&self, score: &mut f64, unit: &mut Vec<f64>, next: Vec<f64>) {
        if let Some(better) = self.score(&next).filter(|next| *next > *score) {
            (*score, *unit) = (better, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_of_the_improvement_is_smooth_to_the_far_end() {
        for mean in [-3.0, -0.5, 0.0, 0.5, 3.0, 20.0, 24.9, 25.1, 80.0, 1e4] {
            for variance in [0.01, 1.0, 7.0] {
                let (log, by_mean, by_variance) = log_improvement(0.3, mean, variance);
                assert!(log.is_finite());
                let step = 1e-6;
                let near = |mean, variance| log_improvement(0.3, mean, variance).0;
                let slope = (near(mean + step, variance) - near(mean - step, variance)) / (2.0 * step);
                assert!((slope / by_mean - 1.0).abs() < 0.01, "{mean} {variance}: {slope} {by_mean}");
                let slope = (near(mean, variance + step * variance) - near(mean, variance - step * variance)) / (2.0 * step * variance);
                assert!((slope - by_variance).abs() < 0.01 * (1.0 + by_variance.abs()), "{mean} {variance}: {slope} {by_variance}");
            }
        }
    }
}
