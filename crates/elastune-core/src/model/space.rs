//! The search space as data: parameters with inclusive bounds, scales, steps and conditions. `search::` gives it meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One value of one parameter. Numbers are numbers, never strings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ParamValue {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl ParamValue {
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            ParamValue::Int(value) => Some(*value as f64),
            ParamValue::Float(value) => Some(*value),
            ParamValue::Bool(_) | ParamValue::Text(_) => None,
        }
    }
}

/// A trial's parameters by name; a parameter whose condition does not hold is absent.
pub type Params = BTreeMap<String, ParamValue>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    #[default]
    Linear,
    Log,
}

/// What values a parameter takes. Bounds are inclusive; `step` divides the range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Domain {
    Float {
        min: f64,
        max: f64,
        #[serde(default)]
        scale: Scale,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<f64>,
    },
    Int {
        min: i64,
        max: i64,
        #[serde(default)]
        scale: Scale,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<i64>,
    },
    Categorical {
        values: Vec<ParamValue>,
    },
}

/// A parameter: its domain and, where it is conditional, the parents' values under which it exists (all must hold).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Parameter {
    #[serde(flatten)]
    pub domain: Domain,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, Vec<ParamValue>>,
}

/// Parameters by name. Sorted by name, so that dimension numbers never depend on how a document was written.
pub type SearchSpace = BTreeMap<String, Parameter>;
