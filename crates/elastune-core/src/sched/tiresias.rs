//! Tiresias (Gu et al., NSDI 2019, section 3.2): least attained service in two discrete queues. Lengths needn't be known: a trial
//! starts in the first queue and falls to the second once it has used `demote_after_s`; within a queue the earlier goes first, so
//! that trials of an age don't stop each other in turn. Widths are rigid.

use std::cmp::Ordering;

use super::{Capacity, Claim, Grant, Standing};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Device-seconds after which a trial gives way to those that have had less.
    pub demote_after_s: f64,
}

impl Default for Config {
    fn default() -> Self {
        // Tiresias's own: 16 GPU-hours would be whole studies here; an hour tells long trials from short ones.
        Config { demote_after_s: 3600.0 }
    }
}

fn queue(config: &Config, a: &Claim, b: &Claim) -> Ordering {
    let key = |claim: &Claim| {
        (!claim.frozen, claim.standing == Standing::Open, claim.attained_s >= config.demote_after_s, claim.number, claim.id)
    };
    key(a).cmp(&key(b))
}

/// One after another, each at its least width, as long as that fits; a later one that fits may pass one that doesn't.
pub(super) fn allocate(config: &Config, claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    super::fifo::in_turn(claims, capacity, |a, b| queue(config, a, b))
}
