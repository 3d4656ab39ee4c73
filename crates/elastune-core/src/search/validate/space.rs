//! The search space and its constraints. Called by the walk over a study.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde_json::Value;

use super::fields::{Field, Object};
use crate::model::space::{Domain, ParamValue, Parameter, Scale, SearchSpace};
use crate::search::constraint::Constraint;
use crate::search::nearest;
use crate::search::space::{Space, cardinality, nth, same};

const MAX_PARAMETERS: usize = 200;
const MAX_CATEGORIES: usize = 1_000;
const MAX_CONSTRAINTS: usize = 50;
/// Integers beyond it are not exact as JSON numbers everywhere.
const EXACT: i64 = 1 << 53;

/// Words of the constraint language; a parameter so named could not be constrained.
const RESERVED: &[&str] = &["and", "or", "not", "true", "false"];

/// The parameters that stand on their own; their conditions are checked against each other.
pub(super) fn search_space(field: &Field) -> Option<SearchSpace> {
    let entries = field.object()?.entries(MAX_PARAMETERS)?;
    if entries.is_empty() {
        return field.wrong("must have at least one parameter");
    }
    let mut space = SearchSpace::new();
    let mut conditions = Vec::new();
    for (name, field) in &entries {
        if !is_name(name) {
            field.wrong::<()>("is not a name: letters, digits, '_' and '.', not a digit or '.' first, at most 100 characters");
        } else if RESERVED.contains(name) {
            field.wrong::<()>(format!("'{name}' is a word of the constraint language; choose another name"));
        }
        if let Some((parameter, when)) = parameter(field) {
            space.insert((*name).to_string(), parameter);
            conditions.extend(when.map(|when| (*name, when)));
        }
    }
    if space.len() == entries.len() {
        for (name, when) in conditions {
            let checked = condition(name, &when, &space);
            if let Some(parameter) = space.get_mut(name) {
                parameter.when = checked;
            }
        }
        circles(field, &space);
    }
    Some(space)
}

fn is_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

/// A parameter without its condition, and the condition's field.
fn parameter<'a>(field: &Field<'a>) -> Option<(Parameter, Option<Field<'a>>)> {
    #[derive(Clone, Copy)]
    enum Type {
        Float,
        Int,
        Categorical,
    }
    let mut object = field.object()?;
    let built = [("float", Type::Float), ("int", Type::Int), ("categorical", Type::Categorical)];
    let kind = object.required("type").and_then(|field| field.choice("type", &built, &["ordinal", "normal", "lognormal", "fixed"]));
    let when = object.get("when");
    let domain = match kind? {
        Type::Float => float(&mut object),
        Type::Int => int(&mut object),
        Type::Categorical => categorical(&mut object),
    };
    object.close();
    Some((Parameter { domain: domain?, when: BTreeMap::new() }, when))
}

fn scale(object: &mut Object) -> Option<Scale> {
    match object.get("scale") {
        None => Some(Scale::Linear),
        Some(field) => field.choice("scale", &[("linear", Scale::Linear), ("log", Scale::Log)], &["symlog", "reverse_log", "logit"]),
    }
}

fn float(object: &mut Object) -> Option<Domain> {
    let (min, max) = (object.required("min"), object.required("max"));
    let (low, high) = (min.as_ref().and_then(Field::float), max.as_ref().and_then(Field::float));
    let scale = scale(object);
    let given = object.get("step");
    let step = given.as_ref().and_then(Field::float);
    let (low, high, scale, min) = (low?, high?, scale?, min?);
    if low > high {
        return min.wrong(format!("must be at most max: {low} is above {high}"));
    }
    if scale == Scale::Log && low <= 0.0 {
        return min.wrong("must be above 0, since the scale is log");
    }
    if let Some(field) = given {
        let step = step?;
        if scale == Scale::Log {
            return field.wrong("needs a linear scale; leave it out, or list the values as a categorical");
        }
        if step <= 0.0 {
            return field.wrong("must be above 0");
        }
        let steps = (high - low) / step;
        // A relative tolerance: 0.1 is not a binary number.
        if !(steps <= 1e9 && (steps - steps.round()).abs() <= 1e-9 * steps.max(1.0)) {
            return field.wrong(format!("does not divide the range from {low} to {high}"));
        }
    }
    Some(Domain::Float { min: low, max: high, scale, step })
}

fn int(object: &mut Object) -> Option<Domain> {
    const RANGE: RangeInclusive<i64> = -EXACT..=EXACT;
    let (min, max) = (object.required("min"), object.required("max"));
    let (low, high) = (min.as_ref().and_then(|field| field.int(RANGE)), max.as_ref().and_then(|field| field.int(RANGE)));
    let scale = scale(object);
    let given = object.get("step");
    let step = given.as_ref().and_then(|field| field.int(1..=EXACT));
    let (low, high, scale, min) = (low?, high?, scale?, min?);
    if low > high {
        return min.wrong(format!("must be at most max: {low} is above {high}"));
    }
    if scale == Scale::Log && low <= 0 {
        return min.wrong("must be above 0, since the scale is log");
    }
    if let Some(field) = given {
        let step = step?;
        if scale == Scale::Log && step != 1 {
            return field.wrong("needs a linear scale; leave it out, or list the values as a categorical");
        }
        if (high - low) % step != 0 {
            return field.wrong(format!("does not divide the range from {low} to {high}"));
        }
    }
    Some(Domain::Int { min: low, max: high, scale, step: step.filter(|step| *step != 1) })
}

