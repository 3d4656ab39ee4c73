//! The searchers' suite, and what is particular to each.

mod learn;

use proptest::prelude::*;

use super::{Searcher, size, validate};
use crate::model::event::{Event, StudyEvent};
use crate::model::ids::{StudyId, TrialId};
use crate::model::space::{Domain, ParamValue, Parameter, Scale};
use crate::model::study::{Algorithm, StudySpec};
use crate::model::trial::{Reason, TrialState};
use crate::propose::{ProposeMemory, StudyContext, fold, propose, unproposed};
use crate::rng::Seed;
use crate::testing::{spaces, suite};
use crate::time::Time;

crate::search_suite!(random, |seed, _| Algorithm::Random { seed });
crate::search_suite!(sobol, |seed, _| Algorithm::Sobol { seed });
crate::search_suite!(grid, |seed, points| Algorithm::Grid { seed, points });
crate::search_suite!(tpe, |seed, points| Algorithm::Tpe { seed, startup_trials: points * 4, candidates: 24 });
crate::search_suite!(cmaes, |seed, _| Algorithm::Cmaes { seed });
crate::search_suite!(gp, |seed, points| Algorithm::Gp { seed, startup_trials: points * 8 });
crate::search_suite!(bohb, |seed, points| Algorithm::Bohb { seed, random_fraction: f64::from(points) / 4.0 - 0.25 });
crate::search_suite!(nsga2, |seed, points| Algorithm::Nsga2 { seed, population: points * 8 });

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// What the strategies make is what users may send, and validation changes nothing of it but a grid's max_trials.
    #[test]
    fn a_study_validates_to_itself(study in spaces::study()) {
        let document = serde_json::to_value(&study).expect("a spec is plain");
        let validated = validate(&document);
        if let (Algorithm::Grid { .. }, Some(cells)) = (&study.algorithm, size(&study)) {
            prop_assume!(cells > 0);
            let spec = validated.map_err(|errors| TestCaseError::fail(format!("{errors:?}")))?.spec;
            prop_assert_eq!(spec.budget.max_trials, study.budget.max_trials.min(cells));
        } else {
            prop_assert_eq!(validated.map(|validated| validated.spec), Ok(study));
        }
    }
}

fn one(name: &str, domain: Domain, algorithm: Algorithm) -> StudySpec {
    let document = serde_json::json!({
        "name": "one",
        "metrics": [{"name": "loss", "goal": "minimize"}],
        "search_space": {name: Parameter { domain, when: Default::default() }},
        "algorithm": algorithm,
        "budget": {"max_trials": 100}
    });
    validate(&document).unwrap_or_else(|errors| panic!("{errors:?}")).spec
}

fn numbers(spec: &StudySpec, count: u32) -> Vec<f64> {
    let mut searcher = Searcher::new(spec, Seed(spec.algorithm.seed()), None);
    (0..count).filter_map(|number| searcher.suggest(number)?.into_values().next()?.as_f64()).collect()
}

#[test]
fn any_2_to_the_k_sobol_points_lie_one_in_each_part() {
    let spec = one("x", Domain::Float { min: 0.0, max: 1.0, scale: Scale::Linear, step: None }, Algorithm::Sobol { seed: 3 });
    for k in [1, 4, 8] {
        let parts = 1u32 << k;
        let mut hit: Vec<u32> = numbers(&spec, parts).into_iter().map(|x| (x * f64::from(parts)) as u32).collect();
        hit.sort();
        assert_eq!(hit, (0..parts).collect::<Vec<_>>());
    }
}

#[test]
fn log_scale_spreads_over_decades_and_integers_over_all_values() {
    let float = Domain::Float { min: 1e-4, max: 1e-1, scale: Scale::Log, step: None };
    let drawn = numbers(&one("lr", float, Algorithm::Sobol { seed: 0 }), 3000);
    for decade in [1e-4, 1e-3, 1e-2] {
        let within = drawn.iter().filter(|lr| (decade..decade * 10.0).contains(*lr)).count();
        assert!((980..=1020).contains(&within), "{within} of 3000 from {decade}");
    }
    for scale in [Scale::Linear, Scale::Log] {
        let drawn = numbers(&one("n", Domain::Int { min: 1, max: 5, scale, step: None }, Algorithm::Random { seed: 0 }), 500);
        for value in 1..=5 {
            let times = drawn.iter().filter(|n| **n == f64::from(value)).count();
            assert!(times >= 30, "{value} was drawn {times} times of 500, {scale:?}");
        }
    }
}

