//! What every searcher promises, as one function over a random study. Run a thousand times each by `search_suite!`.

use crate::model::ids::StudyId;
use crate::model::space::{Domain, ParamValue, Params};
use crate::model::study::{Algorithm, StudySpec};
use crate::propose::{ProposeMemory, StudyContext, propose};
use crate::rng::Seed;
use crate::search::Searcher;
use crate::search::constraint::Constraint;
use crate::search::space::applies;

/// Makes a module of tests that draw 1,000 studies, give each the algorithm that `$with` makes of (seed, points), and hold the
/// searcher to its promises.
#[macro_export]
macro_rules! search_suite {
    ($name:ident, $with:expr) => {
        mod $name {
            use proptest::prelude::*;
            #[allow(unused_imports)]
            use $crate::model::study::Algorithm;
            use $crate::testing::{history, spaces, suite};

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(1000))]

                #[test]
                fn keeps_its_promises(study in spaces::study(), seed in any::<u32>(), points in 1u32..4, number in 0u32..100_000) {
                    let with: fn(u64, u32) -> Algorithm = $with;
                    let mut study = study;
                    study.algorithm = with(u64::from(seed), points);
                    suite::check(&study, number);
                }
            }

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(60))]

                #[test]
                fn learns_as_it_promises(study in spaces::study(), seed in any::<u32>(), points in 1u32..4, fate in any::<u64>()) {
                    let with: fn(u64, u32) -> Algorithm = $with;
                    let mut study = study;
                    study.algorithm = with(u64::from(seed), points);
                    history::check(&study, fate);
                }
            }
        }
    };
}

/// Panics where a promise is broken. `number`: a trial far from the first.
pub fn check(spec: &StudySpec, number: u32) {
    let seed = Seed(spec.algorithm.seed());
    let mut searcher = Searcher::new(spec, seed, None);
    let numbers = [0, 1, 2, 3, 17, number];
    let forth: Vec<Option<Params>> = numbers.iter().map(|number| searcher.suggest(*number)).collect();
    for params in forth.iter().flatten() {
        fits(spec, params);
    }
    // Backwards and by another searcher: a proposal depends on the seed and its number alone.
    let mut again = Searcher::new(spec, seed, None);
    let back: Vec<Option<Params>> = numbers.iter().rev().map(|number| again.suggest(*number)).rev().collect();
    assert_eq!(bytes(&forth), bytes(&back));
    batches(spec);
    if let Algorithm::Grid { .. } = spec.algorithm {
        let cells: Vec<Vec<u8>> = (0..).map_while(|number| searcher.suggest(number)).map(|cell| bytes(&cell)).collect();
        let mut different = cells.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), cells.len(), "a grid visits each cell once");
    } else {
        assert!(forth.iter().all(Option::is_some), "only a grid ends");
    }
}

/// One at a time or all together.
fn batches(spec: &StudySpec) {
    let study = StudyContext::new(StudyId(uuid::Uuid::nil()), spec.clone());
    let together = propose(&study, &ProposeMemory::default(), 3);
    let single = |number| propose(&study, &ProposeMemory { seq: 0, next: number, spent: number, learned: None }, 1);
    let apart: Vec<_> = (0..3).flat_map(single).collect();
    assert_eq!(bytes(&together), bytes(&apart));
}

/// Within bounds and steps, with exactly the parameters whose conditions hold, all constraints kept.
pub fn fits(spec: &StudySpec, params: &Params) {
    for (name, parameter) in &spec.search_space {
        assert_eq!(params.contains_key(name), applies(parameter, params), "{name} in {params:?}");
        if let Some(value) = params.get(name) {
            assert!(takes(&parameter.domain, value), "{name} never takes {value:?}: {:?}", parameter.domain);
        }
    }
    assert!(params.keys().all(|name| spec.search_space.contains_key(name)));
    for text in &spec.constraints {
        assert!(Constraint::parse(text).expect("it is well-formed").holds(params), "{text} is broken by {params:?}");
    }
}

fn takes(domain: &Domain, value: &ParamValue) -> bool {
    match (domain, value) {
        (Domain::Categorical { values }, value) => values.contains(value),
        (Domain::Int { min, max, step, .. }, ParamValue::Int(value)) => {
            (min..=max).contains(&value) && (value - min) % step.unwrap_or(1) == 0
        }
        (Domain::Float { min, max, step, .. }, ParamValue::Float(value)) => {
            let steps = step.map_or(0.0, |step| (value - min) / step);
            (min..=max).contains(&value) && (steps - steps.round()).abs() < 1e-6
        }
        _ => false,
    }
}

fn bytes(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it is plain")
}
