//! FIFO: rigid widths, one device each (or the study's least width), in order. The baseline, and what a user picks to compare
//! run times: no trial is ever resized.

use super::{Allocation, Capacity, Claim, Grant, Why, units};
use crate::model::width::Width;

/// Frozen claims keep theirs; then running ones, then those that have trained, then new ones, each by number.
pub(super) fn allocate(claims: &[Claim], capacity: Capacity) -> Allocation {
    let mut grants = vec![Grant { width: Width::ZERO, why: Why::NoCapacity }; claims.len()];
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&i| claims[i].queue_key());
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
