//! The normal distribution: its integral, its quantiles, and what lies between two bounds. Used by the searchers that learn.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

/// Smallest probability that is told apart from zero.
const TINY: f64 = 1e-300;

/// A number in [0, 1) from 53 random bits, ours and not those of a library's version.
pub fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * 2f64.powi(-53)
}

/// A standard normal draw.
pub fn gauss(rng: &mut ChaCha8Rng) -> f64 {
    quantile((uniform(rng) + 2f64.powi(-54)).min(1.0 - 2f64.powi(-53)))
}

pub fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// The probability of less than `x`.
pub fn cumulative(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// The probability of what lies between `low` and `high`; above zero, and exact in both tails.
pub fn mass(low: f64, high: f64) -> f64 {
    let mass = if low > 0.0 { cumulative(-low) - cumulative(-high) } else { cumulative(high) - cumulative(low) };
    mass.max(TINY)
}

/// The draw at `uniform` of a normal with this mean and deviation, between `low` and `high`.
pub fn truncated(mean: f64, deviation: f64, low: f64, high: f64, uniform: f64) -> f64 {
    let (a, b) = ((low - mean) / deviation, (high - mean) / deviation);
    // In the upper tail by the mirror image, which keeps its digits.
    let drawn = if a > 0.0 {
        let (from, to) = (cumulative(-b), cumulative(-a));
        -quantile((to + (from - to) * uniform).clamp(TINY, 1.0 - 1e-16))
    } else {
        let (from, to) = (cumulative(a), cumulative(b));
        quantile((from + (to - from) * uniform).clamp(TINY, 1.0 - 1e-16))
    };
    (mean + deviation * drawn).clamp(low, high)
}

/// The inverse of `cumulative` for `p` in (0, 1), to about 1e-15 (Wichura, AS 241, Applied Statistics 37 (1988), PPND16).
pub fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * poly(r, &CENTRE_OVER) / poly(r, &CENTRE_UNDER);
    }
    let tail = (-(if q < 0.0 { p } else { 1.0 - p }).ln()).sqrt();
    let value = if tail <= 5.0 {
        poly(tail - 1.6, &NEAR_OVER) / poly(tail - 1.6, &NEAR_UNDER)
    } else {
        poly(tail - 5.0, &FAR_OVER) / poly(tail - 5.0, &FAR_UNDER)
    };
    if q < 0.0 { -value } else { value }
}

fn poly(x: f64, coefficients: &[f64; 8]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

const CENTRE_OVER: [f64; 8] = [
    3.387_132_872_796_366_5,
    133.141_667_891_784_38,
    1_971.590_950_306_551_3,
    13_731.693_765_509_46,
    45_921.953_931_549_87,
    67_265.770_927_008_7,
    33_430.575_583_588_13,
    2_509.080_928_730_122_7,
];
const CENTRE_UNDER: [f64; 8] = [
    1.0,
    42.313_330_701_600_91,
    687.187_007_492_057_9,
    5_394.196_021_424_751,
    21_213.794_301_586_597,
    39_307.895_800_092_71,
    28_729.085_735_721_943,
    5_226.495_278_852_545,
];
const NEAR_OVER: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    0.241_780_725_177_450_6,
    0.022_723_844_989_269_184,
    7.745_450_142_783_414e-4,
];
const NEAR_UNDER: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    0.689_767_334_985_1,
    0.148_103_976_427_480_08,
    0.015_198_666_563_616_457,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_OVER: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    0.296_560_571_828_504_87,
    0.026_532_189_526_576_124,
    0.001_242_660_947_388_078_4,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_UNDER: [f64; 8] = [
    1.0,
    0.599_832_206_555_888,
    0.136_929_880_922_735_8,
    0.014_875_361_290_850_615,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_7e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_invert_the_integral() {
        for step in 1..2000 {
            let p = f64::from(step) / 2000.0;
            assert!((cumulative(quantile(p)) - p).abs() < 1e-13, "{p}");
        }
        for exponent in 1..300 {
            let p = 10f64.powi(-exponent);
            assert!((cumulative(quantile(p)) / p - 1.0).abs() < 1e-8, "1e-{exponent}");
        }
    }

    #[test]
    fn a_truncated_draw_stays_within_and_runs_through_the_whole() {
        for (mean, deviation) in [(0.5, 0.1), (0.0, 1e-3), (1.0, 5.0), (30.0, 1.0), (-30.0, 1.0)] {
            let draws: Vec<f64> = (0..=100).map(|step| truncated(mean, deviation, 0.0, 1.0, f64::from(step) / 100.0)).collect();
            assert!(draws.iter().all(|x| (0.0..=1.0).contains(x)), "{mean} {deviation}: {draws:?}");
            assert!(draws.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{mean} {deviation}: {draws:?}");
        }
    }
}
