//! What the built-in workloads take and report. Validation binds search spaces to it; the worker reads its parameters by it.

use serde::Serialize;

use super::space::{ParamValue, Params};

/// The built-in workloads, as studies name them.
pub const WORKLOADS: &[&str] = &["fashion-mnist-cnn", "fashion-mnist-mlp"];

/// What every built-in workload reports at the end of each epoch.
pub const METRICS: &[&str] = &["val_accuracy", "val_loss", "train_loss"];

/// Most shards that a built-in workload is split into.
pub const MAX_SHARDS: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkloadParameter {
    pub name: &'static str,
    #[serde(flatten)]
    pub kind: ParameterKind,
}

/// A parameter's type, inclusive bounds and the value it has where a trial does not give one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ParameterKind {
    Float { min: f64, max: f64, default: f64 },
    Int { min: i64, max: i64, default: i64 },
    Bool { default: bool },
    Choice { values: &'static [&'static str], default: &'static str },
}

impl ParameterKind {
    /// Whether the parameter may take `value`; if not, a sentence that says what it takes.
    pub fn check(&self, value: &ParamValue) -> Result<(), String> {
        let holds = match (self, value) {
            (ParameterKind::Float { min, max, .. }, value) => value.as_f64().is_some_and(|value| (*min..=*max).contains(&value)),
            (ParameterKind::Int { min, max, .. }, ParamValue::Int(value)) => (*min..=*max).contains(value),
            (ParameterKind::Bool { .. }, ParamValue::Bool(_)) => true,
            (ParameterKind::Choice { values, .. }, ParamValue::Text(value)) => values.contains(&value.as_str()),
            _ => false,
        };
        if holds { Ok(()) } else { Err(format!("must be {}", self.describe())) }
    }

    /// What it takes, as in `a number from 0 to 1`.
    pub fn describe(&self) -> String {
        match self {
            ParameterKind::Float { min, max, .. } => format!("a number from {min} to {max}"),
            ParameterKind::Int { min, max, .. } => format!("an integer from {min} to {max}"),
            ParameterKind::Bool { .. } => "true or false".into(),
            ParameterKind::Choice { values, .. } => format!("one of {}", values.join(", ")),
        }
    }

    pub fn default_value(&self) -> ParamValue {
        match *self {
            ParameterKind::Float { default, .. } => ParamValue::Float(default),
            ParameterKind::Int { default, .. } => ParamValue::Int(default),
            ParameterKind::Bool { default } => ParamValue::Bool(default),
            ParameterKind::Choice { default, .. } => ParamValue::Text(default.into()),
        }
    }
}

const fn float(name: &'static str, min: f64, max: f64, default: f64) -> WorkloadParameter {
    WorkloadParameter { name, kind: ParameterKind::Float { min, max, default } }
}

const fn int(name: &'static str, min: i64, max: i64, default: i64) -> WorkloadParameter {
    WorkloadParameter { name, kind: ParameterKind::Int { min, max, default } }
}

const LR: WorkloadParameter = float("lr", 1e-8, 10.0, 0.05);
const MOMENTUM: WorkloadParameter = float("momentum", 0.0, 0.9999, 0.9);
const WEIGHT_DECAY: WorkloadParameter = float("weight_decay", 0.0, 1.0, 0.0);
const DROPOUT: WorkloadParameter = float("dropout", 0.0, 0.95, 0.0);
const OPTIMIZER: WorkloadParameter =
    WorkloadParameter { name: "optimizer", kind: ParameterKind::Choice { values: &["sgd", "adam"], default: "sgd" } };
const BATCH_NORM: WorkloadParameter = WorkloadParameter { name: "batch_norm", kind: ParameterKind::Bool { default: false } };

const CNN: &[WorkloadParameter] =
    &[LR, MOMENTUM, WEIGHT_DECAY, OPTIMIZER, int("channels", 1, 256, 16), int("hidden", 1, 4096, 64), DROPOUT, BATCH_NORM];
const MLP: &[WorkloadParameter] =
    &[LR, MOMENTUM, WEIGHT_DECAY, OPTIMIZER, int("hidden", 1, 4096, 128), int("layers", 1, 8, 2), DROPOUT, BATCH_NORM];

/// What the workload takes; None if there is no such workload.
pub fn parameters(name: &str) -> Option<&'static [WorkloadParameter]> {
    match name {
        "fashion-mnist-cnn" => Some(CNN),
        "fashion-mnist-mlp" => Some(MLP),
        _ => None,
    }
}

/// Every parameter of the workload with the value given or its default. Errors: an unknown workload, names that it does not
/// take, values outside what it takes; all of them, as (name, sentence).
pub fn bind(name: &str, given: &Params) -> Result<Params, Vec<(String, String)>> {
    let Some(declared) = parameters(name) else {
        return Err(vec![("workload".into(), format!("there is no workload '{name}'; there are {}", WORKLOADS.join(", ")))]);
    };
    let mut errors = Vec::new();
    for (name, value) in given {
        match declared.iter().find(|parameter| parameter.name == name) {
            None => errors.push((name.clone(), "the workload has no such parameter".into())),
            Some(parameter) => errors.extend(parameter.kind.check(value).err().map(|message| (name.clone(), message))),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let value = |parameter: &WorkloadParameter| given.get(parameter.name).cloned().unwrap_or_else(|| parameter.kind.default_value());
    Ok(declared.iter().map(|parameter| (parameter.name.to_string(), value(parameter))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_that_the_parameter_takes() {
        for workload in WORKLOADS {
            let declared = parameters(workload).expect("it is listed");
            for parameter in declared {
                assert_eq!(parameter.kind.check(&parameter.kind.default_value()), Ok(()), "{workload}.{}", parameter.name);
            }
            assert_eq!(bind(workload, &Params::new()).expect("defaults hold").len(), declared.len());
        }
    }

    #[test]
    fn all_errors_come_at_once() {
        let given = Params::from([
            ("lr".to_string(), ParamValue::Float(f64::NAN)),
            ("hidden".to_string(), ParamValue::Float(12.5)),
            ("optimizer".to_string(), ParamValue::Text("lion".into())),
            ("depth".to_string(), ParamValue::Int(3)),
            ("momentum".to_string(), ParamValue::Int(0)),
        ]);
        let errors = bind("fashion-mnist-cnn", &given).expect_err("four are wrong");
        assert_eq!(errors.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["depth", "hidden", "lr", "optimizer"]);
        assert!(bind("cifar", &Params::new()).is_err());
    }
}
