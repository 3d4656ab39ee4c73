//! A small quasi-Newton descent (BFGS: Nocedal and Wright, Numerical Optimization, algorithm 6.1) for the seven parameters of a
//! step: six positive times, searched in their logarithms, and gamma within its bounds.

const MOST_STEPS: usize = 60;
const HALVINGS: usize = 20;
/// A step that gains less than this is the last one.
const ENOUGH: f64 = 1e-7;
const LOWER: [f64; 7] = [-18.4, -18.4, -18.4, -18.4, -18.4, -18.4, 1.0];
const UPPER: [f64; 7] = [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 10.0];

type Point = [f64; 7];

fn value(z: &Point) -> Point {
    std::array::from_fn(|i| if i < 6 { z[i].exp() } else { z[i] })
}

/// From `start`, with the `fixed` ones left alone; `error` gives a value and its gradient.
pub(super) fn minimise(start: Point, fixed: [bool; 7], error: impl Fn(&Point) -> (f64, Point)) -> Point {
    let mut z: Point = std::array::from_fn(|i| if i < 6 { start[i].ln() } else { start[i] });
    let evaluate = |z: &Point| {
        let at = value(z);
        let (value, slope) = error(&at);
        let slope: Point = std::array::from_fn(|i| match (fixed[i], i < 6) {
            (true, _) => 0.0,
            (false, true) => slope[i] * at[i],
            (false, false) => slope[i],
        });
        (value, slope)
    };
    let identity = || -> [Point; 7] { std::array::from_fn(|i| std::array::from_fn(|j| f64::from(i == j))) };
    let mut inverse = identity();
    let (mut best, mut slope) = evaluate(&z);
    for _ in 0..MOST_STEPS {
        // At a bound that the descent would cross, the parameter stays.
        let stuck = |i: usize| (z[i] <= LOWER[i] && slope[i] > 0.0) || (z[i] >= UPPER[i] && slope[i] < 0.0);
        let free: Point = std::array::from_fn(|i| if stuck(i) { 0.0 } else { slope[i] });
        let mut direction: Point = std::array::from_fn(|i| if stuck(i) { 0.0 } else { -dot(&inverse[i], &free) });
        if dot(&direction, &free) >= 0.0 {
            inverse = identity();
            direction = free.map(|slope| -slope);
        }
        let descent = dot(&direction, &free);
        if descent > -1e-14 {
            break;
        }
        let mut length = 1.0f64.min(2.0 / dot(&direction, &direction).sqrt());
        let mut found = None;
        for _ in 0..HALVINGS {
            let next: Point =
                std::array::from_fn(|i| if fixed[i] { z[i] } else { (z[i] + length * direction[i]).clamp(LOWER[i], UPPER[i]) });
            let (value, next_slope) = evaluate(&next);
            if value < best + 1e-4 * length * descent {
                found = Some((next, value, next_slope));
                break;
            }
            length /= 2.0;
        }
        let Some((next, value, next_slope)) = found else { break };
        let step: Point = std::array::from_fn(|i| next[i] - z[i]);
        let turn: Point = std::array::from_fn(|i| next_slope[i] - slope[i]);
        update(&mut inverse, &step, &turn);
        let gained = best - value;
        (z, best, slope) = (next, value, next_slope);
        if gained < ENOUGH {
            break;
        }
    }
    let mut found = value(&z);
    for i in 0..7 {
        if fixed[i] {
            found[i] = start[i];
        }
    }
    found
}

fn dot(a: &Point, b: &Point) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// BFGS's update of the inverse Hessian, where the curvature allows one.
fn update(inverse: &mut [Point; 7], step: &Point, turn: &Point) {
    let curvature = dot(step, turn);
    if curvature <= 1e-12 {
        return;
    }
    let turned: Point = std::array::from_fn(|i| dot(&inverse[i], turn));
    let scale = (1.0 + dot(turn, &turned) / curvature) / curvature;
    for i in 0..7 {
        for j in 0..7 {
            inverse[i][j] += scale * step[i] * step[j] - (turned[i] * step[j] + step[i] * turned[j]) / curvature;
        }
    }
}