#[test]
fn steps_are_written_as_people_write_them() {
    let domain = Domain::Float { min: -0.3, max: 0.3, scale: Scale::Linear, step: Some(0.1) };
    let mut values = numbers(&one("x", domain, Algorithm::Grid { seed: 0, points: 5 }), 100);
    values.sort_by(f64::total_cmp);
    assert_eq!(values, [-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3]);
}

#[test]
fn narrow_constraints_are_kept_without_hanging() {
    let mut spec = one("x", Domain::Float { min: 0.0, max: 1.0, scale: Scale::Linear, step: None }, Algorithm::Random { seed: 1 });
    spec.constraints = vec!["x > 0.7371 and x < 0.7381".into()];
    let document = serde_json::to_value(&spec).expect("a spec is plain");
    let spec = validate(&document).unwrap_or_else(|errors| panic!("{errors:?}")).spec;
    for algorithm in [Algorithm::Random { seed: 1 }, Algorithm::Sobol { seed: 1 }] {
        let drawn = numbers(&StudySpec { algorithm, ..spec.clone() }, 50);
        assert!(drawn.iter().all(|x| *x > 0.7371 && *x < 0.7381));
        let mut different = drawn.clone();
        different.sort_by(f64::total_cmp);
        different.dedup();
        assert!(different.len() > 25, "mended points differ");
    }
}

#[test]
fn a_grid_ends() {
    let mut spec = one("x", Domain::Int { min: 0, max: 9, scale: Scale::Linear, step: Some(3) }, Algorithm::Grid { seed: 5, points: 2 });
    assert_eq!(spec.budget.max_trials, 4, "lowered to the cells");
    spec.budget.max_trials = 10;
    let study = StudyContext::new(StudyId(uuid::Uuid::nil()), spec);
    let proposals = propose(&study, &ProposeMemory::default(), 10);
    assert_eq!(proposals.len(), 4);
    let memory = ProposeMemory { seq: 9, next: 3, spent: 3, learned: None };
    assert_eq!(unproposed(&study.spec, &memory), 1);
    assert_eq!(propose(&study, &memory, 10), proposals[3..]);
    assert_eq!(proposals[0].parameters["x"].as_f64().map(|x| x % 3.0), Some(0.0));
    assert!(matches!(proposals[0].parameters["x"], ParamValue::Int(_)));
}

#[test]
fn trials_that_never_started_cost_nothing() {
    let mut spec = one("x", Domain::Float { min: 0.0, max: 1.0, scale: Scale::Linear, step: None }, Algorithm::Random { seed: 1 });
    spec.budget.max_trials = 3;
    let trial = |number: u32| TrialId(uuid::Uuid::from_u128(u128::from(number)));
    let proposed = |number| Event::Proposed { trial: trial(number), number, parameters: Default::default(), run_until: 1.0 };
    let not_started = Event::Changed { trial: trial(0), state: TrialState::Cancelled, reason: Some(Reason::NotStarted), attempt: 1 };
    let happened = [proposed(0), proposed(1), proposed(2), Event::Unproposed { trial: trial(2), number: 2 }, not_started];
    let events: Vec<StudyEvent> = happened.into_iter().zip(1..).map(|(event, seq)| StudyEvent { seq, at: Time(0), event }).collect();
    let memory = fold(&spec, ProposeMemory::default(), &events);
    assert_eq!(memory, ProposeMemory { seq: 5, next: 2, spent: 1, learned: None });
    assert_eq!(fold(&spec, fold(&spec, ProposeMemory::default(), &events[..2]), &events), memory);
    let study = StudyContext::new(StudyId(uuid::Uuid::nil()), spec);
    let numbers: Vec<u32> = propose(&study, &memory, 9).iter().map(|proposal| proposal.number).collect();
    assert_eq!(numbers, [2, 3]);
}

#[test]
fn the_suite_notices_a_value_out_of_bounds() {
    let spec = one("x", Domain::Float { min: 0.0, max: 1.0, scale: Scale::Linear, step: None }, Algorithm::Random { seed: 1 });
    let outside = [("x".to_string(), ParamValue::Float(1.5))].into();
    assert!(std::panic::catch_unwind(|| suite::fits(&spec, &outside)).is_err());
}
