//! A mixture of product kernels over the unit cube, one kernel a trial and one for the prior. Used by `tpe` and `bohb`.
//!
//! Bandwidths are those of Optuna's multivariate estimator (Watanabe, arXiv:2304.11127, section 3): in each dimension the distance
//! to the farther neighbour. A trial without a dimension is uniform in it, so that points of different branches of a conditional
//! space compare.

use rand_chacha::ChaCha8Rng;

use crate::search::encode::Axis;
use crate::search::history::Point;
use crate::search::normal;

/// Bandwidths are never less than one part in so many of the range.
const RESOLUTION: f64 = 100.0;

/// The least bandwidth for so many points: `part` of what leaves no gap between as many evenly spread kernels.
pub fn least(points: usize, part: f64) -> f64 {
    (part / (points as f64 + 2.0)).max(1.0 / RESOLUTION)
}

/// One dimension's kernels, each array by kernel.
#[derive(Debug, Clone)]
struct Dimension {
    axis: Axis,
    /// NaN: uniform.
    means: Vec<f64>,
    deviations: Vec<f64>,
    /// Logarithm of what a normal density is multiplied with, so that it has mass one within [0, 1].
    norms: Vec<f64>,
    /// Of an unordered dimension: the logarithms of the probability of the kernel's own value and of each other one.
    own: f64,
    other: f64,
}

/// The estimator.
#[derive(Debug, Clone)]
pub struct Parzen {
    /// By kernel; they sum to one. The prior is the last.
    weights: Vec<f64>,
    dimensions: Vec<Dimension>,
}

impl Parzen {
    /// `points` with their weights; the prior weighs one. Deviations are at least `least`.
    pub fn new(axes: &[Axis], points: &[&Point], weights: &[f64], least: f64) -> Parzen {
        let sum = weights.iter().sum::<f64>() + 1.0;
        let weights = weights.iter().chain([&1.0]).map(|weight| weight / sum).collect();
        let dimension = |(dimension, axis): (usize, &Axis)| {
            let coordinates: Vec<Option<f64>> = points.iter().map(|point| point[dimension].map(f64::from)).collect();
            Dimension::new(*axis, &coordinates, least)
        };
        Parzen { weights, dimensions: axes.iter().enumerate().map(dimension).collect() }
    }

    /// A coordinate for each dimension, from one kernel; where it has none, from another that has.
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let kernel = self.pick(rng);
        let prior = self.weights.len() - 1;
        let coordinate = |dimension: &Dimension| {
            let mut kernel = kernel;
            for _ in 0..8 {
                if kernel == prior || !dimension.means[kernel].is_nan() {
                    break;
                }
                kernel = self.pick(rng);
            }
            dimension.draw(kernel, rng)
        };
        self.dimensions.iter().map(coordinate).collect()
    }

    fn pick(&self, rng: &mut ChaCha8Rng) -> usize {
        let mut left = normal::uniform(rng);
        for (kernel, weight) in self.weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return kernel;
            }
        }
        self.weights.len() - 1
    }

    /// The logarithm of the density at the point, over the dimensions that it has.
    pub fn log_density(&self, point: &Point) -> f64 {
        let mut logs: Vec<f64> = self.weights.iter().map(|weight| weight.max(f64::MIN_POSITIVE).ln()).collect();
        for (dimension, coordinate) in self.dimensions.iter().zip(point) {
            if let Some(coordinate) = coordinate {
                dimension.add(f64::from(*coordinate), &mut logs);
            }
        }
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
    }
}

impl Dimension {
    fn new(axis: Axis, coordinates: &[Option<f64>], least: f64) -> Dimension {
        let kernels = coordinates.len() + 1;
        let mut means: Vec<f64> = coordinates.iter().map(|coordinate| coordinate.unwrap_or(f64::NAN)).collect();
        let mut deviations = neighbours(&means, least);
        // The prior: the whole range, a little more of its middle.
        means.push(0.5);
        deviations.push(1.0);
        let (mut own, mut other) = (0.0, 0.0);
        if let Axis::Choice { count } = axis {
            let spread = if kernels == 1 { 1.0 } else { 1.0 / kernels as f64 };
            let sum = 1.0 + f64::from(count) * spread;
            (own, other) = (((1.0 + spread) / sum).ln(), (spread / sum).ln());
            // The prior takes all values alike.
            means[kernels - 1] = f64::NAN;
        }
        let norm = |(mean, deviation): (&f64, &f64)| {
            if mean.is_nan() || matches!(axis, Axis::Choice { .. } | Axis::Fixed) {
                return 0.0;
            }
            let mass = normal::mass(-mean / deviation, (1.0 - mean) / deviation);
            -(mass * deviation * (2.0 * std::f64::consts::PI).sqrt()).ln()
        };
        let norms = means.iter().zip(&deviations).map(norm).collect();
        Dimension { axis, means, deviations, norms, own, other }
    }

    fn draw(&self, kernel: usize, rng: &mut ChaCha8Rng) -> f64 {
        let (mean, uniform) = (self.means[kernel], normal::uniform(rng));
        match self.axis {
            _ if mean.is_nan() => uniform,
            Axis::Choice { count } => {
                let (own, other) = (self.own.exp(), self.other.exp());
                // The kernel's own value first, then the others in order.
                let index = (mean * f64::from(count)).floor();
                let left = uniform - (own - other);
                let drawn = if left < 0.0 { index } else { (left / other).floor().min(f64::from(count) - 1.0) };
                (drawn + 0.5) / f64::from(count)
            }
            _ => normal::truncated(mean, self.deviations[kernel], 0.0, 1.0, uniform).min(1.0 - f64::EPSILON),
        }
    }

