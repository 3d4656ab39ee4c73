//! What a searcher makes of results: it finds what random draws don't, also among a thousand categories, at an integer's ends and in
//! a sliver of the space.

use crate::model::event::{Event, MetricValue, StudyEvent};
use crate::model::ids::{StudyId, TrialId};
use crate::model::space::{ParamValue, Params};
use crate::model::study::{Algorithm, StudySpec};
use crate::model::trial::TrialState;
use crate::propose::{Proposal, ProposeMemory, StudyContext, fold, propose};
use crate::search::validate;
use crate::testing::suite;
use crate::time::Time;

/// Those that learn, at their defaults.
const LEARNING: [&str; 5] = ["tpe", "cmaes", "gp", "bohb", "nsga2"];

/// The largest integer of a document.
const WIDEST: i64 = 1 << 53;

fn study(algorithm: &str, seed: u64, space: serde_json::Value, constraints: &[&str]) -> StudySpec {
    let document = serde_json::json!({
        "name": "learn",
        "metrics": [{"name": "loss", "goal": "minimize"}],
        "search_space": space,
        "constraints": constraints,
        "algorithm": {"name": algorithm, "seed": seed},
        "budget": {"max_trials": 1000}
    });
    validate(&document).unwrap_or_else(|errors| panic!("{errors:?}")).spec
}

/// The study's trials in the order of their numbers: `parallel` run at a time, the oldest ends first.
fn run(spec: &StudySpec, trials: usize, parallel: usize, loss: impl Fn(&Params) -> f64) -> Vec<Params> {
    let study = StudyContext::new(StudyId(uuid::Uuid::nil()), spec.clone());
    let mut memory = ProposeMemory::default();
    let mut seq = 0;
    let mut take = |memory: &mut ProposeMemory, event: Event| {
        seq += 1;
        *memory = fold(spec, std::mem::take(memory), &[StudyEvent { seq, at: Time(0), event }]);
    };
    let mut all: Vec<Params> = Vec::new();
    let mut told = 0;
    while told < trials {
        while all.len() < trials && all.len() < told + parallel {
            let Some(Proposal { number, parameters, run_until }) = propose(&study, &memory, 1).pop() else { panic!("the study ended") };
            suite::fits(spec, &parameters);
            all.push(parameters.clone());
            take(&mut memory, Event::Proposed { trial: named(number), number, parameters, run_until });
        }
        let trial = named(told as u32);
        let metrics = [("loss".to_string(), MetricValue::new(loss(&all[told])))].into();
        take(&mut memory, Event::Measured { trial, resource: 1.0, metrics, elapsed_s: 1.0 });
        take(&mut memory, Event::Changed { trial, state: TrialState::Completed, reason: None, attempt: 1 });
        told += 1;
    }
    all
}

fn named(number: u32) -> TrialId {
    TrialId(uuid::Uuid::from_u128(u128::from(number) + 1))
}

fn number(params: &Params, name: &str) -> f64 {
    params.get(name).and_then(ParamValue::as_f64).unwrap_or(f64::NAN)
}

#[test]
fn each_finds_a_bowl_that_random_draws_miss_alone_and_in_parallel() {
    let space = serde_json::json!({
        "a": {"type": "float", "min": -1, "max": 3}, "b": {"type": "float", "min": 1e-4, "max": 1, "scale": "log"},
        "c": {"type": "int", "min": -20, "max": 20}, "d": {"type": "float", "min": 0, "max": 1},
    });
    let loss = |params: &Params| {
        let decades = number(params, "b").log10() + 2.5;
        (number(params, "a") - 0.4).powi(2) + decades.powi(2) + (number(params, "c") / 10.0 - 0.7).powi(2) + number(params, "d").powi(2)
    };
    let best = |algorithm: &str, parallel: usize| {
        let least =
            |seed| run(&study(algorithm, seed, space.clone(), &[]), 200, parallel, loss).iter().map(loss).fold(f64::INFINITY, f64::min);
        (0..5).map(|seed| least(seed).ln()).sum::<f64>() / 5.0
    };
    let random = best("random", 1);
    for algorithm in LEARNING {
        for parallel in [1, 8] {
            let found = best(algorithm, parallel);
            assert!(found < random, "{algorithm}, {parallel} at a time: mean log loss {found}, of random draws {random}");
        }
    }
}