fn categorical(object: &mut Object) -> Option<Domain> {
    let field = object.required("values")?;
    let values = values(&field)?;
    Some(Domain::Categorical { values })
}

/// One to `MAX_CATEGORIES` different plain values.
fn values(field: &Field) -> Option<Vec<ParamValue>> {
    let items = field.list(MAX_CATEGORIES)?;
    if items.is_empty() {
        return field.wrong("must have at least one value");
    }
    let mut values: Vec<ParamValue> = Vec::with_capacity(items.len());
    let mut whole = true;
    for item in &items {
        let value = match item.value() {
            Value::Bool(truth) => Some(ParamValue::Bool(*truth)),
            Value::String(text) if text.is_empty() => Some(ParamValue::Text(String::new())),
            Value::String(_) => item.text(200).map(|text| ParamValue::Text(text.to_string())),
            Value::Number(number) if number.is_f64() => item.float().map(ParamValue::Float),
            Value::Number(_) => item.int(-EXACT..=EXACT).map(ParamValue::Int),
            _ => item.wrong("must be a text, a number, true or false"),
        };
        match value {
            Some(value) if values.iter().any(|other| same(other, &value)) => {
                whole = item.wrong("stands in the list twice").unwrap_or(false)
            }
            Some(value) => values.push(value),
            None => whole = false,
        }
    }
    whole.then_some(values)
}

/// The condition of `name`: parents that exist and values that they can take.
fn condition(name: &str, field: &Field, space: &SearchSpace) -> BTreeMap<String, Vec<ParamValue>> {
    let mut when = BTreeMap::new();
    for (parent, field) in field.object().and_then(|object| object.entries(MAX_PARAMETERS)).unwrap_or_default() {
        let Some(other) = space.get(parent) else {
            field.wrong::<()>(nearest::unknown("parameter", parent, space.keys().map(String::as_str)));
            continue;
        };
        if parent == name {
            field.wrong::<()>("a parameter cannot be a condition of itself");
            continue;
        }
        let Some(wanted) = values(&field) else { continue };
        if cardinality(&other.domain).is_none() {
            field.wrong::<()>(format!("'{parent}' is continuous, so it never takes an exact value; give it a step or make it categorical"));
            continue;
        }
        let taken = wanted.iter().filter_map(|value| {
            let own = own_value(&other.domain, value);
            if own.is_none() {
                field.wrong::<()>(format!("'{parent}' never takes {}", shown(value)));
            }
            own
        });
        when.insert(parent.to_string(), taken.collect());
    }
    when
}

/// `value` as the domain, which has a cardinality, writes it; None: it is not among its values.
fn own_value(domain: &Domain, value: &ParamValue) -> Option<ParamValue> {
    let index = match *domain {
        Domain::Categorical { ref values } => values.iter().position(|other| same(other, value))? as f64,
        Domain::Int { min, step, .. } => (value.as_f64()? - min as f64) / step.unwrap_or(1) as f64,
        Domain::Float { min, step, .. } => (value.as_f64()? - min) / step.unwrap_or(1.0),
    };
    let near = index.round();
    let within = near >= 0.0 && cardinality(domain).is_some_and(|count| near < count as f64);
    (within && (index - near).abs() < 1e-9).then(|| nth(domain, near as u64))
}

fn shown(value: &ParamValue) -> String {
    match value {
        ParamValue::Bool(truth) => truth.to_string(),
        ParamValue::Int(number) => number.to_string(),
        ParamValue::Float(number) => number.to_string(),
        ParamValue::Text(text) => format!("'{text}'"),
    }
}

/// Notes the parameters whose conditions lead back to themselves.
fn circles(field: &Field, space: &SearchSpace) {
    let ordered: BTreeSet<&str> = Space::new(space, &[]).parameters().map(|(name, _)| name).collect();
    let all_known = space.values().all(|parameter| parameter.when.keys().all(|parent| space.contains_key(parent)));
    let stuck: Vec<&str> = space.keys().map(String::as_str).filter(|name| !ordered.contains(name)).collect();
    if all_known && !stuck.is_empty() {
        field.wrong::<()>(format!("conditions form a circle among {}", stuck.join(", ")));
    }
}

/// Constraints that parse and whose names and kinds fit the space.
pub(super) fn constraints(field: &Field, space: Option<&SearchSpace>) -> Option<Vec<String>> {
    let mut constraints = Vec::new();
    for item in field.list(MAX_CONSTRAINTS)? {
        let Some(text) = item.text(crate::search::constraint::MAX_BYTES) else { continue };
        let checked = Constraint::parse(text).and_then(|constraint| space.map_or(Ok(()), |space| constraint.check(space)));
        match checked {
            Ok(()) => constraints.push(text.to_string()),
            Err(message) => item.wrong::<()>(message).unwrap_or(()),
        }
    }
    Some(constraints)
}
