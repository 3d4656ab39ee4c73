//! How much of the cluster a trial holds: a fraction of one device or a whole number of devices.

use serde::{Deserialize, Serialize};

/// Written in JSON as a number of devices: 0.5, 0.25, 1, 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// 1/n of one device, n >= 2; one rank.
    Fraction(u8),
    /// Whole devices, one rank each; 0 holds nothing.
    Devices(u16),
}

impl Width {
    pub const ZERO: Width = Width::Devices(0);
    pub const ONE: Width = Width::Devices(1);

    /// Devices held, as a real number.
    pub fn devices(self) -> f64 {
        match self {
            Width::Fraction(n) => 1.0 / f64::from(n.max(1)),
            Width::Devices(n) => f64::from(n),
        }
    }

    /// Data-parallel ranks: a fraction still runs one.
    pub fn ranks(self) -> u32 {
        match self {
            Width::Fraction(_) => 1,
            Width::Devices(n) => u32::from(n),
        }
    }

    pub fn is_zero(self) -> bool {
        self == Width::ZERO
    }

    /// Whether the devices held equal 1/n or a whole number; None otherwise.
    pub fn from_devices(devices: f64) -> Option<Width> {
        if !devices.is_finite() || !(0.0..=f64::from(u16::MAX)).contains(&devices) {
            return None;
        }
        if devices.fract() == 0.0 {
            return Some(Width::Devices(devices as u16));
        }
        let parts = (1.0 / devices).round();
        ((2.0..=255.0).contains(&parts) && (devices * parts - 1.0).abs() < 1e-9).then_some(Width::Fraction(parts as u8))
    }
}

impl Default for Width {
    fn default() -> Self {
        Width::ZERO
    }
}

impl PartialOrd for Width {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Width {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.devices().total_cmp(&other.devices())
    }
}

impl Serialize for Width {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Width::Devices(n) => serializer.serialize_u16(*n),
            Width::Fraction(_) => serializer.serialize_f64(self.devices()),
        }
    }
}

impl<'de> Deserialize<'de> for Width {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let devices = f64::deserialize(deserializer)?;
        Width::from_devices(devices)
            .ok_or_else(|| serde::de::Error::custom(format!("{devices} is neither 1/n nor a whole number of devices")))
    }
}

/// The widths at which `shards` split into fewer rounds: those where ceil(shards / w) drops, up to `max_width`.
/// Of 4: 1, 2, 4; of 8: 1, 2, 3, 4, 8.
pub fn legal_widths(shards: u32, max_width: u32) -> Vec<u16> {
    let mut widths = Vec::new();
    let mut last = u32::MAX;
    for width in 1..=shards.min(max_width).min(u32::from(u16::MAX)) {
        let rounds = shards.div_ceil(width);
        if rounds < last {
            widths.push(width as u16);
            last = rounds;
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_widths_are_those_at_which_the_rounds_drop() {
        assert_eq!(legal_widths(4, 4), [1, 2, 4]);
        assert_eq!(legal_widths(8, 8), [1, 2, 3, 4, 8]);
        assert_eq!(legal_widths(8, 4), [1, 2, 3, 4]);
        assert_eq!(legal_widths(1, 4), [1]);
        assert_eq!(legal_widths(0, 4), Vec::<u16>::new());
    }

    #[test]
    fn widths_round_trip_through_json() {
        for width in [Width::ZERO, Width::ONE, Width::Devices(7), Width::Fraction(2), Width::Fraction(3)] {
            let text = serde_json::to_string(&width).expect("a width is plain");
            assert_eq!(serde_json::from_str::<Width>(&text).expect("it reads back"), width);
        }
        assert!(serde_json::from_str::<Width>("1.37").is_err());
    }
}
