//! A search space as the unit cube: one dimension a parameter, decoded with scales, steps and conditions. Used by every searcher.

use rand_chacha::rand_core::RngCore;

use super::constraint::Constraint;
use crate::model::space::{Domain, ParamValue, Parameter, Params, Scale, SearchSpace};
use crate::rng::Seed;

/// Draws from which `anchor` looks for a point that keeps all constraints, at most.
const ANCHOR_DRAWS: usize = 10_000;
/// Work that `anchor` may do, in parameters decoded.
const ANCHOR_WORK: usize = 400_000;
/// Halvings of the way back to the anchor.
const HALVINGS: u32 = 24;

/// A validated space made ready for drawing. Dimension i belongs to the i-th parameter by name, present or not.
#[derive(Debug, Clone)]
pub struct Space<'a> {
    /// (dimension, name, parameter), parents first.
    parameters: Vec<(usize, &'a str, &'a Parameter)>,
    constraints: Vec<Constraint>,
}

impl<'a> Space<'a> {
    /// Parameters whose conditions form a circle and constraints that don't parse are left out; `validate` refuses both.
    pub fn new(space: &'a SearchSpace, constraints: &[String]) -> Self {
        let mut parameters: Vec<(usize, &str, &Parameter)> = Vec::with_capacity(space.len());
        let mut left: Vec<_> =
            space.iter().enumerate().map(|(dimension, (name, parameter))| (dimension, name.as_str(), parameter)).collect();
        while !left.is_empty() {
            let placed = |name: &str| parameters.iter().any(|(_, other, _)| *other == name);
            let (ready, waiting): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(_, _, parameter)| parameter.when.keys().all(|parent| placed(parent)));
            if ready.is_empty() {
                break;
            }
            parameters.extend(ready);
            left = waiting;
        }
        Space { parameters, constraints: constraints.iter().filter_map(|text| Constraint::parse(text).ok()).collect() }
    }

    pub fn dimensions(&self) -> usize {
        self.parameters.iter().map(|(dimension, _, _)| dimension + 1).max().unwrap_or(0)
    }

    /// Parents before children.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a Parameter)> {
        self.parameters.iter().map(|(_, name, parameter)| (*name, *parameter))
    }

    /// As `parameters`, with each one's dimension.
    pub(super) fn dimensioned(&self) -> impl Iterator<Item = (usize, &'a str, &'a Parameter)> {
        self.parameters.iter().copied()
    }

    /// The point's parameters. `unit`: a number in [0, 1) for each dimension.
    pub fn decode(&self, unit: &[f64]) -> Params {
        let mut params = Params::new();
        for (dimension, name, parameter) in &self.parameters {
            if applies(parameter, &params) {
                params.insert((*name).to_string(), value(&parameter.domain, unit[*dimension]));
            }
        }
        params
    }

    /// Whether all constraints hold.
    pub fn allows(&self, params: &Params) -> bool {
        self.constraints.iter().all(|constraint| constraint.holds(params))
    }

    /// A uniform point from `seed`'s stream.
    pub fn draw(&self, seed: Seed) -> Vec<f64> {
        let mut rng = seed.rng();
        // 53 random bits, so that the numbers are ours and not those of a library's version.
        (0..self.dimensions()).map(|_| (rng.next_u64() >> 11) as f64 * 2f64.powi(-53)).collect()
    }

    /// A point that keeps all constraints: the first among the middle and a fixed list of draws. A function of the space
    /// alone, so that what `validate` found when the study was created is found again. None: there is likely no such point.
    pub fn anchor(&self) -> Option<Vec<f64>> {
        let dimensions = self.dimensions();
        let draws = (ANCHOR_WORK / dimensions.max(1)).clamp(1_000, ANCHOR_DRAWS);
        let stream = Seed(0);
        let points = (0..draws as u64).map(|draw| self.draw(stream.child("anchor", draw)));
        std::iter::once(vec![0.5; dimensions]).chain(points).find(|point| self.allows(&self.decode(point)))
    }

    /// Moves `point` towards `anchor` until it keeps all constraints.
    pub fn mend(&self, point: &[f64], anchor: &[f64]) -> Params {
        for halving in 1..=HALVINGS {
            let part = 0.5f64.powi(halving as i32);
            let between: Vec<f64> = point.iter().zip(anchor).map(|(point, anchor)| anchor + (point - anchor) * part).collect();
            let params = self.decode(&between);
            if self.allows(&params) {
                return params;
            }
        }
        self.decode(anchor)
    }
}

