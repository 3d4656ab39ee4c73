//! What the simulator promises: the same seed gives the same outcome, no work is lost or made up, no decision is at fault.

use elastune_core::model::study::{EarlyStopping, PolicyName};
use elastune_core::rng::Seed;
use elastune_core::time::{Span, Time};
use elastune_sim::{Arrival, Costs, Outcome, Population, Simulation, presets};
use proptest::prelude::*;

fn run(arrivals: Vec<Arrival>, devices: u16, costs: Costs, seed: u64) -> Outcome {
    Simulation::new(presets::gpu_nodes(1, devices, 2), arrivals, costs, Seed(seed)).run()
}

fn free() -> Costs {
    Costs { resize: Span::ZERO, relabel: Span::ZERO, start: Span::ZERO, shared_speed: vec![1.0, 0.65] }
}

/// Trials of `epochs` units, no early stopping.
fn plain(policy: PolicyName, trials: u32, epochs: u32, at: Time) -> Arrival {
    let mut arrival = presets::halving_arrival(policy);
    arrival.spec.early_stopping = EarlyStopping::None;
    arrival.spec.budget.max_trials = trials;
    arrival.spec.budget.max_parallel = trials;
    arrival.spec.workload.as_mut().expect("it has one").epochs = Some(epochs);
    arrival.at = at;
    arrival
}

#[test]
fn rigid_trials_take_what_their_truth_says() {
    let population = Population { median_s: 300.0, sigma: 0.5, alpha: 0.8 };
    for seed in 0..10 {
        let outcome = run(vec![plain(PolicyName::Fifo, 5, 3, Time(0))], 8, free(), seed);
        let own = Seed(seed).child("study", 0);
        let seconds: Vec<f64> = (0..5).map(|number| 3.0 * population.draw(own, number).seconds_per_unit).collect();
        let longest = seconds.iter().copied().fold(0.0, f64::max);
        assert!((outcome.makespan_s - longest).abs() < 0.01, "{outcome:?}");
        // Each unit ends on a whole millisecond.
        assert!((outcome.busy_device_s - seconds.iter().sum::<f64>()).abs() < 0.05, "{outcome:?}");
        assert_eq!((outcome.completed, outcome.pruned, outcome.resizes), (5, 0, 0));
    }
}

#[test]
fn a_trial_alone_ends_as_fast_as_its_widest_allows() {
    let population = Population { median_s: 300.0, sigma: 0.5, alpha: 0.8 };
    let outcome = run(vec![plain(PolicyName::Fluid, 1, 40, Time(0))], 8, free(), 3);
    let unit = population.draw(Seed(3).child("study", 0), 0).seconds_per_unit;
    // One unit each to profile widths 1 and 2, the rest at 4.
    let best = unit * (1.0 + 1.0 / 2f64.powf(0.8) + 38.0 / 4f64.powf(0.8));
    assert!((outcome.makespan_s - best).abs() < 0.1 * unit, "{} against {best}", outcome.makespan_s);
    assert_eq!(outcome.resizes, 2);
}

#[test]
fn resizes_cost_and_so_there_are_few() {
    let one = |costs: Costs| run(vec![presets::halving_arrival(PolicyName::Fluid)], 8, costs, 1);
    let (cheap, dear) = (one(free()), one(Costs { resize: Span::from_secs(250), relabel: Span::from_secs(250), ..free() }));
    assert!(dear.resizes < cheap.resizes, "{} against {}", dear.resizes, cheap.resizes);
    let rigid = run(vec![presets::halving_arrival(PolicyName::Fifo)], 8, free(), 1);
    assert!(dear.makespan_s < rigid.makespan_s, "{} against {}", dear.makespan_s, rigid.makespan_s);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn studies_that_arrive_at_will_all_end(seed: u64, fluid: bool, devices in 1u16..9, gaps in prop::collection::vec(0i64..4_000_000, 1..4)) {
        let policy = if fluid { PolicyName::Fluid } else { PolicyName::Fifo };
        let mut arrivals = vec![presets::halving_arrival(policy)];
        arrivals[0].spec.budget.max_trials = 27;
        arrivals.extend(gaps.iter().map(|gap| plain(policy, 4, 6, Time(*gap))));
        let studies = gaps.len() as u32;
        let outcome = run(arrivals.clone(), devices, presets::costs(), seed);
        prop_assert_eq!(&outcome.faults, &Vec::<String>::new());
        prop_assert_eq!(outcome.completed + outcome.pruned, 27 + 4 * studies);
        prop_assert!(outcome.resizes <= 4 * (27 + 4 * studies), "{} resizes", outcome.resizes);
        prop_assert!(outcome.busy_device_s <= outcome.makespan_s * f64::from(devices) + 1e-6);
        prop_assert_eq!(run(arrivals, devices, presets::costs(), seed), outcome);
    }
}
