//! Losses made fit for a Gaussian process: bent until they look normal (Yeo & Johnson, Biometrika 2000), then centred and scaled.
//! Called by `gp`.

/// Powers among which the likeliest is taken; one bends nothing.
const POWERS: [f64; 9] = [-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 0.75, 1.0];

/// The values with mean zero and deviation one, in the same order. Larger losses than a deviation of ten from the median count as
/// that, so that one absurd value doesn't flatten the rest.
pub fn warp(losses: &[f64]) -> Vec<f64> {
    let mut sorted = losses.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize];
    let (median, low) = (at(0.5), at(0.0));
    // Halves, since a difference may overflow.
    let half = (median / 2.0 - low / 2.0).max((at(0.9) / 2.0 - median / 2.0).min(f64::MAX / 1e3));
    if half <= 0.0 || !half.is_finite() {
        return scaled(losses.iter().map(|loss| f64::from(u8::from(*loss > median))).collect());
    }
    let raw: Vec<f64> = losses.iter().map(|loss| ((loss / 2.0 - median / 2.0) / half).min(10.0)).collect();
    let raw = scaled(raw);
    let bent = POWERS.iter().map(|power| {
        let bent: Vec<f64> = raw.iter().map(|value| bend(*value, *power)).collect();
        let jacobian: f64 = raw.iter().map(|value| value.signum() * value.abs().ln_1p()).sum::<f64>() * (power - 1.0);
        (jacobian - 0.5 * raw.len() as f64 * variance(&bent).max(1e-300).ln(), bent)
    });
    let best = bent.reduce(|best, other| if other.0 > best.0 { other } else { best });
    scaled(best.map_or(raw.clone(), |(_, bent)| bent))
}

fn bend(value: f64, power: f64) -> f64 {
    match (value >= 0.0, power) {
        (true, 0.0) => value.ln_1p(),
        (true, power) => ((1.0 + value).powf(power) - 1.0) / power,
        (false, 2.0) => -(-value).ln_1p(),
        (false, power) => -((1.0 - value).powf(2.0 - power) - 1.0) / (2.0 - power),
    }
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

fn scaled(values: Vec<f64>) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let deviation = variance(&values).sqrt();
    values.into_iter().map(|value| if deviation > 1e-12 { (value - mean) / deviation } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_nothing_absurd_comes_out() {
        let cases: [&[f64]; 6] = [
            &[1.0],
            &[2.0, 2.0, 2.0],
            &[0.0, 1.0, 1e6, 3.0, 2.5],
            &[-f64::MAX, 0.0, f64::MAX],
            &[1e-300, 2e-300, 3e-300],
            &[5.0, 5.0, 4.0],
        ];
        for losses in cases {
            let warped = warp(losses);
            assert!(warped.iter().all(|value| value.is_finite() && value.abs() < 20.0), "{losses:?}: {warped:?}");
            for (i, left) in losses.iter().enumerate() {
                for (j, right) in losses.iter().enumerate() {
                    assert!(left >= right || warped[i] <= warped[j], "{losses:?}: {warped:?}");
                }
            }
        }
    }
}
