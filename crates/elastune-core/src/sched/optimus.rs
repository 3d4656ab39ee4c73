//! Optimus (Peng et al., EuroSys 2018, section 4.1): every trial gets its least width, then device after device goes to the trial
//! whose end it brings nearest, by the most seconds saved a device.

use super::elastic::{self, climb, running_first};
use super::{Capacity, Claim, Grant};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// A resize must end its trial this many times sooner, restart cost included; the paper's resizes are free (1).
    pub gain: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { gain: super::GAIN }
    }
}

pub(super) fn allocate(config: &Config, claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    elastic::allocate(claims, capacity, running_first, config.gain, |field, devices| climb(field, devices, saved_s))
}

/// Seconds that a step up saves for each device it takes.
fn saved_s(claim: &Claim, (now, speed): (u32, f64), (next, faster): (u32, f64)) -> f64 {
    (claim.remaining_s / speed - claim.remaining_s / faster) / f64::from(next - now)
}
