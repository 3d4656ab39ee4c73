//! The walk over a study's sections. Called by `validate`.

use std::collections::BTreeMap;

use super::fields::{Field, Object};
use super::{algorithm::algorithm, space, units, workload};
use crate::early_stopping::rungs::{MAX_RUNGS, Rungs};
use crate::model::space::SearchSpace;
use crate::model::study::*;
use crate::model::width::Width;
use crate::search::{grid, sobol, space::Space};
use crate::time::Span;

const MAX_METRICS: usize = 32;
const MAX_LABELS: usize = 64;
const MAX_TRIALS: i64 = 100_000;
/// Most units of resource (epochs) of a trial.
const MAX_RESOURCE: i64 = 1_000_000_000;
const YEAR_MS: i64 = 366 * 86_400_000;

pub(super) fn study(document: Field) -> Option<StudySpec> {
    let mut object = document.object()?;
    let name = object.required("name").and_then(|field| field.text(100).map(str::to_string));
    let metrics_field = object.required("metrics");
    let metrics = metrics_field.as_ref().and_then(metrics);
    let space_field = object.required("search_space");
    let search_space = space_field.as_ref().and_then(space::search_space);
    let constraints_field = object.get("constraints");
    // A name is unknown only if all parameters could be read.
    let whole =
        |space: &&SearchSpace| space_field.as_ref().and_then(|field| field.value().as_object()).is_some_and(|map| map.len() == space.len());
    let constraints = match &constraints_field {
        Some(field) => space::constraints(field, search_space.as_ref().filter(whole)),
        None => Some(Vec::new()),
    };
    let algorithm_field = object.required("algorithm");
    let algorithm = algorithm_field.as_ref().and_then(algorithm);
    let stopping_field = object.get("early_stopping");
    let early_stopping = stopping_field.as_ref().map_or(Some(EarlyStopping::None), early_stopping);
    let workload_field = object.get("workload");
    let workload = workload_field.as_ref().map(|field| workload::workload(field));
    let resources = match object.get("resources") {
        Some(field) => resources(&field, workload.as_ref().and_then(|workload| workload.as_ref())),
        None => Some(fitting(workload.as_ref().and_then(|workload| workload.as_ref()))),
    };
    let budget_field = object.required("budget");
    let budget = budget_field.as_ref().and_then(budget);
    let scheduling = object.get("scheduling").map_or(Some(Scheduling::default()), |field| scheduling(&field));
    let labels = object.get("labels").map_or(Some(BTreeMap::new()), |field| labels(&field));
    object.close();

    // What one section says is checked against the others where both could be read.
    if let (Some(field), Some(Some(workload))) = (&workload_field, &workload) {
        if let (Some(space_field), Some(space)) = (&space_field, &search_space) {
            workload::bind_space(space_field, space, workload);
        }
        if let (Some(metrics_field), Some(metrics)) = (&metrics_field, &metrics) {
            workload::bind_metrics(metrics_field, metrics, workload);
        }
        if let Some(stopping) = &early_stopping {
            workload::bind_epochs(field, workload, stopping);
        }
    }
    let mut spec = StudySpec {
        name: name?,
        metrics: metrics?,
        search_space: search_space?,
        constraints: constraints?,
        algorithm: algorithm?,
        early_stopping: early_stopping?,
        workload: match workload {
            Some(read) => Some(read?),
            None => None,
        },
        resources: resources?,
        budget: budget?,
        scheduling: scheduling?,
        labels: labels?,
    };
    feasible(&mut spec, space_field?, constraints_field, algorithm_field?, budget_field.as_ref()?);
    rungs_fit(&spec, budget_field?);
    Some(spec)
}

fn metrics(field: &Field) -> Option<Vec<Metric>> {
    let items = field.list(MAX_METRICS)?;
    if items.is_empty() {
        return field.wrong("must name at least one metric; the first one is optimised");
    }
    let mut metrics: Vec<Metric> = Vec::new();
    for item in &items {
        let Some(mut object) = item.object() else { continue };
        let name_field = object.required("name");
        let name = name_field.as_ref().and_then(|field| field.text(100));
        let goals = [("maximize", Goal::Maximize), ("minimize", Goal::Minimize)];
        let goal = object.required("goal").and_then(|field| field.choice("goal", &goals, &[]));
        let target = object.get("target").map(|field| field.float());
        object.close();
        let (Some(name), Some(goal)) = (name, goal) else { continue };
        if metrics.iter().any(|other| other.name == name) {
            name_field?.wrong::<()>(format!("there are two metrics named '{name}'"));
            continue;
        }
        metrics.push(Metric { name: name.to_string(), goal, target: target.flatten() });
    }
    (metrics.len() == items.len()).then_some(metrics)
}

/// The `name` of a section that may also be written as the name alone (`algorithm: random`).
pub(super) fn named<'a, T: Copy>(field: &Field<'a>, what: &str, built: &[(&str, T)], planned: &[&str]) -> Option<(T, Option<Object<'a>>)> {
    if field.value().is_string() {
        return field.choice(what, built, planned).map(|name| (name, None));
    }
    let mut object = field.object()?;
    let name = object.required("name").and_then(|field| field.choice(what, built, planned))?;
    Some((name, Some(object)))
}

