//! Gaussian process regression: Matern 5/2 kernel with a length scale a dimension (Rasmussen & Williams, 2006), its likelihood and
//! its posterior. Used by `gp`.

use nalgebra::{DMatrix, DVector};

use super::minimize::minimize;
use crate::search::encode::Axis;
use crate::search::history::Point;

/// The least variance of the noise.
const LEAST_NOISE: f64 = 1e-6;
/// Bounds of the logarithms: of length scales, of the signal's and of the noise's variance.
const LENGTHS: (f64, f64) = (-4.0, 6.0);
const SIGNAL: (f64, f64) = (-4.0, 4.0);
const NOISE: (f64, f64) = (-13.8, 0.0);

/// Logarithms of the kernel's parameters: a length scale for each dimension, the signal's variance, the noise's.
pub type Theta = Vec<f64>;

/// Where a fit begins: the middle of what is likely.
pub fn first(axes: &[Axis]) -> Theta {
    let mut theta = vec![prior_length(axes.len()); axes.len()];
    theta.extend([0.0, -7.0]);
    theta
}

/// Mean of the logarithm of a length scale: the more dimensions, the longer (Hvarfner et al., ICML 2024).
fn prior_length(dimensions: usize) -> f64 {
    PRIOR_LENGTH + 0.5 * (dimensions.max(1) as f64).ln()
}
const PRIOR_LENGTH: f64 = 0.0;
const PRIOR_SPREAD: f64 = 1.2;

/// Whether a dimension's values differ or not, rather than how far.
pub fn is_unordered(axis: &Axis) -> bool {
    matches!(axis, Axis::Choice { .. })
}

/// The difference that the kernel squares. A dimension that one of the two doesn't have is as far as can be.
fn difference(axis: &Axis, left: Option<f32>, right: Option<f32>) -> f64 {
    match (left, right) {
        (None, None) => 0.0,
        (Some(left), Some(right)) if is_unordered(axis) => f64::from(u8::from(left != right)),
        (Some(left), Some(right)) => f64::from(left) - f64::from(right),
        _ => 1.0,
    }
}

/// Matern 5/2 at a squared distance, and its derivative by the square.
fn matern(square: f64) -> (f64, f64) {
    let root = (5.0 * square).sqrt();
    let decay = (-root).exp();
    ((1.0 + root + 5.0 / 3.0 * square) * decay, -5.0 / 6.0 * (1.0 + root) * decay)
}

/// The most likely parameters for these points and values (mean zero, deviation one), with priors, from `start`.
pub fn fit(axes: &[Axis], points: &[&Point], values: &[f64], start: Theta, steps: usize) -> (Theta, f64) {
    let n = points.len();
    // Squared differences of all pairs, by dimension.
    let pairs: Vec<(usize, usize)> = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
    let squares: Vec<Vec<f64>> = axes
        .iter()
        .enumerate()
        .map(|(d, axis)| pairs.iter().map(|(i, j)| difference(axis, points[*i][d], points[*j][d]).powi(2)).collect())
        .collect();
    let y = DVector::from_column_slice(values);
    let dimensions = axes.len();
    let loss = |theta: &[f64]| {
        let inverse: Vec<f64> = theta[..dimensions].iter().map(|length| (-2.0 * length).exp()).collect();
        let (signal, noise) = (theta[dimensions].exp(), theta[dimensions + 1].exp() + LEAST_NOISE);
        let mut distances = vec![0.0; pairs.len()];
        for (squares, inverse) in squares.iter().zip(&inverse) {
            distances.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square * inverse);
        }
        let mut kernel = DMatrix::from_diagonal_element(n, n, signal + noise);
        let mut slopes = vec![0.0; pairs.len()];
        for (((i, j), distance), slope) in pairs.iter().zip(&distances).zip(&mut slopes) {
            let (value, derivative) = matern(*distance);
            kernel[(*i, *j)] = signal * value;
            kernel[(*j, *i)] = signal * value;
            *slope = signal * derivative;
        }
        let Some(cholesky) = kernel.clone().cholesky() else { return (f64::MAX, vec![0.0; theta.len()]) };
        let alpha = cholesky.solve(&y);
        let determinant: f64 = cholesky.l_dirty().diagonal().iter().map(|entry| entry.ln()).sum();
        let mut value = 0.5 * y.dot(&alpha) + determinant;
        let inverted = cholesky.inverse();
        // The derivative by a kernel's entry is half of (inverse - alpha alpha'); each pair stands in it twice.
        let weights: Vec<f64> = pairs.iter().map(|(i, j)| inverted[(*i, *j)] - alpha[*i] * alpha[*j]).collect();
        let mut gradient = vec![0.0; theta.len()];
        for (d, squares) in squares.iter().enumerate() {
            let by_inverse: f64 = weights.iter().zip(&slopes).zip(squares).map(|((weight, slope), square)| weight * slope * square).sum();
            gradient[d] = -2.0 * inverse[d] * by_inverse;
        }
        let diagonal: f64 = (0..n).map(|i| inverted[(i, i)] - alpha[i] * alpha[i]).sum();
        let off: f64 = weights.iter().zip(&pairs).map(|(weight, (i, j))| weight * kernel[(*i, *j)]).sum();
        gradient[dimensions] = off + 0.5 * signal * diagonal;
        gradient[dimensions + 1] = 0.5 * theta[dimensions + 1].exp() * diagonal;
        // Priors: normal for the logarithms of the lengths, gamma(2, 1) for the signal, gamma(1.1, 30) for the noise.
        for d in 0..dimensions {
            let off = (theta[d] - prior_length(dimensions)) / PRIOR_SPREAD;
            value += 0.5 * off * off;
            gradient[d] += off / PRIOR_SPREAD;
        }
        value -= theta[dimensions] - signal;
        gradient[dimensions] -= 1.0 - signal;
        let noisy = theta[dimensions + 1].exp();
        value -= 0.1 * theta[dimensions + 1] - 30.0 * noisy;
        gradient[dimensions + 1] -= 0.1 - 30.0 * noisy;
        (value, gradient)
    };
    let mut bounds = vec![LENGTHS; dimensions];
    bounds.extend([SIGNAL, NOISE]);
    minimize(loss, start, &bounds, steps, 1e-2)
}

