//! How fast trials run at which width: remembers what was measured, fits a speed model per study and per trial, and hands
//! `decide` a table over legal widths. Called by `decide` only.

mod fit;
pub mod goodput;
mod hull;
pub mod iteration;
#[cfg(test)]
mod tests;

pub use fit::{SpeedModel, TrialSpeed};
pub use hull::concave;

use serde::{Deserialize, Serialize};

use crate::model::trial::{RateSample, TrialView};
use crate::model::width::Width;

/// Samples of one width whose median counts: the newest.
const NEWEST: usize = 5;
/// Trials that a study remembers; those measured at most widths, then the latest ones.
const REMEMBERED: usize = 64;

/// What one trial took at one width.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WidthRate {
    pub width: Width,
    /// Median of the newest samples.
    pub seconds_per_unit: f64,
    /// How many samples the median is of.
    pub samples: u32,
}

/// One trial's rates, by width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRates {
    pub number: u32,
    pub rates: Vec<WidthRate>,
}

/// What a study has measured, kept in `decide`'s memory because a snapshot shows live trials only. By trial number.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StudyRates(pub Vec<TrialRates>);

impl StudyRates {
    /// Replaces what is known of the live trials; the same views again change nothing.
    pub fn learn(&mut self, trials: &[TrialView]) {
        for trial in trials {
            let rates = summarise(&trial.rates);
            if rates.is_empty() {
                continue;
            }
            let known = TrialRates { number: trial.number, rates };
            match self.0.binary_search_by_key(&trial.number, |known| known.number) {
                Ok(at) => self.0[at] = known,
                Err(at) => self.0.insert(at, known),
            }
        }
        if self.0.len() > REMEMBERED {
            self.0.sort_by_key(|trial| std::cmp::Reverse((trial.rates.len(), trial.number)));
            self.0.truncate(REMEMBERED);
            self.0.sort_by_key(|trial| trial.number);
        }
    }

    /// The largest width that was measured.
    pub fn widest(&self) -> Option<Width> {
        self.0.iter().flat_map(|trial| trial.rates.iter().map(|rate| rate.width)).max()
    }
}

/// Median of the newest usable samples of each width, by width.
pub(crate) fn summarise(samples: &[RateSample]) -> Vec<WidthRate> {
    let usable = |sample: &&RateSample| sample.seconds_per_unit.is_finite() && sample.seconds_per_unit > 0.0 && !sample.width.is_zero();
    let mut widths: Vec<Width> = samples.iter().filter(usable).map(|sample| sample.width).collect();
    widths.sort();
    widths.dedup();
    let rate = |width: Width| {
        let newest = samples.iter().rev().filter(usable).filter(|sample| sample.width == width).take(NEWEST);
        let mut seconds: Vec<f64> = newest.map(|sample| sample.seconds_per_unit).collect();
        WidthRate { width, samples: seconds.len() as u32, seconds_per_unit: median(&mut seconds) }
    };
    widths.into_iter().map(rate).collect()
}

/// Of a non-empty list; the mean of the middle two where there is no single middle.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}
