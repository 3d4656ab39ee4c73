//! Every refusal names its field, all of them come at once, and a spec reads back as itself.

use serde_json::{Value, json};

use super::{Validated, validate};
use crate::model::study::{Algorithm, EarlyStopping, StudySpec};
use crate::search::Document;
use crate::time::Span;

fn fashion() -> Value {
    json!({
        "name": "fashion",
        "metrics": [{"name": "val_accuracy", "goal": "maximize", "target": 0.995}],
        "search_space": {
            "lr": {"type": "float", "min": 1.0e-4, "max": 1.0e-1, "scale": "log"},
            "channels": {"type": "int", "min": 8, "max": 64, "scale": "log"},
            "optimizer": {"type": "categorical", "values": ["sgd", "adam"]},
            "momentum": {"type": "float", "min": 0.0, "max": 0.99, "when": {"optimizer": ["sgd"]}}
        },
        "constraints": ["channels <= 48 or lr < 0.05"],
        "algorithm": {"name": "sobol", "seed": 7},
        "early_stopping": {"name": "asha", "min_resource": 1, "max_resource": 16, "reduction_factor": 4},
        "workload": {"kind": "builtin", "name": "fashion-mnist-cnn", "batch_size": 256, "shards": 4, "reduction": "exact"},
        "resources": {"min_width": 1, "max_width": 4, "share": 0.5, "memory": "1GiB", "devices": "any"},
        "budget": {"max_trials": 64, "max_parallel": 16, "deadline": "30m"},
        "scheduling": {"policy": "fluid", "priority": 0, "weight": 1}
    })
}

/// `fashion` with one value put at a JSON pointer; objects on the way are made.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = fashion();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    match document.pointer_mut(parent).expect("the parent is there") {
        Value::Object(map) => drop(map.insert(key.into(), value)),
        Value::Array(list) => list.push(value),
        other => panic!("{other} has no entries"),
    }
    document
}

fn accept(document: &Value) -> Validated {
    validate(document).unwrap_or_else(|errors| panic!("refused: {errors:?}"))
}

/// The errors as `path: message` lines.
fn refuse(document: &Value) -> Vec<String> {
    let errors = validate(document).map(|_| ()).expect_err("it must be refused");
    errors.into_iter().map(|error| format!("{}: {}", error.path, error.message)).collect()
}

#[test]
fn people_write_units_and_get_defaults() {
    let Validated { spec, warnings } = accept(&fashion());
    assert_eq!(warnings, []);
    assert_eq!(spec.budget.deadline_ms, Some(Span::from_secs(1800)));
    assert_eq!(spec.resources.memory_bytes, 1 << 30);
    assert_eq!(spec.algorithm, Algorithm::Sobol { seed: 7 });
    assert_eq!(spec.max_resource(), 16.0);

    let outside = json!({
        "name": "by hand",
        "metrics": [{"name": "loss", "goal": "minimize"}],
        "search_space": {"x": {"type": "float", "min": -1, "max": 1}},
        "algorithm": "random",
        "budget": {"max_trials": 3}
    });
    let Validated { spec, warnings } = accept(&outside);
    assert_eq!(warnings, []);
    assert_eq!((spec.budget.max_parallel, spec.resources.max_width, spec.workload), (16, 4, None));
    assert_eq!(spec.early_stopping, EarlyStopping::None);
}

#[test]
fn a_spec_reads_back_as_itself() {
    for document in [fashion(), with("/algorithm", json!("grid")), with("/early_stopping", json!("none"))] {
        let spec = accept(&document).spec;
        let stored = serde_json::to_value(&spec).expect("a spec is plain");
        assert_eq!(accept(&stored).spec, spec);
        assert_eq!(serde_json::from_value::<StudySpec>(stored).expect("serde reads it too"), spec);
    }
}

