//! The least monotone concave function above a speed table, so that policies may compare steps and never get stuck at a dip.

use crate::model::width::Width;

/// `points` ascending by width, speeds >= 0; gives the same widths, each at the upper hull through the origin.
pub fn concave(points: &[(Width, f64)]) -> Vec<(Width, f64)> {
    let mut hull: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    let mut best = 0.0f64;
    for (width, speed) in points {
        best = best.max(*speed);
        let next = (width.devices(), best);
        while let [.., a, b] = hull.as_slice() {
            if (b.1 - a.1) * (next.0 - b.0) > (next.1 - b.1) * (b.0 - a.0) {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
    let mut segment = 0;
    let lift = |&(width, _): &(Width, f64)| {
        let at = width.devices();
        while segment + 2 < hull.len() && hull[segment + 1].0 < at {
            segment += 1;
        }
        let (a, b) = (hull[segment], hull[segment + 1]);
        (width, a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0))
    };
    points.iter().map(lift).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dip_is_bridged_and_a_concave_table_stays() {
        let dip = [(Width::Fraction(2), 0.4), (Width::ONE, 1.0), (Width::Devices(2), 0.9), (Width::Devices(4), 2.2)];
        let lifted: Vec<f64> = concave(&dip).into_iter().map(|(_, speed)| speed).collect();
        for (got, want) in lifted.iter().zip([0.5, 1.0, 1.4, 2.2]) {
            assert!((got - want).abs() < 1e-12, "{lifted:?}");
        }
        let fine = [(Width::Fraction(2), 0.65), (Width::ONE, 1.0), (Width::Devices(2), 1.7), (Width::Devices(4), 1.7)];
        for (got, want) in concave(&fine).iter().zip(&fine) {
            assert!((got.1 - want.1).abs() < 1e-12, "{got:?} {want:?}");
        }
    }
}
