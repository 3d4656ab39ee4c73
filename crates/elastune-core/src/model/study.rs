//! A study's document (design of the YAML: README) and its states. One document is API body, stored JSON and simulator input.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::space::SearchSpace;
use crate::time::Span;

/// What a user asks for. Built by `search::validate` from a document, which reports every error at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StudySpec {
    pub name: String,
    /// The first one is optimised and the others are recorded; `nsga2` optimises all.
    pub metrics: Vec<Metric>,
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, super::space::Parameter>))]
    pub search_space: SearchSpace,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    pub algorithm: Algorithm,
    #[serde(default)]
    pub early_stopping: EarlyStopping,
    /// Absent: trials are run by outside workers through suggest and complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    #[serde(default)]
    pub resources: Resources,
    pub budget: Budget,
    #[serde(default)]
    pub scheduling: Scheduling,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl StudySpec {
    /// The resource (epochs) at which a trial is complete.
    pub fn max_resource(&self) -> f64 {
        match (&self.early_stopping, &self.workload) {
            (EarlyStopping::Asha { max_resource, .. } | EarlyStopping::SuccessiveHalving { max_resource, .. }, _) => *max_resource,
            (EarlyStopping::None, Some(workload)) => f64::from(workload.epochs.unwrap_or(1)),
            (EarlyStopping::None, None) => f64::INFINITY,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    Minimize,
    Maximize,
}

impl Goal {
    /// The value with its sign turned so that less is better.
    pub fn loss(self, value: f64) -> f64 {
        match self {
            Goal::Minimize => value,
            Goal::Maximize => -value,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Metric {
    pub name: String,
    pub goal: Goal,
    /// The study completes once a trial reaches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
}

/// How trials are proposed: one file in `search/` each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Algorithm {
    Random {
        #[serde(default)]
        seed: u64,
    },
    Sobol {
        #[serde(default)]
        seed: u64,
    },
    Grid {
        #[serde(default)]
        seed: u64,
        /// Points a continuous parameter is cut into where it has no step.
        #[serde(default = "Algorithm::default_points")]
        points: u32,
    },
    /// Tree-structured Parzen estimator, over all parameters jointly.
    Tpe {
        #[serde(default)]
        seed: u64,
        /// Evenly spread trials before the model is asked.
        #[serde(default = "Algorithm::default_startup_trials")]
        startup_trials: u32,
        /// Draws among which the model chooses.
        #[serde(default = "Algorithm::default_candidates")]
        candidates: u32,
    },
    /// Covariance matrix adaptation: for numbers, from a few hundred trials on.
    Cmaes {
        #[serde(default)]
        seed: u64,
    },
    /// Bayesian optimisation with a Gaussian process: the fewest trials, for up to about 20 parameters.
    Gp {
        #[serde(default)]
        seed: u64,
        /// Evenly spread trials before the model is asked.
        #[serde(default = "Algorithm::default_startup_trials")]
        startup_trials: u32,
    },
    /// Parzen estimators of the highest rung that has results, for use with an early stopping that has rungs.
    Bohb {
        #[serde(default)]
        seed: u64,
        /// Part of the trials that is random, from 0 to 1.
        #[serde(default = "Algorithm::default_random_fraction")]
        random_fraction: f64,
    },
    /// Evolution towards the Pareto front of all the study's metrics.
    Nsga2 {
        #[serde(default)]
        seed: u64,
        /// Trials that may become parents; as many are random at first.
        #[serde(default = "Algorithm::default_population")]
        population: u32,
    },
}

impl Algorithm {
    pub fn default_points() -> u32 {
        5
    }
    pub fn default_startup_trials() -> u32 {
        10
    }
    pub fn default_candidates() -> u32 {
        24
    }
    pub fn default_random_fraction() -> f64 {
        1.0 / 3.0
    }
    pub fn default_population() -> u32 {
        50
    }
    pub fn seed(&self) -> u64 {
        match self {
            Algorithm::Random { seed }
            | Algorithm::Sobol { seed }
            | Algorithm::Grid { seed, .. }
            | Algorithm::Tpe { seed, .. }
            | Algorithm::Cmaes { seed }
            | Algorithm::Gp { seed, .. }
            | Algorithm::Bohb { seed, .. }
            | Algorithm::Nsga2 { seed, .. } => *seed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AshaVariant {
    /// Pause at a rung, resume when promoted (Li et al., MLSys'20).
    #[default]
    Promotion,
    /// Never wait: stop at a rung what is below its quantile so far.
    Stopping,
}

/// When trials end early: one file in `early_stopping/` each. Resources are epochs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum EarlyStopping {
    #[default]
    None,
    Asha {
        #[serde(default)]
        variant: AshaVariant,
        #[serde(default = "EarlyStopping::default_min_resource")]
        min_resource: f64,
        max_resource: f64,
        #[serde(default = "EarlyStopping::default_reduction_factor")]
        reduction_factor: f64,
    },
    SuccessiveHalving {
        #[serde(default = "EarlyStopping::default_min_resource")]
        min_resource: f64,
        max_resource: f64,
        #[serde(default = "EarlyStopping::default_reduction_factor")]
        reduction_factor: f64,
        /// Trials in the first rung; absent: the whole `max_trials`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trials: Option<u32>,
    },
}

impl EarlyStopping {
    fn default_min_resource() -> f64 {
        1.0
    }
    fn default_reduction_factor() -> f64 {
        4.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    #[default]
    Builtin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Shard gradients folded along one fixed binary tree: the same bits at any width.
    #[default]
    Exact,
}

/// What a trial trains. `shards` shapes the numbers, so it is fixed when the study is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Workload {
    pub kind: WorkloadKind,
    /// `fashion-mnist-cnn` or `fashion-mnist-mlp`.
    pub name: String,
    /// Samples a step, over all shards.
    pub batch_size: u32,
    #[serde(default = "Workload::default_shards")]
    pub shards: u32,
    #[serde(default)]
    pub reduction: Reduction,
    /// Epochs of a trial where no early stopping says them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
}

impl Workload {
    pub fn default_shards() -> u32 {
        4
    }
}

/// What a trial may hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Resources {
    pub min_width: u16,
    pub max_width: u16,
    /// The smallest part of a device that a trial of width 1 may get; 1.0: never shared.
    pub share: f64,
    /// Device memory a rank needs, in bytes; 0: unknown.
    pub memory_bytes: u64,
    /// `any`, `cpu` or `gpu`.
    pub devices: DeviceKind,
}

impl Default for Resources {
    fn default() -> Self {
        Resources { min_width: 1, max_width: 4, share: 1.0, memory_bytes: 0, devices: DeviceKind::Any }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    #[default]
    Any,
    Cpu,
    Gpu,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Budget {
    pub max_trials: u32,
    #[serde(default = "Budget::default_max_parallel")]
    pub max_parallel: u32,
    /// From the study's creation, in milliseconds; the study stops then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Span>,
}

impl Budget {
    pub fn default_max_parallel() -> u32 {
        16
    }
}

/// How a study's trials share what the study got: one file in `sched/` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PolicyName {
    Fifo,
    #[default]
    Fluid,
    MaxMin,
    Srtf,
    Tiresias,
    Optimus,
    Afs,
    AfsP,
    Jsa,
    Pollux,
}

impl PolicyName {
    pub const ALL: [PolicyName; 10] = [
        PolicyName::Fifo,
        PolicyName::Fluid,
        PolicyName::MaxMin,
        PolicyName::Srtf,
        PolicyName::Tiresias,
        PolicyName::Optimus,
        PolicyName::Afs,
        PolicyName::AfsP,
        PolicyName::Jsa,
        PolicyName::Pollux,
    ];

    /// As a study's document names it.
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Fifo => "fifo",
            PolicyName::Fluid => "fluid",
            PolicyName::MaxMin => "max_min",
            PolicyName::Srtf => "srtf",
            PolicyName::Tiresias => "tiresias",
            PolicyName::Optimus => "optimus",
            PolicyName::Afs => "afs",
            PolicyName::AfsP => "afs_p",
            PolicyName::Jsa => "jsa",
            PolicyName::Pollux => "pollux",
        }
    }

    /// Never changes the width of a running trial.
    pub fn is_rigid(self) -> bool {
        matches!(self, PolicyName::Fifo | PolicyName::Tiresias)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Scheduling {
    pub policy: PolicyName,
    /// Studies of a higher priority are served first.
    pub priority: i32,
    /// Part of the capacity against studies of the same priority.
    pub weight: f64,
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling { policy: PolicyName::Fluid, priority: 0, weight: 1.0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StudyState {
    Active,
    Paused,
    Stopping,
    Completed,
    Cancelled,
    Failed,
}

impl StudyState {
    pub fn is_final(self) -> bool {
        matches!(self, StudyState::Completed | StudyState::Cancelled | StudyState::Failed)
    }
}