#[test]
fn each_mistake_is_refused_at_its_place() {
    let cases = [
        ("/search_space/lr/min", json!(1), "search_space.lr.min: must be at most max"),
        ("/search_space/lr/min", json!(0), "search_space.lr.min: must be above 0, since the scale is log"),
        ("/search_space/lr/min", json!("0.1"), "search_space.lr.min: must be a number, not the text \"0.1\"; leave the quotes out"),
        ("/search_space/lr/mim", json!(1), "search_space.lr.mim: unknown key 'mim'; did you mean 'min'?"),
        ("/search_space/lr/step", json!(0.01), "search_space.lr.step: needs a linear scale"),
        ("/search_space/lr/type", json!("normal"), "search_space.lr.type: 'normal' is not supported in this version"),
        ("/search_space/lr", json!({"type": "float", "min": 0, "max": 1, "step": 0.3}), "search_space.lr.step: does not divide"),
        ("/search_space/channels/max", json!(9.5), "search_space.channels.max: must be an integer, not 9.5"),
        ("/search_space/channels/max", json!(500), "search_space.channels: must be an integer from 1 to 256"),
        ("/search_space/channels", json!({"type": "float", "min": 1, "max": 2}), "search_space.channels: must be an integer"),
        ("/search_space/depth", json!({"type": "int", "min": 1, "max": 2}), "search_space.depth: unknown parameter 'depth'"),
        ("/search_space/and", json!({"type": "int", "min": 1, "max": 2}), "search_space.and: 'and' is a word"),
        ("/search_space/9x", json!({"type": "int", "min": 1, "max": 2}), "search_space.9x: is not a name"),
        ("/search_space/optimizer/values", json!([]), "search_space.optimizer.values: must have at least one value"),
        ("/search_space/optimizer/values", json!(["sgd", "sgd"]), "search_space.optimizer.values[1]: stands in the list twice"),
        ("/search_space/optimizer/values", json!([1, 1.0]), "search_space.optimizer.values[1]: stands in the list twice"),
        ("/search_space/optimizer/values", json!(["lion"]), "search_space.momentum.when.optimizer: 'optimizer' never takes 'sgd'"),
        (
            "/search_space/momentum/when",
            json!({"optimiser": ["sgd"]}),
            "search_space.momentum.when.optimiser: unknown parameter 'optimiser'; did you mean 'optimizer'?",
        ),
        (
            "/search_space/momentum/when",
            json!({"momentum": [0]}),
            "search_space.momentum.when.momentum: a parameter cannot be a condition of itself",
        ),
        ("/search_space/momentum/when", json!({"lr": [0.01]}), "search_space.momentum.when.lr: 'lr' is continuous"),
        ("/search_space/optimizer/when", json!({"momentum": [0.0]}), "search_space.optimizer.when.momentum: 'momentum' is continuous"),
        ("/constraints", json!(["channels <= 48 or"]), "constraints[0]: expected a value at character 18, where it ends"),
        ("/constraints", json!(["chanels <= 48"]), "constraints[0]: unknown parameter 'chanels'; did you mean 'channels'?"),
        ("/constraints", json!(["channels = 48"]), "constraints[0]: unexpected '=' at character 10; equality is written '=='"),
        ("/constraints", json!(["channels + 1"]), "constraints[0]: must be a comparison"),
        ("/constraints", json!(["optimizer < 3"]), "constraints[0]: '<' needs a number on each side, not a text"),
        ("/constraints", json!(["channels < 8"]), "constraints: no point of the search space"),
        ("/metrics", json!([]), "metrics: must name at least one metric"),
        ("/metrics/-", json!({"name": "val_accuracy", "goal": "minimize"}), "metrics[1].name: there are two metrics named 'val_accuracy'"),
        ("/metrics/-", json!({"name": "val_los", "goal": "minimize"}), "metrics[1]: unknown metric 'val_los'; did you mean 'val_loss'?"),
        ("/metrics/-", json!({"name": "val_loss"}), "metrics[1].goal: is missing"),
        ("/name", json!(""), "name: must not be empty"),
        ("/name", json!("x".repeat(101)), "name: must be at most 100 characters long"),
        ("/algorithm", json!({"name": "pbt"}), "algorithm.name: 'pbt' is not supported in this version"),
        ("/algorithm", json!({"name": "tpe", "candidates": 0}), "algorithm.candidates: must be at least 1"),
        ("/algorithm", json!({"name": "tpe", "gamma": 0.1}), "algorithm.gamma: unknown key 'gamma'"),
        ("/algorithm", json!({"name": "cmaes", "startup_trials": 3}), "algorithm.startup_trials: unknown key 'startup_trials'"),
        ("/algorithm", json!({"name": "bohb", "random_fraction": 1.5}), "algorithm.random_fraction: must be from 0 to 1"),
        ("/algorithm", json!({"name": "nsga2", "population": 1}), "algorithm.population: must be at least 2"),
        ("/algorithm", json!("rndom"), "algorithm: unknown algorithm 'rndom'; did you mean 'random'?"),
        ("/algorithm/seed", json!(-1), "algorithm.seed: must be at least 0"),
        ("/early_stopping", json!({"name": "median"}), "early_stopping.name: 'median' is not supported in this version"),
        ("/early_stopping/min_resource", json!(17), "early_stopping.min_resource: min_resource must be at most max_resource"),
        ("/early_stopping/min_resource", json!(0.5), "early_stopping.min_resource: must be an integer, not 0.5"),
        ("/early_stopping/reduction_factor", json!(1), "early_stopping.reduction_factor: must be above 1"),
        ("/early_stopping/max_resource", json!(null), "early_stopping.max_resource: is missing"),
        ("/workload/kind", json!("command"), "workload.kind: 'command' is not supported in this version"),
        ("/workload/reduction", json!("fast"), "workload.reduction: 'fast' is not supported in this version"),
        ("/workload/name", json!("cifar"), "workload.name: unknown workload 'cifar'; there are fashion-mnist-cnn, fashion-mnist-mlp"),
        ("/workload/shards", json!(5), "workload.shards: 5 shards must divide the batch size, which is 256"),
        ("/workload/epochs", json!(8), "workload: epochs is 8, but early_stopping.max_resource says 16"),
        ("/resources/max_width", json!(8), "resources.max_width: must be at most workload.shards, which is 4"),
        ("/resources/min_width", json!(5), "resources.min_width: min_width must be at most max_width"),
        ("/resources/share", json!(0.4), "resources.share: must be 1/n of a device"),
        ("/resources/memory", json!("1 parsec"), "resources.memory: must be a size with a unit"),
        ("/resources/memory_bytes", json!(1), "resources.memory: and memory_bytes say the same thing"),
        ("/budget/deadline", json!("30"), "budget.deadline: must be a duration with a unit"),
        ("/budget/deadline", json!(30), "budget.deadline: must be a duration with a unit"),
        ("/budget/max_cost", json!(5), "budget.max_cost: is not supported in this version"),
        ("/budget/max_trials", json!(0), "budget.max_trials: must be at least 1"),
        ("/budget/max_trials", json!(18446744073709551615u64), "budget.max_trials: must be at most 100000"),
        ("/scheduling/policy", json!("seer"), "scheduling.policy: 'seer' is not supported in this version"),
        ("/scheduling/weight", json!(0), "scheduling.weight: must be from 0.001 to 1000"),
        ("/labels", json!({"team": 3}), "labels.team: must be a text, not a number; put it in quotes"),
        ("/colour", json!("blue"), "colour: unknown key 'colour'"),
    ];
    for (pointer, value, expected) in cases {
        let errors = refuse(&with(pointer, value.clone()));
        assert!(errors.iter().any(|error| error.starts_with(expected)), "{pointer} = {value}: wanted {expected:?}, got {errors:?}");
    }
    for document in [json!(null), json!([]), json!("study"), json!(3)] {
        assert!(refuse(&document)[0].starts_with(": must be an object"));
    }
}

