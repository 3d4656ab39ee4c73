//! The resources at which trials are compared: min, min * factor, min * factor^2, ..., max. Used by every rule with rungs.

use crate::model::study::EarlyStopping;

/// Most rungs of a study, the last included.
pub const MAX_RUNGS: usize = 64;

/// Multiplications before a factor counts as too small.
const MAX_STEPS: usize = 10_000;

/// Resources in units (epochs), rising; the last is where a trial is complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Rungs {
    resources: Vec<f64>,
    factor: f64,
}

impl Rungs {
    /// None: more than `MAX_RUNGS`, or bounds that `validate` refuses. Rungs lie on whole units, since workers measure there:
    /// rounded up, and merged where they meet.
    pub fn new(min: f64, max: f64, factor: f64) -> Option<Rungs> {
        // NaN fails each comparison.
        if !(min > 0.0 && min <= max && max.is_finite() && factor > 1.0) {
            return None;
        }
        let mut resources = Vec::new();
        let mut exact = min;
        let mut steps = 0;
        while exact.ceil() < max {
            steps += 1;
            if resources.len() + 1 >= MAX_RUNGS || steps > MAX_STEPS {
                return None;
            }
            if resources.last() != Some(&exact.ceil()) {
                resources.push(exact.ceil());
            }
            exact *= factor;
        }
        resources.push(max);
        Some(Rungs { resources, factor })
    }

    /// None: the study has no rungs.
    pub fn of(rule: &EarlyStopping) -> Option<Rungs> {
        match *rule {
            EarlyStopping::None => None,
            EarlyStopping::Asha { min_resource, max_resource, reduction_factor, .. }
            | EarlyStopping::SuccessiveHalving { min_resource, max_resource, reduction_factor, .. } => {
                Rungs::new(min_resource, max_resource, reduction_factor)
            }
        }
    }

    pub fn resources(&self) -> &[f64] {
        &self.resources
    }

    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Index of the rung at which a trial is complete; nothing is promoted from there.
    pub fn last(&self) -> usize {
        self.resources.len() - 1
    }

    /// How many of `results` go on: the best 1/factor, rounded down.
    pub fn go_on(&self, results: usize) -> usize {
        // A ratio such as 0.3 / 0.1 must not lose one to binary fractions.
        (results as f64 / self.factor + 1e-9).floor() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_rise_geometrically_to_the_whole_resource() {
        let rungs = |min, max, factor| Rungs::new(min, max, factor).map(|rungs| rungs.resources().to_vec());
        assert_eq!(rungs(1.0, 16.0, 4.0), Some(vec![1.0, 4.0, 16.0]));
        assert_eq!(rungs(1.0, 10.0, 4.0), Some(vec![1.0, 4.0, 10.0]));
        assert_eq!(rungs(1.0, 81.0, 3.0), Some(vec![1.0, 3.0, 9.0, 27.0, 81.0]));
        assert_eq!(rungs(1.0, 6.0, 1.5), Some(vec![1.0, 2.0, 3.0, 4.0, 6.0]));
        assert_eq!(rungs(5.0, 5.0, 4.0), Some(vec![5.0]));
        assert_eq!(rungs(1.0, 1e9, 1.01), None);
        assert_eq!(rungs(2.0, 1.0, 4.0), None);
        assert_eq!(rungs(1.0, f64::NAN, 4.0), None);
    }
}