fn early_stopping(field: &Field) -> Option<EarlyStopping> {
    #[derive(Clone, Copy, PartialEq)]
    enum Name {
        None,
        Asha,
        Halving,
    }
    const PLANNED: &[&str] = &["median", "hyperband", "patience", "threshold", "percentile", "pasha", "wilcoxon", "curve", "pbt", "bohb"];
    let built = [("none", Name::None), ("asha", Name::Asha), ("successive_halving", Name::Halving)];
    let (name, object) = named(field, "early-stopping rule", &built, PLANNED)?;
    let Some(mut object) = object else {
        return if name == Name::None {
            Some(EarlyStopping::None)
        } else {
            field.wrong("needs max_resource: {name: .., max_resource: ..}")
        };
    };
    if name == Name::None {
        object.close();
        return Some(EarlyStopping::None);
    }
    let min_field = object.get("min_resource");
    let min = min_field.as_ref().map_or(Some(1), |field| field.int(1..=MAX_RESOURCE));
    let max_field = object.required("max_resource");
    let max = max_field.as_ref().and_then(|field| field.int(1..=MAX_RESOURCE));
    let factor_field = object.get("reduction_factor");
    let factor = factor_field.as_ref().map_or(Some(4.0), Field::float);
    let variants = [("promotion", AshaVariant::Promotion), ("stopping", AshaVariant::Stopping)];
    let mut variant = Some(AshaVariant::Promotion);
    let mut trials = None;
    if name == Name::Asha {
        variant = object.get("variant").map_or(variant, |field| field.choice("variant", &variants, &[]));
        object.planned("brackets");
    } else {
        trials = object.get("trials").map(|field| field.int(1..=MAX_TRIALS));
    }
    object.close();
    let (min, max, reduction_factor, variant) = (min?, max?, factor?, variant?);
    if min > max {
        return min_field.or(max_field)?.wrong(format!("min_resource must be at most max_resource: {min} is above {max}"));
    }
    if reduction_factor <= 1.0 || reduction_factor > 1e6 {
        return factor_field?.wrong("must be above 1 and at most 1000000");
    }
    let (min_resource, max_resource) = (min as f64, max as f64);
    if Rungs::new(min_resource, max_resource, reduction_factor).is_none() {
        return factor_field?.wrong(format!("makes more than {MAX_RUNGS} rungs; raise it"));
    }
    Some(match name {
        Name::Asha => EarlyStopping::Asha { variant, min_resource, max_resource, reduction_factor },
        _ => {
            let trials = match trials {
                Some(given) => Some(given? as u32),
                None => None,
            };
            EarlyStopping::SuccessiveHalving { min_resource, max_resource, reduction_factor, trials }
        }
    })
}

/// The defaults, narrowed to what the workload's shards allow.
fn fitting(workload: Option<&Workload>) -> Resources {
    let mut resources = Resources::default();
    if let Some(workload) = workload {
        resources.max_width = resources.max_width.min(workload.shards as u16);
    }
    resources
}

fn resources(field: &Field, workload: Option<&Workload>) -> Option<Resources> {
    let mut object = field.object()?;
    let default = fitting(workload);
    let width = |field: &Field| field.int(1..=i64::from(u16::MAX)).map(|width| width as u16);
    let min_field = object.get("min_width");
    let min_width = min_field.as_ref().map_or(Some(default.min_width), width);
    let max_field = object.get("max_width");
    let max_width = max_field.as_ref().map_or(min_width.map(|min| min.max(default.max_width)), width);
    let share = object.get("share").map_or(Some(default.share), |field| share(&field));
    let memory = either(&mut object, "memory", units::bytes, "memory_bytes", 0, 1 << 50);
    let kinds = [("any", DeviceKind::Any), ("cpu", DeviceKind::Cpu), ("gpu", DeviceKind::Gpu)];
    let devices = object.get("devices").map_or(Some(DeviceKind::Any), |field| field.choice("kind of device", &kinds, &[]));
    object.planned("max_restarts");
    object.close();
    let (min_width, max_width) = (min_width?, max_width?);
    if min_width > max_width {
        return min_field.or(max_field)?.wrong(format!("min_width must be at most max_width: {min_width} is above {max_width}"));
    }
    if let Some(workload) = workload.filter(|workload| u32::from(max_width) > workload.shards) {
        let field = max_field.or(min_field)?;
        return field.wrong(format!("must be at most workload.shards, which is {}: a rank has at least one shard", workload.shards));
    }
    Some(Resources { min_width, max_width, share: share?, memory_bytes: memory?.unwrap_or(0) as u64, devices: devices? })
}

