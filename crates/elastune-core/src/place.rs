//! Places: which devices a trial's ranks get, once the policies have said how many. Called by `decide`.
//!
//! Running trials keep their slots wherever they can. A trial that fits one node lies on one (best fit), a larger one takes
//! whole nodes, at most one such trial a node. Parts of a device are shared within a study only and never span devices.

mod book;
#[cfg(test)]
mod tests;

use crate::model::cluster::{NodeView, Slot};
use crate::model::study::DeviceKind;
use crate::model::width::Width;
use book::{Book, Need};

/// One trial to place.
#[derive(Debug, Clone)]
pub struct Want {
    /// Only wants of the same study share a device.
    pub study: usize,
    pub width: Width,
    /// What it falls back to where `width` does not fit, ascending; the least useful width first.
    pub widths: Vec<Width>,
    /// Its slots by the current plan, those on lost or draining nodes left out.
    pub current: Vec<Slot>,
    /// Mid-switch or holding: `current` must stay as it is.
    pub fixed: bool,
    pub kind: DeviceKind,
    /// Of each rank.
    pub memory_bytes: u64,
}

/// Slots for each want, in rank order; none where nothing fits. Earlier wants choose first.
/// `shares`: devices of each study, on which those of its trials that share devices draw together.
pub fn place(wants: &[Want], nodes: &[NodeView], shares: &[u32]) -> Vec<Vec<Slot>> {
    let mut book = Book::new(nodes);
    let mut slots: Vec<Vec<Slot>> = vec![Vec::new(); wants.len()];
    for (i, want) in wants.iter().enumerate() {
        slots[i] = kept(want);
        book.take(&need(want), &slots[i]);
    }
    draw_together(&mut book, wants, &mut slots, shares);
    let grows = |i: &usize| !wants[*i].fixed && !wants[*i].current.is_empty() && wants[*i].width > width_of(&wants[*i].current);
    // The shortest of two that share a device moves away, so that the longest goes on undisturbed.
    for i in (0..wants.len()).rev().filter(grows) {
        if wants[i].width <= Width::ONE {
            grow_share(&mut book, &wants[i], &mut slots[i]);
        }
    }
    let mut wide: Vec<usize> = (0..wants.len()).filter(grows).filter(|&i| wants[i].width > Width::ONE).collect();
    wide.sort_by_key(|&i| std::cmp::Reverse(wants[i].width));
    for i in wide {
        grow(&mut book, &wants[i], &mut slots[i]);
    }
    let mut fresh: Vec<usize> = (0..wants.len()).filter(|&i| slots[i].is_empty() && !wants[i].width.is_zero()).collect();
    fresh.sort_by_key(|&i| std::cmp::Reverse(wants[i].width));
    for i in fresh {
        let need = need(&wants[i]);
        if let Some(found) = fallbacks(&wants[i], Width::ZERO).find_map(|width| book.find(&need, width)) {
            book.take(&need, &found);
            slots[i] = found;
        }
    }
    for (want, slots) in wants.iter().zip(&mut slots) {
        own_what_nobody_shares(&mut book, want, slots);
    }
    slots
}

fn need(want: &Want) -> Need {
    Need { study: want.study, kind: want.kind, memory_bytes: want.memory_bytes }
}

fn width_of(slots: &[Slot]) -> Width {
    match slots {
        [only] if only.parts > 1 => Width::Fraction(only.parts),
        slots => Width::Devices(slots.len() as u16),
    }
}

/// Widths to try, widest first, all above `above`.
fn fallbacks(want: &Want, above: Width) -> impl Iterator<Item = Width> + '_ {
    let smaller = want.widths.iter().rev().copied().filter(|width| *width < want.width);
    std::iter::once(want.width).chain(smaller).filter(move |width| *width > above)
}

/// What stays in place: all of it, or as many slots as the smaller width asks for, from the nodes that hold most of them.
fn kept(want: &Want) -> Vec<Slot> {
    let current = &want.current;
    if want.fixed || want.width >= width_of(current) {
        return current.clone();
    }
    if let (Width::Fraction(parts), [first, ..]) = (want.width, current.as_slice()) {
        return vec![Slot { parts, ..*first }];
    }
    let on_node = |slot: &Slot| current.iter().filter(|other| other.node == slot.node).count();
    let mut ranks: Vec<usize> = (0..current.len()).collect();
    ranks.sort_by_key(|&rank| (std::cmp::Reverse(on_node(&current[rank])), current[rank].node, rank));
    ranks.truncate(want.width.ranks() as usize);
    ranks.sort_unstable();
    ranks.into_iter().map(|rank| current[rank]).collect()
}

/// Trials that hold part of a device alone move to devices that their study shares already, the last ones first, until it holds
/// no more than its share.
fn draw_together(book: &mut Book, wants: &[Want], slots: &mut [Vec<Slot>], shares: &[u32]) {
    for i in (0..wants.len()).rev() {
        let (want, need) = (&wants[i], need(&wants[i]));
        let [slot] = slots[i].as_slice() else { continue };
        let slot = *slot;
        let spread = slot.parts > 1
            && !want.fixed
            && book.alone(slot)
            && shares.get(want.study).is_some_and(|&share| book.devices(want.study) > share);
        if !spread {
            continue;
        }
        book.release(&need, &[slot]);
        if let Some(found) = book.find_shared(&need, slot.parts) {
            slots[i] = vec![found];
            book.vacate(&want.current, &slots[i]);
        }
        book.take(&need, &slots[i]);
    }
}

/// From a part of a device to a larger part or all of it: in place, or on a free device.
fn grow_share(book: &mut Book, want: &Want, slots: &mut Vec<Slot>) {
    let need = need(want);
    let parts = if let Width::Fraction(parts) = want.width { parts } else { 1 };
    book.release(&need, slots);
    let larger: Vec<Slot> = slots.iter().map(|slot| Slot { parts, ..*slot }).collect();
    if larger.iter().all(|slot| book.fits(&need, *slot, false)) {
        *slots = larger;
    } else if let Some(found) = (want.width == Width::ONE).then(|| book.find(&need, Width::ONE)).flatten() {
        book.vacate(&want.current, &found);
        *slots = found;
    }
    book.take(&need, slots);
}

/// To more devices: beside those it has if they are on one node with room, on another node with room for all, over several
/// nodes if no node is large enough; else less.
fn grow(book: &mut Book, want: &Want, slots: &mut Vec<Slot>) {
    let need = need(want);
    book.release(&need, slots);
    let whole: Vec<Slot> = slots.iter().map(|slot| Slot { parts: 1, ..*slot }).collect();
    let stays = whole.iter().all(|slot| book.fits(&need, *slot, false));
    for width in fallbacks(want, width_of(slots)) {
        let beside = stays.then(|| book.extend(&need, &whole, width)).flatten();
        let moves = beside.is_none();
        if let Some(found) = beside.or_else(|| book.find(&need, width)) {
            if moves {
                book.vacate(&want.current, &found);
            }
            *slots = found;
            break;
        }
    }
    book.take(&need, slots);
}

/// A part of a device that nobody shares is all of it: only a name changes, no process.
fn own_what_nobody_shares(book: &mut Book, want: &Want, slots: &mut Vec<Slot>) {
    let need = need(want);
    if let ([only], false) = (slots.as_slice(), want.fixed)
        && only.parts > 1
    {
        let whole = Slot { parts: 1, ..*only };
        book.release(&need, slots);
        if book.fits(&need, whole, want.current.iter().all(|slot| (slot.node, slot.device) != (whole.node, whole.device))) {
            *slots = vec![whole];
        }
        book.take(&need, slots);
    }
}
