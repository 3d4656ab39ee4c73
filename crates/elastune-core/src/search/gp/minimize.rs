//! Minimum of a smooth function in a box: L-BFGS (Liu & Nocedal, 1989) on the coordinates that are free, steps projected and
//! backtracked (Bertsekas, 1982). Used by the fit and by the acquisition.

/// Steps that are remembered.
const MEMORY: usize = 8;
/// Part of the promised decrease that a step must keep (Armijo).
const KEPT: f64 = 1e-4;
const HALVINGS: u32 = 20;

/// The point reached from `start` after at most `steps` steps, and its value. `f`: value and gradient.
pub fn minimize(
    f: impl Fn(&[f64]) -> (f64, Vec<f64>),
    start: Vec<f64>,
    bounds: &[(f64, f64)],
    steps: usize,
    tolerance: f64,
) -> (Vec<f64>, f64) {
    let project = |x: Vec<f64>| -> Vec<f64> { x.iter().zip(bounds).map(|(x, (low, high))| x.clamp(*low, *high)).collect() };
    let mut x = project(start);
    let (mut value, mut gradient) = f(&x);
    let mut pairs: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    for _ in 0..steps {
        // A coordinate that is pushed against its bound is held there.
        let held = |i: usize| x[i] <= bounds[i].0 && gradient[i] > 0.0 || x[i] >= bounds[i].1 && gradient[i] < 0.0;
        let free: Vec<bool> = (0..x.len()).map(|i| !held(i)).collect();
        let slope: Vec<f64> = gradient.iter().zip(&free).map(|(g, free)| if *free { *g } else { 0.0 }).collect();
        let steepest = slope.iter().fold(0.0f64, |most, g| most.max(g.abs()));
        if steepest.is_nan() || steepest < tolerance {
            break;
        }
        let mut direction = two_loops(&pairs, &slope);
        for (d, free) in direction.iter_mut().zip(&free) {
            *d = if *free { -*d } else { 0.0 };
        }
        if dot(&direction, &slope) >= 0.0 {
            pairs.clear();
            direction = slope.iter().map(|g| -g).collect();
        }
        // The first step has no curvature to go by.
        let mut length = if pairs.is_empty() { 0.1 / steepest.max(0.1) } else { 1.0 };
        let mut reached = None;
        for _ in 0..HALVINGS {
            let next = project(x.iter().zip(&direction).map(|(x, d)| x + length * d).collect());
            let moved: Vec<f64> = next.iter().zip(&x).map(|(next, x)| next - x).collect();
            let (lower, slope) = f(&next);
            if lower <= value + KEPT * dot(&moved, &gradient) {
                reached = Some((next, lower, slope, moved));
                break;
            }
            length *= 0.5;
        }
        let Some((next, lower, slope, moved)) = reached else { break };
        let turned: Vec<f64> = slope.iter().zip(&gradient).map(|(new, old)| new - old).collect();
        let done = value - lower < 1e-9 * (1.0 + value.abs());
        (x, value, gradient) = (next, lower, slope);
        if dot(&moved, &turned) > 1e-12 {
            pairs.push((moved, turned));
            if pairs.len() > MEMORY {
                pairs.remove(0);
            }
        }
        if done {
            break;
        }
    }
    (x, value)
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

/// The inverse Hessian's estimate times `gradient`.
fn two_loops(pairs: &[(Vec<f64>, Vec<f64>)], gradient: &[f64]) -> Vec<f64> {
    let mut q = gradient.to_vec();
    let mut parts = Vec::with_capacity(pairs.len());
    for (moved, turned) in pairs.iter().rev() {
        let part = dot(moved, &q) / dot(moved, turned);
        q.iter_mut().zip(turned).for_each(|(q, turned)| *q -= part * turned);
        parts.push(part);
    }
    if let Some((moved, turned)) = pairs.last() {
        let scale = dot(moved, turned) / dot(turned, turned);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((moved, turned), part) in pairs.iter().zip(parts.iter().rev()) {
        let other = dot(turned, &q) / dot(moved, turned);
        q.iter_mut().zip(moved).for_each(|(q, moved)| *q += (part - other) * moved);
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banana_is_climbed_down_within_its_box() {
        let banana = |x: &[f64]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            (a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b])
        };
        let (x, value) = minimize(banana, vec![-1.2, 1.0], &[(-2.0, 2.0), (-2.0, 2.0)], 200, 1e-9);
        assert!(value < 1e-8, "{x:?} {value}");
        let (x, _) = minimize(banana, vec![-1.2, 1.0], &[(-2.0, 0.5), (-2.0, 2.0)], 200, 1e-9);
        assert!((x[0] - 0.5).abs() < 1e-4 && (x[1] - 0.25).abs() < 1e-4, "{x:?}");
    }
}
