//! What the elastic policies share: who is admitted, what a resize must gain, and when it may come. Each of them only says how wide
//! the admitted claims would be from a clean slate.
//!
//! The rule of a resize is HyperSched's (Liaw et al., SoCC 2019): it must end its trial `gain` times sooner, restart cost included.
//! A trial shrinks only where somebody else uses what it gives up.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Capacity, Claim, Grant, UNITS_PER_DEVICE, Why, units};
use crate::model::width::Width;

/// The order in which claims are admitted, and in which ties are broken.
pub(super) type Order = fn(&Claim, &Claim) -> Ordering;

/// What runs is served first and so never gives up its last device to what waits; then by number.
pub(super) fn running_first(a: &Claim, b: &Claim) -> Ordering {
    a.queue_key().cmp(&b.queue_key())
}

/// The widths over which a claim may range: whole devices, its least width first, and the speed at each. Never empty.
#[derive(Debug, Clone)]
pub(super) struct Ladder(pub Vec<(u32, f64)>);

impl Ladder {
    pub fn new(claim: &Claim) -> Ladder {
        let least = claim.min.max(Width::ONE);
        let above = claim.speedup.iter().filter(|(width, _)| *width > least && *width <= claim.max);
        Ladder(std::iter::once((least.ranks(), claim.speed(least))).chain(above.map(|(width, speed)| (width.ranks(), *speed))).collect())
    }
    pub fn least(&self) -> u32 {
        self.0[0].0
    }
}

/// `targets`: admitted claims in order and the devices for all of them; answers devices for each, in sum no more than there are.
/// Of the claims that are not frozen as many are admitted as `capacity` covers at their least widths.
pub(super) fn allocate(
    claims: &[Claim],
    capacity: Capacity,
    order: Order,
    gain: f64,
    targets: impl FnOnce(&[(&Claim, Ladder)], u32) -> Vec<u32>,
) -> Vec<Grant> {
    let mut grants = vec![Grant { width: Width::ZERO, why: Why::NoCapacity }; claims.len()];
    let (mut free, mut slots) = (capacity.units(), capacity.claims);
    let mut queue = Vec::new();
    for (i, claim) in claims.iter().enumerate() {
        if claim.frozen {
            grants[i] = Grant { width: claim.current, why: Why::Frozen };
            free = free.saturating_sub(units(claim.current));
            slots = slots.saturating_sub(1);
        } else {
            queue.push(i);
        }
    }
    queue.sort_by(|&a, &b| order(&claims[a], &claims[b]));
    for &i in queue.iter().skip(slots as usize) {
        grants[i].why = Why::ParallelLimit;
    }
    queue.truncate(slots as usize);

    let devices = free / UNITS_PER_DEVICE;
    let (mut left, mut admitted, mut field) = (devices, Vec::new(), Vec::new());
    for i in queue {
        let ladder = Ladder::new(&claims[i]);
        if ladder.least() <= left {
            left -= ladder.least();
            admitted.push(i);
            field.push((&claims[i], ladder));
        }
    }
    let targets = targets(&field, devices);
    let members: Vec<&Claim> = admitted.iter().map(|&i| &claims[i]).collect();
    for (i, grant) in admitted.into_iter().zip(guarded(&members, &targets, free, gain)) {
        grants[i] = grant;
    }
    grants
}

/// Widths near `targets` (devices; in sum at most `free` twelfths) that are worth their resizes.
fn guarded(claims: &[&Claim], targets: &[u32], free: u32, gain: f64) -> Vec<Grant> {
    let mut grants: Vec<Grant> = claims.iter().zip(targets).map(|(claim, devices)| worth(claim, whole(*devices), gain)).collect();
    let used: u32 = grants.iter().map(|grant| units(grant.width)).sum();
    let mut left = free.saturating_sub(used);
    // Nobody needs what these would give up; first those that would lose most of their speed.
    let mut shrunk: Vec<usize> = (0..claims.len()).filter(|&i| grants[i].width < claims[i].current).collect();
    shrunk.sort_by(|&a, &b| {
        let kept = |i: usize| claims[i].speed(grants[i].width) / claims[i].speed(claims[i].current);
        kept(a).total_cmp(&kept(b)).then(claims[a].queue_key().cmp(&claims[b].queue_key()))
    });
    for i in shrunk {
        let step = units(claims[i].current) - units(grants[i].width);
        if step <= left && claims[i].current <= claims[i].max {
            left -= step;
            grants[i] = Grant { width: claims[i].current, why: Why::Chosen };
        }
    }
    grants
}

fn worth(claim: &Claim, to: Width, least_gain: f64) -> Grant {
    if claim.current.is_zero() || to <= claim.current {
        return Grant { width: to, why: if to.is_zero() { Why::NoCapacity } else { Why::Chosen } };
    }
    let gain = claim.seconds_left(claim.current) / (claim.seconds_left(to) + claim.restart_cost.as_secs_f64()).max(f64::MIN_POSITIVE);
    match claim.settled {
        false => Grant { width: claim.current, why: Why::Unsettled },
        true if gain <= least_gain => Grant { width: claim.current, why: Why::SmallGain { to, gain } },
        true => Grant { width: to, why: Why::Chosen },
    }
}

fn whole(devices: u32) -> Width {
    Width::Devices(devices.min(u32::from(u16::MAX)) as u16)
}

/// From the least widths up, step by step, always the step of the greatest worth that still fits; none without worth.
pub(super) fn climb(field: &[(&Claim, Ladder)], devices: u32, worth: impl Fn(&Claim, (u32, f64), (u32, f64)) -> f64) -> Vec<u32> {
    let mut at = vec![0usize; field.len()];
    let mut left = devices - field.iter().map(|(_, ladder)| ladder.least()).sum::<u32>();
    let step = |i: usize, at: usize| {
        let (claim, Ladder(steps)) = &field[i];
        let worth = steps.get(at + 1).map(|next| worth(claim, steps[at], *next))?;
        (worth > 0.0).then_some(Step { worth, i })
    };
    let mut heap: BinaryHeap<Step> = (0..field.len()).filter_map(|i| step(i, 0)).collect();
    while let Some(Step { i, .. }) = heap.pop() {
        let steps = &field[i].1.0;
        let cost = steps[at[i] + 1].0 - steps[at[i]].0;
        if cost > left {
            continue;
        }
        left -= cost;
        at[i] += 1;
        heap.extend(step(i, at[i]));
    }
    field.iter().zip(at).map(|((_, ladder), at)| ladder.0[at].0).collect()
}

/// Ordered by worth; of equals the earlier claim's comes first.
struct Step {
    worth: f64,
    i: usize,
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Step {}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Step {
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.total_cmp(&other.worth).then(other.i.cmp(&self.i))
    }
}
