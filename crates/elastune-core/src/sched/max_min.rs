//! Weighted max-min fairness, between studies by priority and among the trials of one: the devices of all grow together, in proportion to its weight,
//! until each has what it can use (progressive filling: Bertsekas and Gallager, Data Networks, 6.5.2).

use super::elastic::{self, climb, running_first};
use super::{Capacity, Claim, Grant, Why};
use crate::model::width::Width;

/// Whole devices. A study keeps what its running trials need at their least (`min`), save that a study of its priority which
/// would get nothing takes a device from the one that holds most for its weight; higher priorities take all they can use.
/// `current` is what it cannot give up (trials in mid-switch): it may exceed the capacity.
/// Handing out one device at a time keeps it monotone: with more capacity no study gets less.
pub(super) fn between(claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    let mut got = vec![0u32; claims.len()];
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(claims[i].priority), claims[i].number, claims[i].id));
    let mut left = capacity.devices;
    for class in order.chunk_by(|&a, &b| claims[a].priority == claims[b].priority) {
        fill(claims, class, left, &mut got);
        left = left.saturating_sub(class.iter().map(|&i| got[i]).sum());
    }
    let why = |i: usize| if got[i] == 0 && !claims[i].max.is_zero() { Why::NoCapacity } else { Why::Chosen };
    (0..claims.len()).map(|i| Grant { width: Width::Devices(got[i].min(u32::from(u16::MAX)) as u16), why: why(i) }).collect()
}

/// One priority class, `class` by age.
fn fill(claims: &[Claim], class: &[usize], devices: u32, got: &mut [u32]) {
    let demand = |i: usize| claims[i].max.ranks();
    let weight = |i: usize| if claims[i].weight.is_finite() && claims[i].weight > 0.0 { claims[i].weight } else { 1e-9 };
    let fixed = |i: usize| claims[i].current.ranks();
    for &i in class {
        got[i] = claims[i].min.ranks().max(1).min(demand(i));
    }
    let mut total: u32 = class.iter().map(|&i| got[i]).sum();
    while total > devices {
        // The one that holds most for its weight gives up one; a study's last device goes only when nobody has two.
        let loser = class.iter().copied().filter(|&i| got[i] > fixed(i)).max_by(|&a, &b| {
            let key = |i: usize| (got[i] > 1, f64::from(got[i]) / weight(i));
            key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)).then(claims[a].number.cmp(&claims[b].number))
        });
        let Some(loser) = loser else { break };
        got[loser] -= 1;
        total -= 1;
    }
    while total < devices {
        let level = |i: usize| f64::from(got[i] + 1) / weight(i);
        let next = class.iter().copied().filter(|&i| got[i] < demand(i)).min_by(|&a, &b| level(a).total_cmp(&level(b)));
        let Some(next) = next else { break };
        got[next] += 1;
        total += 1;
    }
}

/// One study's trials: the narrowest for its weight takes its next legal width, if that is faster.
pub(super) fn within(claims: &[Claim], capacity: Capacity, gain: f64) -> Vec<Grant> {
    elastic::allocate(claims, capacity, running_first, gain, |field, devices| {
        climb(field, devices, |claim, (_, speed), (next, faster)| if faster > speed { claim.weight / f64::from(next) } else { 0.0 })
    })
}
