//! Strategies for proptest: search spaces with every domain, scale, step and condition, constraints that leave something, studies.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::model::space::{Domain, ParamValue, Parameter, Scale, SearchSpace};
use crate::model::study::{Algorithm, AshaVariant, Budget, EarlyStopping, Goal, Metric, Resources, Scheduling, StudySpec};
use crate::search::space::{cardinality, nth};

/// Domains that `validate` accepts.
pub fn domain() -> impl Strategy<Value = Domain> {
    let log_float = (-6.0..3.0f64, 0.0..4.0f64).prop_map(|(low, decades)| Domain::Float {
        min: 10f64.powf(low),
        max: 10f64.powf(low + decades),
        scale: Scale::Log,
        step: None,
    });
    let linear_float =
        (-1e3..1e3f64, 0.0..1e4f64).prop_map(|(min, range)| Domain::Float { min, max: min + range, scale: Scale::Linear, step: None });
    let stepped_float =
        (-50i32..50, 1u32..20, prop::sample::select(vec![0.1, 0.25, 0.5, 3.0])).prop_map(|(first, steps, step)| Domain::Float {
            min: f64::from(first) * step,
            max: (f64::from(first) + f64::from(steps)) * step,
            scale: Scale::Linear,
            step: Some(step),
        });
    let linear_int =
        (-1000i64..1000, 0i64..2000).prop_map(|(min, range)| Domain::Int { min, max: min + range, scale: Scale::Linear, step: None });
    let log_int = (1i64..100, 0i64..5000).prop_map(|(min, range)| Domain::Int { min, max: min + range, scale: Scale::Log, step: None });
    let stepped_int = (-100i64..100, 0i64..30, 2i64..16).prop_map(|(min, steps, step)| Domain::Int {
        min,
        max: min + steps * step,
        scale: Scale::Linear,
        step: Some(step),
    });
    prop_oneof![log_float, linear_float, stepped_float, linear_int, log_int, stepped_int, categorical()]
}

fn categorical() -> impl Strategy<Value = Domain> {
    let texts = prop::sample::subsequence(vec!["sgd", "adam", "relu", "", "ünïcode", "a b"], 1..=6)
        .prop_map(|texts| texts.into_iter().map(|text| ParamValue::Text(text.into())).collect());
    let numbers =
        prop::sample::subsequence(vec![1, 2, 32, 64, -7], 1..=5).prop_map(|numbers| numbers.into_iter().map(ParamValue::Int).collect());
    let mixed = Just(vec![ParamValue::Bool(true), ParamValue::Bool(false), ParamValue::Float(0.5), ParamValue::Text("none".into())]);
    prop_oneof![texts, numbers, mixed].prop_map(|values| Domain::Categorical { values })
}

/// Spaces of 1 to 8 parameters; a condition looks at an earlier parameter of the list, so that there is no circle. Names are
/// shuffled, so that parents may sort after their children.
pub fn space() -> impl Strategy<Value = SearchSpace> {
    let names: Vec<String> = ["lr", "alpha", "z", "momentum", "b", "hidden", "c_3", "x.y"].map(String::from).to_vec();
    let parameters = prop::collection::vec((domain(), any::<prop::sample::Index>(), any::<(bool, u64)>()), 1..=8);
    (Just(names).prop_shuffle(), parameters).prop_map(|(names, parameters)| {
        let mut space = SearchSpace::new();
        for (index, (domain, parent, (conditional, pick))) in parameters.into_iter().enumerate() {
            let mut when = BTreeMap::new();
            if conditional && index > 0 {
                let parent = &names[parent.index(index)];
                if let Some(count) = cardinality(&space[parent].domain) {
                    when.insert(parent.clone(), vec![nth(&space[parent].domain, pick % count)]);
                }
            }
            space.insert(names[index].clone(), Parameter { domain, when });
        }
        space
    })
}

/// Up to two constraints that cut each numeric parameter near a value that it takes, so that they can be kept together.
pub fn constraints(space: &SearchSpace) -> impl Strategy<Value = Vec<String>> + use<> {
    let mut all = Vec::new();
    for (name, parameter) in space {
        match parameter.domain {
            Domain::Float { min, max, .. } => all.push(format!("{name} <= {:?}", min + (max - min) * 0.6)),
            Domain::Int { min, max, .. } => all.push(format!("not ({name} > {})", min + (max - min) / 2)),
            Domain::Categorical { .. } => {}
        }
    }
    let most = all.len().min(2);
    prop::sample::subsequence(all, 0..=most)
}

pub fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        any::<u32>().prop_map(|seed| Algorithm::Random { seed: u64::from(seed) }),
        any::<u32>().prop_map(|seed| Algorithm::Sobol { seed: u64::from(seed) }),
        (any::<u32>(), 1u32..4).prop_map(|(seed, points)| Algorithm::Grid { seed: u64::from(seed), points }),
        (any::<u32>(), 1u32..40).prop_map(|(seed, startup_trials)| Algorithm::Tpe {
            seed: u64::from(seed),
            startup_trials,
            candidates: 24
        }),
        any::<u32>().prop_map(|seed| Algorithm::Cmaes { seed: u64::from(seed) }),
        (any::<u32>(), 2u32..40).prop_map(|(seed, startup_trials)| Algorithm::Gp { seed: u64::from(seed), startup_trials }),
        (any::<u32>(), 0.0..1.0).prop_map(|(seed, random_fraction)| Algorithm::Bohb { seed: u64::from(seed), random_fraction }),
        (any::<u32>(), 2u32..90).prop_map(|(seed, population)| Algorithm::Nsga2 { seed: u64::from(seed), population }),
    ]
}

fn early_stopping() -> impl Strategy<Value = EarlyStopping> {
    let asha =
        (prop::sample::select(vec![AshaVariant::Promotion, AshaVariant::Stopping]), 1u32..3, 0u32..10).prop_map(|(variant, min, more)| {
            EarlyStopping::Asha { variant, min_resource: f64::from(min), max_resource: f64::from(min + more), reduction_factor: 2.0 }
        });
    prop_oneof![Just(EarlyStopping::None), asha]
}

fn metrics() -> impl Strategy<Value = Vec<Metric>> {
    prop::collection::vec(prop::sample::select(vec![Goal::Minimize, Goal::Maximize]), 1..=3).prop_map(|goals| {
        let metric = |(goal, name): (Goal, &str)| Metric { name: name.into(), goal, target: None };
        goals.into_iter().zip(["loss", "latency_ms", "size_bytes"]).map(metric).collect()
    })
}

/// Studies for outside workers.
pub fn study() -> impl Strategy<Value = StudySpec> {
    let constrained = space().prop_flat_map(|space| (constraints(&space), Just(space)));
    (constrained, algorithm(), metrics(), early_stopping(), 1u32..500).prop_map(
        |((constraints, search_space), algorithm, metrics, early_stopping, max_trials)| StudySpec {
            name: "random".into(),
            metrics,
            search_space,
            constraints,
            algorithm,
            early_stopping,
            workload: None,
            resources: Resources::default(),
            budget: Budget { max_trials, max_parallel: 16, deadline_ms: None },
            scheduling: Scheduling::default(),
            labels: BTreeMap::new(),
        },
    )
}
