//! Scheduling policies: how many devices each claim gets. `decide` calls `allocate` once between studies and once within each;
//! where the devices lie is `place`'s question.

pub mod afs;
mod elastic;
pub mod fifo;
pub mod fluid;
pub mod jsa;
pub mod max_min;
pub mod optimus;
pub mod pollux;
pub mod srtf;
#[cfg(test)]
mod tests;
pub mod tiresias;

use serde::{Deserialize, Serialize};

use crate::model::ids::{StudyId, TrialId};
use crate::model::study::PolicyName;
use crate::model::width::Width;
use crate::rng::Seed;
use crate::time::Span;

/// A resize must make its trial finish this many times sooner, restart cost included (HyperSched: Liaw et al., SoCC 2019).
pub const GAIN: f64 = 1.1;

/// Part of a device that all legal shares (1, 1/2, 1/3, 1/4) are whole multiples of, so that sums are exact.
pub const UNITS_PER_DEVICE: u32 = 12;

/// Twelfths of a device; a share that is no whole number of them counts as the next larger.
pub fn units(width: Width) -> u32 {
    match width {
        Width::Fraction(parts) => UNITS_PER_DEVICE.div_ceil(u32::from(parts.max(1))),
        Width::Devices(devices) => UNITS_PER_DEVICE * u32::from(devices),
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimId {
    Study(StudyId),
    Trial(TrialId),
    /// A trial that the study may still propose; the number tells them apart.
    Open(StudyId, u32),
}

/// Where a claim stands in the queue of its study, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Has slots by the current plan.
    Running,
    /// Has trained before (promoted, preempted, lost).
    Resuming,
    /// Never started.
    New,
    /// Not yet proposed.
    Open,
}

/// What a trial (or, between studies, a study) could use.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub id: ClaimId,
    pub standing: Standing,
    /// Breaks ties: a trial's number, a study's place by age.
    pub number: u64,
    /// Legal widths, ascending, and the speed at each relative to width 1: monotone, concave below 1 and from 1 up.
    /// Empty for a study.
    pub speedup: Vec<(Width, f64)>,
    /// Least useful width (for a study: what its running trials need at their least).
    pub min: Width,
    pub max: Width,
    /// Device-seconds at width 1 until it halts.
    pub remaining_s: f64,
    /// Device-seconds at width 1 that it has done.
    pub attained_s: f64,
    /// By the current plan; zero if nothing. For a study: what it cannot give up now.
    pub current: Width,
    /// Must keep `current`: in mid-switch, or holding for a verdict.
    pub frozen: bool,
    /// Long enough since its last resize (`fluid::SETTLED_RESULTS`, `fluid::settles_after`) for another that only saves time.
    pub settled: bool,
    /// Training time that a change of its ranks costs.
    pub restart_cost: Span,
    /// Part of its speed that is left, over time, if its ranks change now: Pollux's penalty for those that changed lately. 0..=1.
    pub reallocation: f64,
    pub weight: f64,
    pub priority: i32,
}

impl Claim {
    /// Speed at `width` relative to width 1, linear between the table's points and flat after the last.
    pub fn speed(&self, width: Width) -> f64 {
        self.speed_at(width.devices())
    }

    pub(crate) fn speed_at(&self, devices: f64) -> f64 {
        let mut last = (0.0, 0.0);
        for (width, speed) in &self.speedup {
            let at = width.devices();
            if devices <= at {
                return last.1 + (speed - last.1) * (devices - last.0) / (at - last.0);
            }
            last = (at, *speed);
        }
        last.1
    }

    /// Seconds to its halt at `width`; infinite at none.
    pub fn seconds_left(&self, width: Width) -> f64 {
        if self.remaining_s <= 0.0 { 0.0 } else { self.remaining_s / self.speed(width) }
    }

