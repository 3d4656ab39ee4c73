//! From parameters back to the unit cube, and what a model needs to know of each dimension. Used by `History` and by every
//! searcher that learns.

use super::history::Point;
use super::space::{Space, applies, cardinality, same};
use crate::model::space::{Domain, ParamValue, Params, Scale};

/// Values above which a lattice is as good as a continuum.
const FINE: u64 = 10_000;

/// What kind of values a dimension of the unit cube has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Axis {
    /// One value only.
    Fixed,
    Real,
    /// `count` values in order, each owning 1/count of the scale.
    Lattice {
        count: u32,
    },
    /// Integers from `min` to `max` on a logarithmic scale: each owns what rounds to it.
    LogInts {
        min: f64,
        max: f64,
    },
    /// `count` values without an order.
    Choice {
        count: u32,
    },
}

impl Axis {
    fn of(domain: &Domain) -> Axis {
        let lattice = |count: u64| match count {
            1 => Axis::Fixed,
            2..=FINE => Axis::Lattice { count: count as u32 },
            _ => Axis::Real,
        };
        match (domain, cardinality(domain)) {
            (_, Some(1)) => Axis::Fixed,
            (Domain::Categorical { values }, _) => Axis::Choice { count: values.len() as u32 },
            (Domain::Int { min, max, scale: Scale::Log, .. }, Some(..=FINE)) => Axis::LogInts { min: *min as f64, max: *max as f64 },
            (Domain::Int { scale: Scale::Log, .. } | Domain::Float { scale: Scale::Log, .. }, _) => Axis::Real,
            (_, Some(count)) => lattice(count),
            (_, None) => Axis::Real,
        }
    }

    /// The part of [0, 1] that has the same value as `unit`, where that is more than a point.
    pub fn cell(&self, unit: f64) -> Option<(f64, f64)> {
        match *self {
            Axis::Fixed => Some((0.0, 1.0)),
            Axis::Real => None,
            Axis::Lattice { count } | Axis::Choice { count } => {
                let count = f64::from(count);
                let index = (unit * count).floor().clamp(0.0, count - 1.0);
                Some((index / count, (index + 1.0) / count))
            }
            Axis::LogInts { min, max } => {
                let (low, high) = ((min - 0.5).ln(), (max + 0.5).ln());
                let value = (low + unit * (high - low)).exp().round().clamp(min, max);
                Some((((value - 0.5).ln() - low) / (high - low), ((value + 0.5).ln() - low) / (high - low)))
            }
        }
    }

    /// The middle of the cell of `unit`, or `unit` itself: one number for each value.
    pub fn snap(&self, unit: f64) -> f64 {
        self.cell(unit).map_or(unit, |(low, high)| (low + high) / 2.0)
    }
}

impl Space<'_> {
    /// Each dimension's axis.
    pub fn axes(&self) -> Vec<Axis> {
        let mut axes = vec![Axis::Fixed; self.dimensions()];
        for (dimension, _, parameter) in self.dimensioned() {
            axes[dimension] = Axis::of(&parameter.domain);
        }
        axes
    }

    /// Where the parameters lie: `decode`'s inverse, up to single precision. Values that the space doesn't have, which a user may
    /// have asked for, go to the nearest that it has, or are taken for absent.
    pub fn encode(&self, params: &Params) -> Point {
        let mut point = vec![None; self.dimensions()];
        for (dimension, name, parameter) in self.dimensioned() {
            if applies(parameter, params) {
                point[dimension] = params.get(name).and_then(|value| unit(&parameter.domain, value)).map(|unit| unit as f32);
            }
        }
        point
    }
}

/// `space::value`'s inverse: the middle of what has this value.
fn unit(domain: &Domain, value: &ParamValue) -> Option<f64> {
    if let Domain::Categorical { values } = domain {
        let index = values.iter().position(|other| same(other, value))?;
        return Some((index as f64 + 0.5) / values.len() as f64);
    }
    let value = value.as_f64().filter(|value| value.is_finite())?;
    let part = |value: f64, min: f64, max: f64| if max > min { ((value - min) / (max - min)).clamp(0.0, 1.0) } else { 0.5 };
    Some(match *domain {
        Domain::Categorical { .. } => return None,
        Domain::Float { min, max, scale: Scale::Log, .. } => part(value.max(min).ln(), min.ln(), max.ln()),
        // By halves, since max - min may overflow.
        Domain::Float { min, max, step: None, .. } => part(value / 2.0, min / 2.0, max / 2.0),
        Domain::Int { min, max, scale: Scale::Log, .. } => {
            let (low, high) = (min as f64 - 0.5, max as f64 + 0.5);
            part(value.max(min as f64).ln(), low.ln(), high.ln())
        }
        Domain::Float { min, max, .. } => centred(part(value / 2.0, min / 2.0, max / 2.0), domain),
        Domain::Int { min, max, .. } => centred(part(value, min as f64, max as f64), domain),
    })
}

/// A lattice's value at `part` of the way from its first to its last, in the middle of what it owns.
fn centred(part: f64, domain: &Domain) -> f64 {
    let count = cardinality(domain).unwrap_or(1) as f64;
    ((part * (count - 1.0)).round() + 0.5) / count
}
