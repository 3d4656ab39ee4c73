//! Integer milliseconds: the only time that decisions see; passed in by whoever calls them (service or simulator).

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since the Unix epoch (or since a simulation's start).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Time(pub i64);

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Span(pub i64);

impl Span {
    pub const ZERO: Span = Span(0);
    pub const fn from_secs(seconds: i64) -> Self {
        Span(seconds * 1000)
    }
    /// Rounds to the nearest millisecond; NaN and negative values become zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        if seconds.is_finite() && seconds > 0.0 { Span((seconds * 1000.0).round() as i64) } else { Span::ZERO }
    }
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl std::ops::Add<Span> for Time {
    type Output = Time;
    fn add(self, rhs: Span) -> Time {
        Time(self.0.saturating_add(rhs.0))
    }
}

impl std::ops::Sub for Time {
    type Output = Span;
    fn sub(self, rhs: Time) -> Span {
        Span(self.0.saturating_sub(rhs.0))
    }
}