#[test]
fn all_mistakes_come_at_once() {
    let mut document = fashion();
    document["search_space"]["lr"]["min"] = json!("x");
    document["budget"]["max_parallel"] = json!(0);
    document["metrics"][0]["goal"] = json!("max");
    document["workload"]["shards"] = json!(3);
    document["nmae"] = json!("fashion");
    document.as_object_mut().expect("an object").remove("name");
    let errors = refuse(&document);
    for path in ["name:", "metrics[0].goal:", "search_space.lr.min:", "workload.shards:", "budget.max_parallel:", "nmae:"] {
        assert_eq!(errors.iter().filter(|error| error.starts_with(path)).count(), 1, "{path} in {errors:?}");
    }
    assert_eq!(errors.len(), 6, "{errors:?}");
}

#[test]
fn conditions_in_a_circle_are_refused() {
    let parameter = |parent: &str| json!({"type": "categorical", "values": [1, 2], "when": {parent: [1]}});
    let mut document = fashion();
    document["search_space"] = json!({"a": parameter("b"), "b": parameter("c"), "c": parameter("a"), "d": parameter("a")});
    document["constraints"] = json!([]);
    document["workload"] = json!(null);
    assert_eq!(refuse(&document), ["search_space: conditions form a circle among a, b, c, d"]);
}

#[test]
fn conditions_on_lattices_take_the_values_that_are_drawn() {
    let mut document = fashion();
    document["workload"] = json!(null);
    document["constraints"] = json!([]);
    document["search_space"] = json!({
        "rate": {"type": "float", "min": 0.1, "max": 0.5, "step": 0.1},
        "x": {"type": "int", "min": 0, "max": 9, "when": {"rate": [0.3, 0.5]}}
    });
    let spec = accept(&document).spec;
    let mut searcher = crate::search::Searcher::new(&spec, crate::rng::Seed(1), None);
    let drawn: Vec<_> = (0..200).filter_map(|number| searcher.suggest(number)).collect();
    let with_x = drawn.iter().filter(|params| params.contains_key("x")).count();
    assert!((40..160).contains(&with_x), "about two in five have x, not {with_x} of 200");
    document["search_space"]["x"]["when"]["rate"] = json!([0.35]);
    assert_eq!(refuse(&document), ["search_space.x.when.rate: 'rate' never takes 0.35"]);
}

