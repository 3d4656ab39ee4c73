//! The fit: log T(trial, width) = h(trial) + g(width), g shrunk to an optimistic prior, Amdahl's law where nothing was measured.

use super::hull::concave;
use super::{StudyRates, WidthRate, median, summarise};
use crate::model::trial::TrialView;
use crate::model::width::Width;

/// Samples that the prior of g counts for: little, so that one measured width outweighs it.
const PRIOR_SAMPLES: f64 = 0.05;
/// Samples that the study's g counts for against a trial's own deviation.
const STUDY_SAMPLES: f64 = 2.0;
/// A shared device is taken to do 1.2 times the work of a whole one until it was measured: optimism, so that it is tried.
const SHARED_PRIOR: f64 = 1.2;
/// Sweeps of the alternating least squares; each contracts, and studies hold at most some dozens of trials.
const SWEEPS: usize = 25;

/// The speed model of one study.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedModel {
    shards: u32,
    /// Measured widths: log of T(width) / T(1).
    log_ratio: Vec<(Width, f64)>,
    /// Part of T(1) that more ranks do not speed up: Amdahl's serial part, 0..=1.
    serial: f64,
    /// Median of the trials' seconds per unit at width 1, where any was measured.
    pub median_s: Option<f64>,
}

/// One trial's model.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSpeed {
    /// At width 1.
    pub seconds_per_unit: f64,
    /// Over the widths asked for: speed relative to width 1; monotone, concave below 1 and from 1 up, never above the devices held
    /// from 1 up.
    pub speedup: Vec<(Width, f64)>,
    /// Whether this trial itself was measured.
    pub profiled: bool,
}

impl SpeedModel {
    pub fn fit(rates: &StudyRates, shards: u32) -> SpeedModel {
        let mut model = SpeedModel { shards: shards.max(1), log_ratio: Vec::new(), serial: 0.0, median_s: None };
        // Only trials measured at two widths say something about ratios.
        let telling: Vec<&[WidthRate]> = rates.0.iter().map(|trial| trial.rates.as_slice()).filter(|rates| rates.len() > 1).collect();
        let mut widths: Vec<Width> = telling.iter().flat_map(|rates| rates.iter().map(|rate| rate.width)).collect();
        widths.sort();
        widths.dedup();
        model.log_ratio = widths.iter().map(|&width| (width, model.prior(width))).collect();
        for _ in 0..SWEEPS {
            let heights: Vec<f64> = telling.iter().map(|rates| model.log_height(rates)).collect();
            for at in 0..model.log_ratio.len() {
                let width = model.log_ratio[at].0;
                if width == Width::ONE {
                    continue;
                }
                let (mut sum, mut weight) = (PRIOR_SAMPLES * model.prior(width), PRIOR_SAMPLES);
                for (rates, height) in telling.iter().zip(&heights) {
                    for rate in rates.iter().filter(|rate| rate.width == width) {
                        sum += f64::from(rate.samples) * (rate.seconds_per_unit.ln() - height);
                        weight += f64::from(rate.samples);
                    }
                }
                model.log_ratio[at].1 = sum / weight;
            }
        }
        model.serial = model.fit_serial(&telling);
        let mut heights: Vec<f64> = rates.0.iter().map(|trial| model.log_height(&trial.rates).exp()).collect();
        model.median_s = (!heights.is_empty()).then(|| median(&mut heights));
        model
    }

    /// The model of `trial` over `widths` (ascending): its own samples where it has some, the study's median otherwise.
    pub fn trial(&self, trial: Option<&TrialView>, widths: &[Width]) -> TrialSpeed {
        let rates = trial.map(|trial| summarise(&trial.rates)).unwrap_or_default();
        let height = if rates.is_empty() { self.median_s.unwrap_or(1.0).ln() } else { self.log_height(&rates) };
        let log_seconds = |width: Width| {
            let study = height + self.log_ratio(width);
            let own = rates.iter().find(|rate| rate.width == width);
            own.map_or(study, |rate| {
                let samples = f64::from(rate.samples);
                study + samples / (samples + STUDY_SAMPLES) * (rate.seconds_per_unit.ln() - study)
            })
        };
        let at_one = log_seconds(Width::ONE);
        let speed = |&width: &Width| {
            let most = if width < Width::ONE { 1.0 } else { width.devices() };
            (width, (at_one - log_seconds(width)).exp().min(most))
        };
        // Optimism about sharing and about widening together would bend the curve up at 1, where it is known to be 1.
        let points: Vec<(Width, f64)> = widths.iter().map(speed).collect();
        let (shared, whole) = points.split_at(points.partition_point(|(width, _)| *width < Width::ONE));
        let mut speedup = concave(&[shared, &[(Width::ONE, 1.0)]].concat());
        speedup.pop();
        speedup.extend(concave(whole));
        TrialSpeed { seconds_per_unit: at_one.exp(), speedup, profiled: !rates.is_empty() }
    }

    /// log of seconds per unit at width 1 that explains a trial's (non-empty) rates best.
    fn log_height(&self, rates: &[WidthRate]) -> f64 {
        let weight: f64 = rates.iter().map(|rate| f64::from(rate.samples)).sum();
        let sum: f64 = rates.iter().map(|rate| f64::from(rate.samples) * (rate.seconds_per_unit.ln() - self.log_ratio(rate.width))).sum();
        sum / weight.max(1.0)
    }

    fn log_ratio(&self, width: Width) -> f64 {
        if width == Width::ONE {
            return 0.0;
        }
        let measured = self.log_ratio.iter().find(|(at, _)| *at == width);
        measured.map_or_else(|| self.prior(width), |(_, ratio)| *ratio)
    }

    /// Amdahl's law over the rounds in which `shards` run on this many ranks; shared devices by their own prior.
    fn prior(&self, width: Width) -> f64 {
        match width {
            Width::Fraction(parts) => (f64::from(parts) / SHARED_PRIOR).max(1.0).ln(),
            Width::Devices(_) => (self.serial + (1.0 - self.serial) * self.rounds(width)).ln(),
        }
    }

    /// Part of the shards that a rank runs one after another.
    fn rounds(&self, width: Width) -> f64 {
        f64::from(self.shards.div_ceil(width.ranks().max(1))) / f64::from(self.shards)
    }

    fn fit_serial(&self, telling: &[&[WidthRate]]) -> f64 {
        let (mut sum, mut weight) = (0.0, 0.0);
        for &(width, ratio) in self.log_ratio.iter().filter(|(width, _)| *width > Width::ONE) {
            let rounds = self.rounds(width);
            let samples: u32 =
                telling.iter().flat_map(|rates| rates.iter()).filter(|rate| rate.width == width).map(|rate| rate.samples).sum();
            if rounds < 1.0 {
                sum += f64::from(samples) * ((ratio.exp() - rounds) / (1.0 - rounds)).clamp(0.0, 1.0);
                weight += f64::from(samples);
            }
        }
        if weight > 0.0 { sum / weight } else { 0.0 }
    }
}
