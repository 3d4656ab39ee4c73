//! FIFO: rigid widths, one device each (or the study's least width), in order. The baseline, and what a user picks to compare
//! run times: no trial is ever resized.

use std::cmp::Ordering;

use super::{Capacity, Claim, Grant, Why, units};
use crate::model::width::Width;

/// Frozen claims keep theirs; then running ones, then those that have trained, then new ones, each by number.
pub(super) fn allocate(claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    in_turn(claims, capacity, |a, b| a.queue_key().cmp(&b.queue_key()))
}

/// Least widths in an order that puts frozen claims first, as long as the capacity covers them.
pub(super) fn in_turn(claims: &[Claim], capacity: Capacity, before: impl Fn(&Claim, &Claim) -> Ordering) -> Vec<Grant> {
    let mut grants = vec![Grant { width: Width::ZERO, why: Why::NoCapacity }; claims.len()];
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by(|&a, &b| before(&claims[a], &claims[b]));
    let (mut left, mut slots) = (capacity.units(), capacity.claims);
    for i in order {
        let claim = &claims[i];
        let (width, why) = if claim.frozen {
            (claim.current, Why::Frozen)
        } else if slots == 0 {
            (Width::ZERO, Why::ParallelLimit)
        } else {
            let rigid = claim.min.max(Width::ONE);
            if units(rigid) <= left { (rigid, Why::Chosen) } else { (Width::ZERO, Why::NoCapacity) }
        };
        left = left.saturating_sub(units(width));
        slots = slots.saturating_sub(u32::from(!width.is_zero()));
        grants[i] = Grant { width, why };
    }
    grants
}