    /// Adds each kernel's logarithm of the density at `x` to `logs`.
    fn add(&self, x: f64, logs: &mut [f64]) {
        match self.axis {
            Axis::Fixed => {}
            Axis::Choice { count } => {
                let (count, uniform) = (f64::from(count), -f64::from(count).ln());
                let index = (x * count).floor();
                for (log, mean) in logs.iter_mut().zip(&self.means) {
                    *log += match (mean * count).floor() {
                        other if other.is_nan() => uniform,
                        other if other == index => self.own,
                        _ => self.other,
                    };
                }
            }
            Axis::Real => self.add_density(x, logs),
            Axis::Lattice { .. } | Axis::LogInts { .. } => match self.axis.cell(x) {
                Some((low, high)) => self.add_mass(low, high, logs),
                None => self.add_density(x, logs),
            },
        }
    }

    fn add_density(&self, x: f64, logs: &mut [f64]) {
        for (((log, mean), deviation), norm) in logs.iter_mut().zip(&self.means).zip(&self.deviations).zip(&self.norms) {
            let z = (x - mean) / deviation;
            let squares = 0.5 * z * z;
            *log += norm - if squares.is_nan() { 0.0 } else { squares };
        }
    }

    /// What a kernel has between two bounds, over the uniform's: a density, as for a real dimension.
    fn add_mass(&self, low: f64, high: f64, logs: &mut [f64]) {
        let (middle, width) = ((low + high) / 2.0, high - low);
        for (((log, mean), deviation), norm) in logs.iter_mut().zip(&self.means).zip(&self.deviations).zip(&self.norms) {
            if mean.is_nan() {
                continue;
            }
            if width < 0.5 * deviation {
                // A cell that narrow has the density of its middle.
                let z = (middle - mean) / deviation;
                *log += norm - 0.5 * z * z;
            } else {
                let part = normal::mass((low - mean) / deviation, (high - mean) / deviation) / width;
                *log += norm + (part * deviation * (2.0 * std::f64::consts::PI).sqrt()).ln();
            }
        }
    }
}

/// The distance of each mean to its farther neighbour, at least `least` and at most one; the outermost look inwards only. NaN for
/// NaN.
fn neighbours(means: &[f64], least: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..means.len()).filter(|index| !means[*index].is_nan()).collect();
    order.sort_by(|left, right| means[*left].total_cmp(&means[*right]).then(left.cmp(right)));
    let mut deviations = vec![f64::NAN; means.len()];
    for (place, index) in order.iter().enumerate() {
        let mean = means[*index];
        let below = place.checked_sub(1).map(|place| mean - means[order[place]]);
        let above = order.get(place + 1).map(|index| means[*index] - mean);
        let wide = match (below, above) {
            (Some(below), Some(above)) => below.max(above),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => mean.max(1.0 - mean),
        };
        deviations[*index] = wide.clamp(least, 1.0);
    }
    deviations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn axes() -> [Axis; 4] {
        [Axis::Real, Axis::Lattice { count: 4 }, Axis::Choice { count: 3 }, Axis::LogInts { min: 1.0, max: 9.0 }]
    }

    fn estimator(axis: usize, points: &[Option<f32>]) -> Parzen {
        let points: Vec<Point> = points.iter().map(|coordinate| vec![*coordinate]).collect();
        let points: Vec<&Point> = points.iter().collect();
        Parzen::new(&axes()[axis..=axis], &points, &vec![1.0; points.len()], least(points.len(), 1.0))
    }

    #[test]
    fn a_density_has_mass_one_in_every_kind_of_dimension() {
        for axis in 0..4 {
            for points in [vec![], vec![Some(0.1)], vec![Some(0.5), None, Some(0.52), Some(0.9), Some(0.9)]] {
                let estimator = estimator(axis, &points);
                let cells = 20_000;
                let middle = |cell: i32| (f64::from(cell) + 0.5) / f64::from(cells);
                let mut mass = (0..cells).map(|cell| estimator.log_density(&vec![Some(middle(cell) as f32)]).exp()).sum::<f64>();
                mass /= f64::from(cells);
                if axis == 2 {
                    // An unordered one gives probabilities.
                    mass *= 3.0;
                }
                assert!((mass - 1.0).abs() < 0.02, "axis {axis}, {points:?}: {mass}");
            }
        }
    }

    #[test]
    fn draws_follow_the_density() {
        for axis in 0..4 {
            let estimator = estimator(axis, &[Some(0.9), Some(0.85), Some(0.8)]);
            let mut rng = Seed(7).rng();
            let draws: Vec<f64> = (0..4000).map(|_| estimator.draw(&mut rng)[0]).collect();
            assert!(draws.iter().all(|x| (0.0..1.0).contains(x)));
            let upper = draws.iter().filter(|x| **x > 2.0 / 3.0).count() as f64 / 4000.0;
            let grid = 3000;
            let density = |cell: i32| estimator.log_density(&vec![Some(((f64::from(cell) + 0.5) / f64::from(grid)) as f32)]).exp();
            let (mut all, mut high) = (0.0, 0.0);
            for cell in 0..grid {
                all += density(cell);
                high += if cell >= grid * 2 / 3 { density(cell) } else { 0.0 };
            }
            // A cell may straddle the bound, hence the slack.
            let slack = if axis == 1 || axis == 3 { 0.2 } else { 0.03 };
            assert!((upper - high / all).abs() < slack, "axis {axis}: {upper} against {}", high / all);
        }
    }
}
