//! AFS (Hwang et al., NSDI 2021, section 4): mean completion time with shares that change at any time. One device after another goes
//! to the trial that wins every comparison; of two, the one that ends first wins if a device gains it more than the other, on
//! the assumption that shares stay as they are until it ends ("apathetic future share").
//!
//! The comparison: a ends first; a wins iff (p_a' - p_a) / p_a >= (p_b' - p_b) / p_b', p the speed now, p' with the device. Steps are
//! those between legal widths, gains are a device's.

use std::cmp::Ordering;

use super::elastic::{self, Ladder};
use super::{Capacity, Claim, Grant, Standing};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// AFS-L: lengths are known. Otherwise AFS-P: who has run less is taken to be shorter.
    pub lengths_known: bool,
    /// A resize must end its trial this many times sooner, restart cost included.
    pub gain: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { lengths_known: true, gain: super::GAIN }
    }
}

/// Device-seconds at width 1 by which lengths are compared.
fn length_s(config: &Config, claim: &Claim) -> f64 {
    if config.lengths_known { claim.remaining_s } else { claim.attained_s }
}

fn shortest(length_s: impl Fn(&Claim) -> f64, a: &Claim, b: &Claim) -> Ordering {
    // Stopping and resuming costs, so near ties stop nobody; a slot for a trial that does not exist yet stops nobody either.
    let key = |claim: &Claim| length_s(claim) - if claim.current.is_zero() { 0.0 } else { claim.restart_cost.as_secs_f64() };
    let open = |claim: &Claim| claim.standing == Standing::Open;
    open(a).cmp(&open(b)).then(key(a).total_cmp(&key(b))).then(a.queue_key().cmp(&b.queue_key()))
}

pub(super) fn allocate(config: &Config, claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    let order: elastic::Order = if config.lengths_known {
        |a, b| shortest(|claim| claim.remaining_s, a, b)
    } else {
        |a, b| shortest(|claim| claim.attained_s, a, b)
    };
    // With no share at all the shorter wins, and who has none beats who has one (unless speeds are exactly linear): so the first
    // devices go to the shortest trials, one least width each, which is how claims are admitted.
    elastic::allocate(claims, capacity, order, config.gain, |field, devices| {
        let racers = field.iter().map(|(claim, ladder)| Racer { ladder, at: 0, length_s: length_s(config, claim) });
        Tournament::new(racers.collect(), devices).run()
    })
}

struct Racer<'a> {
    ladder: &'a Ladder,
    at: usize,
    length_s: f64,
}

impl Racer<'_> {
    fn next(&self) -> Option<(u32, f64)> {
        let (devices, speed) = self.ladder.0[self.at];
        self.ladder.0.get(self.at + 1).map(|next| (next.0 - devices, (next.1 - speed) / f64::from(next.0 - devices)))
    }
    fn speed(&self) -> f64 {
        self.ladder.0[self.at].1
    }
    fn end_s(&self) -> f64 {
        self.length_s / self.speed()
    }

    /// Whether the next device is better with `self` than with `other`; both can take one.
    fn beats(&self, other: &Racer) -> bool {
        let rise = |racer: &Racer| racer.next().map_or(0.0, |(_, rise)| rise);
        let first = self.end_s().total_cmp(&other.end_s()).is_le();
        let (a, b) = if first { (self, other) } else { (other, self) };
        let wins = rise(a) / a.speed() >= rise(b) / (b.speed() + rise(b));
        wins == first
    }
}

/// The fold "the best so far against the next" over claims in order, as a tree: after a grant only one path is played again.
struct Tournament<'a> {
    racers: Vec<Racer<'a>>,
    /// A heap-shaped tree over `leaves` places: who won below; `usize::MAX` is nobody.
    winners: Vec<usize>,
    leaves: usize,
    left: u32,
}

const NOBODY: usize = usize::MAX;

impl<'a> Tournament<'a> {
    fn new(racers: Vec<Racer<'a>>, devices: u32) -> Tournament<'a> {
        let leaves = racers.len().max(1).next_power_of_two();
        let left = devices - racers.iter().map(|racer| racer.ladder.least()).sum::<u32>();
        let mut tree = Tournament { winners: vec![NOBODY; 2 * leaves], leaves, left, racers };
        for i in 0..tree.racers.len() {
            tree.winners[leaves + i] = tree.enters(i);
        }
        for node in (1..leaves).rev() {
            tree.winners[node] = tree.match_at(node);
        }
        tree
    }

    fn enters(&self, i: usize) -> usize {
        let step = self.racers[i].next();
        if step.is_some_and(|(cost, rise)| cost <= self.left && rise > 0.0) { i } else { NOBODY }
    }

    fn match_at(&self, node: usize) -> usize {
        match (self.winners[2 * node], self.winners[2 * node + 1]) {
            (NOBODY, other) | (other, NOBODY) => other,
            (a, b) if self.racers[b].beats(&self.racers[a]) => b,
            (a, _) => a,
        }
    }

    fn replay(&mut self, i: usize) {
        let mut node = self.leaves + i;
        self.winners[node] = self.enters(i);
        while node > 1 {
            node /= 2;
            self.winners[node] = self.match_at(node);
        }
    }

    fn run(mut self) -> Vec<u32> {
        while self.left > 0 && self.winners[1] != NOBODY {
            let i = self.winners[1];
            if let Some((cost, _)) = self.racers[i].next().filter(|(cost, _)| *cost <= self.left) {
                self.left -= cost;
                self.racers[i].at += 1;
            }
            self.replay(i);
        }
        self.racers.iter().map(|racer| racer.ladder.0[racer.at].0).collect()
    }
}

/// Whether a trial of length `a_s` with these speeds (now, next) gets the next device rather than the other.
#[cfg(test)]
pub(super) fn prefers(a_s: f64, a: (f64, f64), b_s: f64, b: (f64, f64)) -> bool {
    let ladder = |(now, next): (f64, f64)| Ladder(vec![(1, now), (2, next)]);
    let (x, y) = (ladder(a), ladder(b));
    Racer { ladder: &x, at: 0, length_s: a_s }.beats(&Racer { ladder: &y, at: 0, length_s: b_s })
}