/// The process, conditioned on points and values.
#[derive(Debug, Clone)]
pub struct Posterior<'a> {
    axes: &'a [Axis],
    points: Vec<&'a Point>,
    /// One over each squared length.
    inverse: Vec<f64>,
    signal: f64,
    /// The kernel's inverse times the values.
    alpha: DVector<f64>,
    inverted: DMatrix<f64>,
}

impl<'a> Posterior<'a> {
    /// None: the matrix is singular even with noise added.
    pub fn new(axes: &'a [Axis], points: Vec<&'a Point>, values: &[f64], theta: &Theta) -> Option<Self> {
        let inverse: Vec<f64> = theta[..axes.len()].iter().map(|length| (-2.0 * length).exp()).collect();
        let (signal, noise) = (theta[axes.len()].exp(), theta[axes.len() + 1].exp() + LEAST_NOISE);
        let n = points.len();
        let mut kernel = DMatrix::from_diagonal_element(n, n, signal + noise);
        for i in 0..n {
            for j in 0..i {
                let square: f64 = (0..axes.len()).map(|d| inverse[d] * difference(&axes[d], points[i][d], points[j][d]).powi(2)).sum();
                let value = signal * matern(square).0;
                kernel[(i, j)] = value;
                kernel[(j, i)] = value;
            }
        }
        let cholesky = kernel.clone().cholesky().or_else(|| (kernel + DMatrix::from_diagonal_element(n, n, 1e-3 * signal)).cholesky())?;
        let alpha = cholesky.solve(&DVector::from_column_slice(values));
        Some(Posterior { axes, points, inverse, signal, alpha, inverted: cholesky.inverse() })
    }

    /// Covariance with each point, and its derivative by the squared distance.
    fn covariances(&self, x: &[Option<f64>]) -> (DVector<f64>, Vec<f64>) {
        let mut slopes = Vec::with_capacity(self.points.len());
        let values = self.points.iter().map(|point| {
            let square: f64 = (0..x.len()).map(|d| self.inverse[d] * self.apart(d, x[d], point[d]).powi(2)).sum();
            let (value, slope) = matern(square);
            slopes.push(self.signal * slope);
            self.signal * value
        });
        let values = DVector::from_iterator(self.points.len(), values);
        (values, slopes)
    }

    fn apart(&self, dimension: usize, x: Option<f64>, other: Option<f32>) -> f64 {
        match (x, other) {
            (Some(x), Some(other)) if !is_unordered(&self.axes[dimension]) => x - f64::from(other),
            (x, other) => difference(&self.axes[dimension], x.map(|x| x as f32), other),
        }
    }

    pub fn mean(&self, x: &[Option<f64>]) -> f64 {
        self.covariances(x).0.dot(&self.alpha)
    }

    /// Mean and variance at `x`.
    pub fn at(&self, x: &[Option<f64>]) -> (f64, f64) {
        let (covariances, _) = self.covariances(x);
        let pulled = &self.inverted * &covariances;
        (covariances.dot(&self.alpha), (self.signal - covariances.dot(&pulled)).max(1e-12))
    }

    /// Mean and variance at `x`, and the gradient of each by the coordinates of ordered dimensions (zero in the others).
    pub fn slope(&self, x: &[Option<f64>]) -> (f64, f64, Vec<f64>, Vec<f64>) {
        let (covariances, slopes) = self.covariances(x);
        let pulled = &self.inverted * &covariances;
        let (mut by_mean, mut by_variance) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        for d in 0..x.len() {
            if x[d].is_none() || is_unordered(&self.axes[d]) {
                continue;
            }
            for (index, point) in self.points.iter().enumerate() {
                if point[d].is_some() {
                    let step = slopes[index] * 2.0 * self.inverse[d] * self.apart(d, x[d], point[d]);
                    by_mean[d] += step * self.alpha[index];
                    by_variance[d] -= 2.0 * step * pulled[index];
                }
            }
        }
        (covariances.dot(&self.alpha), (self.signal - covariances.dot(&pulled)).max(1e-12), by_mean, by_variance)
    }
}
