//! Pollux (Qiao et al., OSDI 2021, section 4.2): the widths that maximise the power mean of all trials' speed-ups over their fair
//! shares, a trial whose ranks would change counting less the more recent its last change. With p = -1 that is the harmonic mean:
//! a balance of throughput and fairness.
//!
//! Two searches for the same optimum: the paper's genetic one, whose population is an explicit memory, and an exact one: the power
//! mean is separable, so the dynamic program of `jsa` finds its maximum. Widths only: `place` packs each trial onto as few nodes
//! as hold it, which is what the speed tables assume.

mod genetic;

use serde::{Deserialize, Serialize};

use super::elastic::{self, Ladder, running_first};
use super::{Allocation, Capacity, Claim, ClaimId, PolicyMemory, jsa};
use crate::model::width::Width;
use crate::rng::Seed;

/// Added to every speed-up, so that a trial without devices is very bad but not infinitely so.
const FLOOR: f64 = 1e-3;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Search {
    Exact,
    Genetic { population: u32, generations: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Exponent of the mean; 1 is the sum of speed-ups, the more negative the fairer.
    pub power: f64,
    pub search: Search,
    /// A resize must end its trial this many times sooner, restart cost included; the paper relies on its penalty alone (1).
    pub gain: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { power: -1.0, search: Search::Exact, gain: super::GAIN }
    }
}

/// The best of the last population: each claim's devices in each of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    pub population: Vec<(ClaimId, Vec<u16>)>,
}

pub(super) fn allocate(config: &Config, claims: &[Claim], capacity: Capacity, memory: &PolicyMemory, seed: Seed) -> Allocation {
    let mut kept = PolicyMemory::None;
    let grants = elastic::allocate(claims, capacity, running_first, config.gain, |field, devices| {
        let worth = tables(config, field, devices);
        match config.search {
            Search::Exact => {
                let tables: Vec<&[(u32, f64)]> = worth.iter().map(Vec::as_slice).collect();
                jsa::best(&tables, devices).unwrap_or_else(|| field.iter().map(|(_, ladder)| ladder.least()).collect())
            }
            Search::Genetic { population, generations } => {
                let ids: Vec<ClaimId> = field.iter().map(|(claim, _)| claim.id).collect();
                let current: Vec<u32> = field.iter().map(|(claim, _)| claim.current.ranks()).collect();
                let before = if let PolicyMemory::Pollux(memory) = memory { memory.clone() } else { Memory::default() };
                let arena = genetic::Arena { ids, current, worth, devices };
                let (best, memory) = arena.search(population, generations, &before, seed);
                kept = PolicyMemory::Pollux(memory);
                best
            }
        }
    });
    Allocation { grants, memory: kept }
}

/// What each width of each claim adds to the sum that orders power means.
fn tables(config: &Config, field: &[(&Claim, Ladder)], devices: u32) -> Vec<Vec<(u32, f64)>> {
    let fair = devices.div_ceil((field.len() as u32).max(1)).max(1);
    let table = |(claim, ladder): &(&Claim, Ladder)| {
        let fair = claim.speed(Width::Devices(fair.min(u32::from(u16::MAX)) as u16)).max(f64::MIN_POSITIVE);
        let worth = |&(devices, speed): &(u32, f64)| {
            let kept = if Width::Devices(devices as u16) == claim.current { 1.0 } else { claim.reallocation.clamp(0.0, 1.0) };
            (devices, power_term(speed / fair * kept + FLOOR, config.power))
        };
        ladder.0.iter().map(worth).collect()
    };
    field.iter().map(table).collect()
}

/// Monotone in `x` and additive over trials: maximising its sum maximises the power mean.
fn power_term(x: f64, power: f64) -> f64 {
    match power {
        0.0 => x.ln(),
        p if p < 0.0 => -x.powf(p),
        p => x.powf(p),
    }
}