    /// The order in which a study's claims are served: running ones first, then those that have trained, each by number.
    pub(crate) fn queue_key(&self) -> (bool, Standing, u64, ClaimId) {
        (!self.frozen, self.standing, self.number, self.id)
    }
}

/// What may be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub devices: u32,
    /// Most claims that may hold slots at once.
    pub claims: u32,
}

impl Capacity {
    pub(crate) fn units(self) -> u32 {
        self.devices.saturating_mul(UNITS_PER_DEVICE)
    }
}

/// Why a claim got its width, as far as the policy knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// It is what the policy wants.
    Chosen,
    /// Mid-switch or holding for a verdict.
    Frozen,
    /// Growing to `to` would finish only `gain` times sooner, restart cost included.
    SmallGain { to: Width, gain: f64 },
    /// Its last resize is too recent.
    Unsettled,
    /// Nothing was left for it.
    NoCapacity,
    /// As many trials as the study may run at once are running.
    ParallelLimit,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grant {
    pub width: Width,
    pub why: Why,
}

/// What a policy answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// One a claim, in the order of the claims.
    pub grants: Vec<Grant>,
    /// For the next call.
    pub memory: PolicyMemory,
}

/// A policy and its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PolicyConfig {
    /// Between studies.
    Between,
    MaxMin {
        gain: f64,
    },
    Fifo,
    Fluid,
    Srtf(srtf::Config),
    Tiresias(tiresias::Config),
    Optimus(optimus::Config),
    Afs(afs::Config),
    Jsa(jsa::Config),
    Pollux(pollux::Config),
}

/// What a policy keeps from one call to the next.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "snake_case")]
pub enum PolicyMemory {
    #[default]
    None,
    Pollux(pollux::Memory),
}

impl PolicyMemory {
    pub fn is_none(&self) -> bool {
        *self == PolicyMemory::None
    }
}

impl From<PolicyName> for PolicyConfig {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Fifo => PolicyConfig::Fifo,
            PolicyName::Fluid => PolicyConfig::Fluid,
            PolicyName::MaxMin => PolicyConfig::MaxMin { gain: GAIN },
            PolicyName::Srtf => PolicyConfig::Srtf(srtf::Config::default()),
            PolicyName::Tiresias => PolicyConfig::Tiresias(tiresias::Config::default()),
            PolicyName::Optimus => PolicyConfig::Optimus(optimus::Config::default()),
            PolicyName::Afs => PolicyConfig::Afs(afs::Config::default()),
            PolicyName::AfsP => PolicyConfig::Afs(afs::Config { lengths_known: false, ..afs::Config::default() }),
            PolicyName::Jsa => PolicyConfig::Jsa(jsa::Config::default()),
            PolicyName::Pollux => PolicyConfig::Pollux(pollux::Config::default()),
        }
    }
}

/// Never hands out more than `capacity`, except that frozen claims keep what they have. Independent of the order of `claims`.
pub fn allocate(config: &PolicyConfig, claims: &[Claim], capacity: Capacity, memory: &PolicyMemory, seed: Seed) -> Allocation {
    let grants = match config {
        PolicyConfig::Between => max_min::between(claims, capacity),
        PolicyConfig::MaxMin { gain } => max_min::within(claims, capacity, *gain),
        PolicyConfig::Fifo => fifo::allocate(claims, capacity),
        PolicyConfig::Fluid => fluid::allocate(claims, capacity),
        PolicyConfig::Srtf(config) => srtf::allocate(config, claims, capacity),
        PolicyConfig::Tiresias(config) => tiresias::allocate(config, claims, capacity),
        PolicyConfig::Optimus(config) => optimus::allocate(config, claims, capacity),
        PolicyConfig::Afs(config) => afs::allocate(config, claims, capacity),
        PolicyConfig::Jsa(config) => jsa::allocate(config, claims, capacity),
        PolicyConfig::Pollux(config) => return pollux::allocate(config, claims, capacity, memory, seed),
    };
    Allocation { grants, memory: PolicyMemory::None }
}
