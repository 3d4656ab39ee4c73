//! Job scalability (Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020, section 4): the exact dynamic
//! program over P(j, K) = max over k of P(j-1, K-k) + gain_j(k), for any table of gains. Trials are admitted in their order until
//! one doesn't fit. Where batch sizes may change the tables hold the best batch's speed at each width. Also the exact solver of
//! other separable aims, and the oracle of other policies' tests.

use super::elastic::{self, running_first};
use super::{Capacity, Claim, Grant};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// A resize must end its trial this many times sooner, restart cost included.
    pub gain: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { gain: super::GAIN }
    }
}

pub(super) fn allocate(config: &Config, claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    elastic::allocate(claims, capacity, running_first, config.gain, |field, devices| {
        let tables: Vec<&[(u32, f64)]> = field.iter().map(|(_, ladder)| ladder.0.as_slice()).collect();
        best(&tables, devices).unwrap_or_else(|| field.iter().map(|(_, ladder)| ladder.least()).collect())
    })
}

/// Devices for each table (a choice of (devices, gain) each must make one of) that give the greatest sum of gains with at most
/// `devices` in all; of equals the fewest devices for the last, then for the one before. None: not even the least fit.
/// O(tables x devices x choices).
pub fn best(tables: &[&[(u32, f64)]], devices: u32) -> Option<Vec<u32>> {
    let width = devices as usize + 1;
    let mut value = vec![0.0f64; width];
    let mut chosen = vec![u32::MAX; tables.len() * width];
    for (j, table) in tables.iter().enumerate() {
        let mut next = vec![f64::NEG_INFINITY; width];
        for (at, choice) in chosen[j * width..(j + 1) * width].iter_mut().enumerate() {
            for &(k, gain) in table.iter().filter(|(k, _)| *k as usize <= at) {
                let sum = value[at - k as usize] + gain;
                if sum > next[at] {
                    (next[at], *choice) = (sum, k);
                }
            }
        }
        value = next;
    }
    let mut at = (0..width).fold(0, |best, at| if value[at] > value[best] { at } else { best });
    if value[at] == f64::NEG_INFINITY {
        return None;
    }
    let mut got = vec![0; tables.len()];
    for j in (0..tables.len()).rev() {
        got[j] = chosen[j * width + at];
        at -= got[j] as usize;
    }
    Some(got)
}
