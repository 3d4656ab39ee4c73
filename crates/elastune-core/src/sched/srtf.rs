//! Shortest remaining time first (Schrage, Operations Research 1968; the baseline SRTF of AFS, NSDI 2021): the trial that would end
//! soonest goes first, and stops a longer one for it. What is left over then widens trials in the same order.

use super::elastic::{self, Ladder};
use super::{Capacity, Claim, Grant, Standing};
use std::cmp::Ordering;

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

/// A running trial counts as shorter by what stopping and resuming would cost, so that near ties stop nobody. A slot for a trial
/// that does not exist yet stops nobody either.
fn shortest(a: &Claim, b: &Claim) -> Ordering {
    let key = |claim: &Claim| claim.seconds_left(claim.min.max(crate::model::width::Width::ONE)) - running_bonus_s(claim);
    let open = |claim: &Claim| claim.standing == Standing::Open;
    open(a).cmp(&open(b)).then(key(a).total_cmp(&key(b))).then(a.queue_key().cmp(&b.queue_key()))
}

fn running_bonus_s(claim: &Claim) -> f64 {
    if claim.current.is_zero() { 0.0 } else { claim.restart_cost.as_secs_f64() }
}

pub(super) fn allocate(config: &Config, claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    elastic::allocate(claims, capacity, shortest, config.gain, |field, devices| {
        let mut got: Vec<u32> = field.iter().map(|(_, ladder)| ladder.least()).collect();
        let mut left = devices - got.iter().sum::<u32>();
        for ((_, ladder), got) in field.iter().zip(&mut got) {
            let widest = widest(ladder, *got + left);
            left -= widest - *got;
            *got = widest;
        }
        got
    })
}

/// The fastest width of at most `devices`, the least of those as fast.
fn widest(ladder: &Ladder, devices: u32) -> u32 {
    let fitting = ladder.0.iter().filter(|(width, _)| *width <= devices);
    fitting.fold(ladder.0[0], |best, step| if step.1 > best.1 { *step } else { best }).0
}