#[test]
fn what_is_legal_but_doubtful_is_warned_about() {
    let mut document = fashion();
    document["workload"]["batch_size"] = json!(32);
    document["budget"]["max_trials"] = json!(8);
    let paths: Vec<String> = accept(&document).warnings.into_iter().map(|warning| warning.path).collect();
    assert_eq!(paths, ["workload.shards", "budget"]);

    document["algorithm"] = json!({"name": "grid", "points": 2});
    document["budget"]["max_trials"] = json!(1000);
    let Validated { spec, warnings } = accept(&document);
    // lr 2 x channels 2 x (sgd with momentum 2 + adam), less those that the constraint forbids: channels 64 with lr 0.1.
    assert_eq!(spec.budget.max_trials, 9);
    assert!(warnings.iter().any(|warning| warning.message.contains("the grid has 9 cells")), "{warnings:?}");
}

#[test]
fn hostile_documents_are_refused_quickly() {
    let mut many = serde_json::Map::new();
    for number in 0..201 {
        many.insert(format!("x{number}"), json!({"type": "float", "min": 0, "max": 1}));
    }
    assert_eq!(refuse(&with("/search_space", Value::Object(many))), ["search_space: has 201 entries; at most 200 are allowed"]);
    let nested = "(".repeat(200) + "lr < 1" + &")".repeat(200);
    assert_eq!(refuse(&with("/constraints", json!([nested]))), ["constraints[0]: nests deeper than 32 levels"]);
    let keys: serde_json::Map<String, Value> = (0..1000).map(|key| (format!("k{key}"), json!(1))).collect();
    assert_eq!(refuse(&Value::Object(keys)).len(), super::MAX_ERRORS);
    // Narrow, but not empty: it must end, whichever way.
    let _ = validate(&with("/constraints", json!(["lr * channels == 0.123456789"])));
}

#[test]
fn documents_keep_what_a_plain_value_would_swallow() {
    let read = |text: &str| serde_json::from_str::<Document>(text).map(|document| document.0).map_err(|error| error.to_string());
    assert_eq!(read(r#"{"a": [1, 2.5, "x", null, true], "b": {"c": -3}}"#), Ok(json!({"a": [1, 2.5, "x", null, true], "b": {"c": -3}})));
    assert!(read(r#"{"lr": 1, "lr": 2}"#).expect_err("twice").contains("'lr' stands twice"));
    assert!(read(&("[".repeat(40) + &"]".repeat(40))).expect_err("deep").contains("deeper than 16"));
    assert!(read(&format!("[{}1]", "1,".repeat(60_000))).expect_err("long").contains("more than 50000 values"));
}

#[test]
fn yaml_reads_as_people_mean_it() {
    let read = |text: &str| serde_norway::from_str::<Document>(text).map(|document| document.0).map_err(|error| error.to_string());
    let study = r#"
name: fashion
metrics: [{name: val_accuracy, goal: maximize, target: 0.995}]
search_space:
  lr:        {type: float, min: 1e-4, max: 1.0e-1, scale: log}
  channels:  {type: int, min: 8, max: 64, scale: log}
  optimizer: {type: categorical, values: [sgd, adam]}
  momentum:  {type: float, min: 0.0, max: 0.99, when: {optimizer: [sgd]}}
constraints: ["channels <= 48 or lr < 0.05"]
algorithm: {name: sobol, seed: 7}
early_stopping: {name: asha, min_resource: 1, max_resource: 16, reduction_factor: 4}   # resource = epochs unless said
workload: {kind: builtin, name: fashion-mnist-cnn, batch_size: 256, shards: 4, reduction: exact}
resources: {min_width: 1, max_width: 4, share: 0.5, memory: 1GiB, devices: any}
budget: {max_trials: 64, max_parallel: 16, deadline: 30m}
scheduling: {policy: fluid, priority: 0, weight: 1}
"#;
    assert_eq!(accept(&read(study).expect("it is well-formed")), accept(&fashion()));
    assert!(read("lr: 1\nlr: 2").expect_err("twice").contains("'lr' stands twice"));
    assert!(read("lr: .nan").expect_err("NaN").contains("not a number"));
    assert!(read("lr: [1, 2").is_err());
    assert!(read("- &a [1]\n- *a").is_ok());
    // Aliases of aliases: refused, not unfolded.
    let bomb = (1..20)
        .fold("a0: &a0 [x, x]\n".to_string(), |text, n| format!("{text}a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")));
    assert!(read(&bomb).is_err());
}
