//! The workload, and what it asks of the other sections. Called by the walk over a study.

use super::fields::Field;
use crate::model::space::{Domain, ParamValue, SearchSpace};
use crate::model::study::{EarlyStopping, Metric, Reduction, Workload, WorkloadKind};
use crate::model::workload::{MAX_SHARDS, METRICS, ParameterKind, WORKLOADS, parameters};
use crate::search::nearest;

/// Samples a shard below which batch statistics and speed suffer.
const SMALL_SHARD: u32 = 16;
const MAX_EPOCHS: i64 = 1_000_000;

pub(super) fn workload(field: &Field) -> Option<Workload> {
    let mut object = field.object()?;
    let kinds = [("builtin", WorkloadKind::Builtin)];
    let kind = object
        .get("kind")
        .map_or(Some(WorkloadKind::Builtin), |field| field.choice("kind of workload", &kinds, &["torchscript", "command"]))?;
    let names: Vec<(&str, &str)> = WORKLOADS.iter().map(|name| (*name, *name)).collect();
    let name = object.required("name").and_then(|field| field.choice("workload", &names, &[]));
    let batch_size = object.required("batch_size").and_then(|field| field.int(1..=65_536)).map(|size| size as u32);
    let shards_field = object.get("shards");
    let shards = shards_field
        .as_ref()
        .map_or(Some(Workload::default_shards()), |field| field.int(1..=i64::from(MAX_SHARDS)).map(|shards| shards as u32));
    let reductions = [("exact", Reduction::Exact)];
    let reduction = object.get("reduction").map_or(Some(Reduction::Exact), |field| field.choice("reduction", &reductions, &["fast"]));
    let epochs = object.get("epochs").map(|field| field.int(1..=MAX_EPOCHS));
    object.planned("seed");
    let shards_at = shards_field.as_ref().unwrap_or(object.field());
    let shards = shards.and_then(|shards| match batch_size {
        Some(size) if size % shards != 0 => shards_at.wrong(format!("{shards} shards must divide the batch size, which is {size}")),
        Some(size) if size / shards < SMALL_SHARD => {
            shards_at.warn(format!("a shard has only {} samples of a step; {SMALL_SHARD} or more are advised", size / shards));
            Some(shards)
        }
        _ => Some(shards),
    });
    object.close();
    let epochs = match epochs {
        Some(given) => Some(given? as u32),
        None => None,
    };
    Some(Workload { kind, name: name?.to_string(), batch_size: batch_size?, shards: shards?, reduction: reduction?, epochs })
}

/// Every parameter is one that the workload takes, with no value that it refuses; its batch sizes split into the shards.
pub(super) fn bind_space(field: &Field, space: &SearchSpace, workload: &Workload) {
    let declared = parameters(&workload.name).unwrap_or_default();
    for (name, parameter) in space {
        let Some(field) = field.entry(name) else { continue };
        match declared.iter().find(|declared| declared.name == name) {
            None => {
                let known = declared.iter().map(|declared| declared.name);
                let all: Vec<&str> = known.clone().collect();
                let message = nearest::unknown("parameter", name, known);
                field.wrong::<()>(format!("{message}; {} takes {}", workload.name, all.join(", ")));
            }
            Some(declared) => {
                if let Err(message) = takes_all(&declared.kind, &parameter.domain) {
                    field.wrong::<()>(message);
                }
            }
        }
        if name == "batch_size" && !splits(&parameter.domain, i64::from(workload.shards)) {
            field.wrong::<()>(format!("every value must be divisible by workload.shards, which is {}", workload.shards));
        }
    }
}

/// Domains are intervals and kinds are too, so that the ends decide; categoricals are looked at one by one.
fn takes_all(kind: &ParameterKind, domain: &Domain) -> Result<(), String> {
    match (kind, domain) {
        (ParameterKind::Int { .. }, Domain::Float { .. }) => Err(format!("{}, so its type is int", kind_must(kind))),
        (_, Domain::Float { min, max, .. }) => [*min, *max].iter().try_for_each(|end| kind.check(&ParamValue::Float(*end))),
        (_, Domain::Int { min, max, .. }) => [*min, *max].iter().try_for_each(|end| kind.check(&ParamValue::Int(*end))),
        (_, Domain::Categorical { values }) => values.iter().try_for_each(|value| kind.check(value)),
    }
}

fn kind_must(kind: &ParameterKind) -> String {
    format!("must be {}", kind.describe())
}

fn splits(domain: &Domain, shards: i64) -> bool {
    match domain {
        Domain::Int { min, max, step, .. } => min % shards == 0 && (min == max || step.unwrap_or(1) % shards == 0),
        Domain::Categorical { values } => values.iter().all(|value| matches!(value, ParamValue::Int(size) if size % shards == 0)),
        Domain::Float { .. } => false,
    }
}

/// Metrics are among those that the workload reports.
pub(super) fn bind_metrics(field: &Field, metrics: &[Metric], workload: &Workload) {
    let fields = field.list(usize::MAX).unwrap_or_default();
    for (metric, field) in metrics.iter().zip(fields).filter(|(metric, _)| !METRICS.contains(&metric.name.as_str())) {
        let message = nearest::unknown("metric", &metric.name, METRICS.iter().copied());
        field.wrong::<()>(format!("{message} ({} reports {})", workload.name, METRICS.join(", ")));
    }
}

/// One place says how long a trial is.
pub(super) fn bind_epochs(field: &Field, workload: &Workload, stopping: &EarlyStopping) {
    match (stopping, workload.epochs) {
        (EarlyStopping::None, None) => field.warn("epochs is not given, so a trial trains 1 epoch"),
        (EarlyStopping::Asha { max_resource, .. } | EarlyStopping::SuccessiveHalving { max_resource, .. }, Some(epochs))
            if *max_resource != f64::from(epochs) =>
        {
            field.wrong::<()>(format!("epochs is {epochs}, but early_stopping.max_resource says {max_resource}; leave epochs out"));
        }
        _ => {}
    }
}