#[test]
fn a_thousand_categories_and_both_ends_of_an_integer_are_within_reach() {
    let values: Vec<String> = (0..1000).map(|value| format!("v{value}")).collect();
    for end in [-WIDEST, WIDEST] {
        let space = serde_json::json!({
            "word": {"type": "categorical", "values": values}, "wide": {"type": "int", "min": -WIDEST, "max": WIDEST},
            "bit": {"type": "int", "min": 0, "max": 1}, "log": {"type": "int", "min": 1, "max": 3, "scale": "log"},
        });
        let ends = |params: &Params| (number(params, "bit"), number(params, "log"));
        let best = if end > 0 { (1.0, 3.0) } else { (0.0, 1.0) };
        let loss = |params: &Params| {
            let off = (number(params, "bit") - best.0).abs() + (number(params, "log") - best.1).abs();
            off + (number(params, "wide") / end as f64 - 1.0).abs()
        };
        for algorithm in LEARNING {
            let tried = run(&study(algorithm, 3, space.clone(), &[]), 120, 4, loss);
            let late = tried[60..].iter().filter(|params| ends(params) == best).count();
            assert!(late > 20, "{algorithm} came to {best:?} in {late} of its last 60 trials, by chance 10");
        }
    }
}

#[test]
fn a_sliver_of_the_space_is_searched_without_leaving_it() {
    let space = serde_json::json!({"x": {"type": "float", "min": 0, "max": 1}, "y": {"type": "float", "min": 0, "max": 1}});
    for algorithm in LEARNING {
        let spec = study(algorithm, 1, space.clone(), &["x > 0.7371", "x < 0.7381", "y < x"]);
        let tried = run(&spec, 80, 3, |params| number(params, "y"));
        let mut different: Vec<String> = tried.iter().map(|params| format!("{params:?}")).collect();
        different.sort();
        different.dedup();
        assert!(different.len() > 20, "{algorithm} tried {} points in 80 trials", different.len());
    }
}

#[test]
fn a_front_of_two_objectives_is_found_whole() {
    let document = serde_json::json!({
        "name": "front",
        "metrics": [{"name": "near", "goal": "minimize"}, {"name": "far", "goal": "maximize"}],
        "search_space": (0..6).map(|i| (format!("x{i}"), serde_json::json!({"type": "float", "min": 0, "max": 1})))
            .collect::<serde_json::Map<_, _>>(),
        "algorithm": Algorithm::Nsga2 { seed: 1, population: 20 },
        "budget": {"max_trials": 400}
    });
    let spec = validate(&document).unwrap_or_else(|errors| panic!("{errors:?}")).spec;
    let study = StudyContext::new(StudyId(uuid::Uuid::nil()), spec.clone());
    let mut memory = ProposeMemory::default();
    // Where all but x0 are zero, near and far rise together with x0: the front.
    let waste = |params: &Params| (1..6).map(|i| number(params, &format!("x{i}"))).sum::<f64>() / 5.0;
    let mut front = [0, 0];
    for seq in (1..).step_by(3).take(400) {
        let Some(Proposal { number: n, parameters, run_until }) = propose(&study, &memory, 1).pop() else { panic!("the study ended") };
        let x = number(&parameters, "x0");
        if n >= 200 && waste(&parameters) < 0.1 {
            front[usize::from(x > 0.5)] += 1;
        }
        let metrics = [("near", x + waste(&parameters)), ("far", x.sqrt() - waste(&parameters))];
        let metrics = metrics.map(|(name, value)| (name.to_string(), MetricValue::new(value))).into();
        let trial = named(n);
        let happened = [
            Event::Proposed { trial, number: n, parameters, run_until },
            Event::Measured { trial, resource: 1.0, metrics, elapsed_s: 1.0 },
            Event::Changed { trial, state: TrialState::Completed, reason: None, attempt: 1 },
        ];
        let events: Vec<StudyEvent> = happened.into_iter().zip(seq..).map(|(event, seq)| StudyEvent { seq, at: Time(0), event }).collect();
        memory = fold(&spec, memory, &events);
    }
    assert!(front.iter().all(|half| *half >= 20), "of the last 200 trials by half of the front: {front:?}");
}