fn share(field: &Field) -> Option<f64> {
    let share = field.float()?;
    match Width::from_devices(share) {
        Some(width @ (Width::Fraction(_) | Width::ONE)) => Some(width.devices()),
        _ => field.wrong("must be 1/n of a device: 1, 0.5, 0.25 and so on (1: never shared)"),
    }
}

/// A quantity written with a unit under `human`, or as a plain integer under `plain`. Some(None): neither is given.
fn either(
    object: &mut Object,
    human: &'static str,
    read: fn(&str) -> Result<i64, String>,
    plain: &'static str,
    min: i64,
    max: i64,
) -> Option<Option<i64>> {
    match (object.get(human), object.get(plain)) {
        (Some(field), Some(_)) => field.wrong(format!("and {plain} say the same thing; leave one out")),
        (None, Some(field)) => field.int(min..=max).map(Some),
        (Some(field), None) => match field.value().as_str().map(read) {
            Some(Ok(value)) if value > max => field.wrong("is too large"),
            Some(Ok(value)) => Some(Some(value)),
            Some(Err(message)) => field.wrong(message),
            None => read("").err().and_then(|message| field.wrong(message)),
        },
        (None, None) => Some(None),
    }
}

fn budget(field: &Field) -> Option<Budget> {
    let mut object = field.object()?;
    let max_trials = object.required("max_trials").and_then(|field| field.int(1..=MAX_TRIALS));
    let parallel = object.get("max_parallel").map_or(Some(i64::from(Budget::default_max_parallel())), |field| field.int(1..=10_000));
    let deadline = either(&mut object, "deadline", units::duration_ms, "deadline_ms", 1, YEAR_MS);
    object.planned("max_cost");
    object.planned("max_device_hours");
    object.close();
    Some(Budget { max_trials: max_trials? as u32, max_parallel: parallel? as u32, deadline_ms: deadline?.map(Span) })
}

fn scheduling(field: &Field) -> Option<Scheduling> {
    const PLANNED: &[&str] = &["rubberband", "seer", "chronus", "dl2", "sia", "hypersched", "shockwave", "or_autoscale"];
    let mut object = field.object()?;
    let default = Scheduling::default();
    let policies = PolicyName::ALL.map(|policy| (policy.name(), policy));
    let policy = object.get("policy").map_or(Some(default.policy), |field| field.choice("policy", &policies, PLANNED));
    let priority = object.get("priority").map_or(Some(0), |field| field.int(-1_000..=1_000));
    let weight = object.get("weight").map_or(Some(default.weight), |field| match field.float()? {
        weight if (1e-3..=1e3).contains(&weight) => Some(weight),
        _ => field.wrong("must be from 0.001 to 1000"),
    });
    object.close();
    Some(Scheduling { policy: policy?, priority: priority? as i32, weight: weight? })
}

fn labels(field: &Field) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for (key, field) in field.object()?.entries(MAX_LABELS)? {
        if key.is_empty() || key.chars().count() > 63 || key.chars().any(char::is_control) {
            field.wrong::<()>("a label's name has 1 to 63 characters");
        }
        if let Some(value) = field.text(255) {
            labels.insert(key.to_string(), value.to_string());
        }
    }
    Some(labels)
}

/// Some point keeps all constraints, the searcher can cover the space, and `max_trials` is not above what the space has.
fn feasible(spec: &mut StudySpec, space_field: Field, constraints: Option<Field>, algorithm: Field, budget: &Field) {
    let space = Space::new(&spec.search_space, &spec.constraints);
    if matches!(spec.algorithm, Algorithm::Sobol { .. }) && space.dimensions() > sobol::MAX_DIMENSIONS {
        algorithm.wrong::<()>(format!("sobol covers at most {} parameters; use random", sobol::MAX_DIMENSIONS));
        return;
    }
    let possible = match spec.algorithm {
        Algorithm::Grid { points, .. } => match grid::cells(&space, points) {
            None => {
                algorithm.wrong::<()>(format!("the grid has more than {} cells; use fewer points, or random or sobol", grid::MAX_CELLS));
                return;
            }
            Some(cells) => {
                if !cells.is_empty() && cells.len() < spec.budget.max_trials as usize {
                    budget.warn(format!("the grid has {} cells, so max_trials is lowered to that", cells.len()));
                    spec.budget.max_trials = cells.len() as u32;
                }
                !cells.is_empty()
            }
        },
        _ => space.anchor().is_some(),
    };
    if !possible {
        let message = "no point of the search space was found that keeps all constraints; loosen them";
        constraints.unwrap_or(space_field).wrong::<()>(message);
    }
}

/// Too few trials never fill the upper rungs.
fn rungs_fit(spec: &StudySpec, budget: Field) {
    let Some(rungs) = Rungs::of(&spec.early_stopping) else { return };
    let needed = rungs.factor().powi(rungs.last() as i32);
    if f64::from(spec.budget.max_trials) < needed {
        budget.warn(format!(
            "max_trials is below {needed:.0} (reduction_factor to the power of the {} rungs above the first), so likely no trial reaches max_resource",
            rungs.last()
        ));
    }
}