/// Whether the parameter exists beside these: every parent is there with one of the wanted values.
pub fn applies(parameter: &Parameter, params: &Params) -> bool {
    parameter.when.iter().all(|(parent, values)| params.get(parent).is_some_and(|value| values.iter().any(|wanted| same(wanted, value))))
}

/// Equal as a user sees it: 1 and 1.0 are the same value.
pub fn same(left: &ParamValue, right: &ParamValue) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

/// How many values a domain has; None: a continuum.
pub fn cardinality(domain: &Domain) -> Option<u64> {
    match domain {
        Domain::Float { min, max, .. } if min == max => Some(1),
        Domain::Float { min, max, step, .. } => step.map(|step| ((max - min) / step).round() as u64 + 1),
        Domain::Int { min, max, step, .. } => Some((max.wrapping_sub(*min) as u64) / step.unwrap_or(1).unsigned_abs().max(1) + 1),
        Domain::Categorical { values } => Some(values.len() as u64),
    }
}

/// The `index`-th value of a domain that has a cardinality; past the end, the last.
pub fn nth(domain: &Domain, index: u64) -> ParamValue {
    match domain {
        Domain::Float { min, max, step, .. } => {
            let step = step.unwrap_or(0.0);
            ParamValue::Float(tidy(min + index as f64 * step, step).clamp(*min, *max))
        }
        Domain::Int { min, max, step, .. } => {
            let value = i128::from(*min) + i128::from(index) * i128::from(step.unwrap_or(1));
            ParamValue::Int(value.min(i128::from(*max)) as i64)
        }
        Domain::Categorical { values } => values[(index as usize).min(values.len() - 1)].clone(),
    }
}

/// The value at `unit` in [0, 1]: linear or logarithmic between the bounds; on a lattice each value owns the part of the
/// scale that is nearest to it, so that the ends are as likely as the rest.
pub fn value(domain: &Domain, unit: f64) -> ParamValue {
    match *domain {
        Domain::Categorical { .. } => nth(domain, pick(unit, cardinality(domain).unwrap_or(1))),
        Domain::Float { min, max, scale: Scale::Linear, step: None } => ParamValue::Float(between(min, max, unit).clamp(min, max)),
        Domain::Float { min, max, scale: Scale::Log, .. } => ParamValue::Float(log_between(min, max, unit).clamp(min, max)),
        Domain::Float { scale: Scale::Linear, .. } | Domain::Int { scale: Scale::Linear, .. } => {
            nth(domain, pick(unit, cardinality(domain).unwrap_or(1)))
        }
        Domain::Int { min, max, scale: Scale::Log, .. } => {
            let drawn = log_between(min as f64 - 0.5, max as f64 + 0.5, unit);
            ParamValue::Int((drawn.round() as i64).clamp(min, max))
        }
    }
}

/// The lattice value that a person would write: 0.3 rather than 0.1 + 2 * 0.1.
fn tidy(value: f64, step: f64) -> f64 {
    if value.abs() < step * 1e-9 { 0.0 } else { format!("{value:.14e}").parse().unwrap_or(value) }
}

fn pick(unit: f64, count: u64) -> u64 {
    ((unit * count as f64) as u64).min(count - 1)
}

/// Never overflows, unlike `min + unit * (max - min)`.
fn between(min: f64, max: f64, unit: f64) -> f64 {
    min * (1.0 - unit) + max * unit
}

fn log_between(min: f64, max: f64, unit: f64) -> f64 {
    between(min.ln(), max.ln(), unit).exp()
}
