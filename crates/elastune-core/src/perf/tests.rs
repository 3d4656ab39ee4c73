//! The fit learns what was measured, from few samples, and stays optimistic where nothing was.

use proptest::prelude::*;

use super::{SpeedModel, StudyRates, TrialRates, WidthRate};
use crate::model::width::Width;

fn rates(number: u32, measured: &[(Width, f64)]) -> TrialRates {
    TrialRates {
        number,
        rates: measured.iter().map(|&(width, seconds_per_unit)| WidthRate { width, seconds_per_unit, samples: 3 }).collect(),
    }
}

fn speed(model: &SpeedModel, width: Width) -> f64 {
    let table = model.trial(None, &[Width::Fraction(2), Width::ONE, Width::Devices(2), Width::Devices(4)]).speedup;
    table.into_iter().find(|(at, _)| *at == width).expect("it was asked for").1
}

#[test]
fn unmeasured_widths_are_taken_to_pay_in_full() {
    let model = SpeedModel::fit(&StudyRates(vec![rates(0, &[(Width::ONE, 10.0)])]), 4);
    assert_eq!(speed(&model, Width::Devices(4)), 4.0);
    assert!((speed(&model, Width::Fraction(2)) - 0.6).abs() < 1e-9, "sharing is tried");
    assert_eq!(model.median_s.map(f64::round), Some(10.0));
}

#[test]
fn two_cpu_slots_that_give_little_are_believed_after_one_trial() {
    let model = SpeedModel::fit(&StudyRates(vec![rates(0, &[(Width::ONE, 13.0), (Width::Devices(2), 10.0)])]), 4);
    assert!((speed(&model, Width::Devices(2)) - 1.3).abs() < 0.05, "{}", speed(&model, Width::Devices(2)));
    assert!(speed(&model, Width::Devices(4)) < 1.7, "what is beyond follows Amdahl: {}", speed(&model, Width::Devices(4)));
}

#[test]
fn ratios_are_learnt_across_trials_of_different_size() {
    let trials = (0..8).map(|n| {
        let height = f64::from(1 + n * n);
        let at = [(Width::Fraction(2), height / 0.7), (Width::ONE, height), (Width::Devices(2), height / 1.7)];
        rates(n, &at[(n % 2) as usize..2 + (n % 2) as usize])
    });
    let model = SpeedModel::fit(&StudyRates(trials.collect()), 4);
    assert!((speed(&model, Width::Fraction(2)) - 0.7).abs() < 0.02, "{}", speed(&model, Width::Fraction(2)));
    assert!((speed(&model, Width::Devices(2)) - 1.7).abs() < 0.02, "{}", speed(&model, Width::Devices(2)));
}

#[test]
fn sharing_that_gains_nothing_is_known_as_such() {
    let model = SpeedModel::fit(&StudyRates((0..4).map(|n| rates(n, &[(Width::Fraction(2), 21.0), (Width::ONE, 10.0)])).collect()), 4);
    assert!(2.0 * speed(&model, Width::Fraction(2)) < 1.05);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn curves_are_concave_monotone_and_never_above_the_devices(
        shards in 1u32..9,
        trials in prop::collection::vec(prop::collection::btree_map(0usize..4, 1e-3f64..1e6, 1..4), 0..12),
    ) {
        let widths = [Width::Fraction(2), Width::ONE, Width::Devices(2), Width::Devices(4)];
        let known = trials.iter().enumerate().map(|(number, at)| rates(number as u32, &at.iter().map(|(w, s)| (widths[*w], *s)).collect::<Vec<_>>()));
        let curve = SpeedModel::fit(&StudyRates(known.collect()), shards).trial(None, &widths).speedup;
        let (mut last, mut slope) = ((0.0, 0.0), f64::INFINITY);
        for (width, speed) in curve {
            let at = width.devices();
            let next = (speed - last.1) / (at - last.0);
            prop_assert!(speed.is_finite() && speed >= last.1 - 1e-9, "monotone");
            prop_assert!(next <= slope * (1.0 + 1e-9) + 1e-9, "concave");
            prop_assert!(speed <= at.max(1.0) + 1e-9);
            // Sharing and widening are two curves that meet at 1.
            (last, slope) = ((at, speed), if width == Width::ONE { f64::INFINITY } else { next });
        }
    }
}
