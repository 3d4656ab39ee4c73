//! Where trials come to lie.

use uuid::Uuid;

use super::{Want, place};
use crate::model::cluster::{Device, NodeState, NodeView, Slot};
use crate::model::ids::NodeId;
use crate::model::study::DeviceKind;
use crate::model::width::Width;

fn nodes(sizes: &[u16]) -> Vec<NodeView> {
    let device = |index| Device { index, kind: DeviceKind::Gpu, name: "d".into(), memory_bytes: 8 << 30, max_sharers: 2 };
    let node = |(number, size): (usize, &u16)| NodeView {
        id: NodeId(Uuid::from_u128(number as u128)),
        name: format!("n{number}"),
        state: NodeState::Ready,
        devices: (0..*size).map(device).collect(),
    };
    sizes.iter().enumerate().map(node).collect()
}

fn slot(node: u128, device: u16, parts: u8) -> Slot {
    Slot { node: NodeId(Uuid::from_u128(node)), device, parts }
}

fn want(width: Width, current: &[Slot]) -> Want {
    let widths = vec![Width::ONE, Width::Devices(2), Width::Devices(4)];
    Want { study: 0, width, widths, current: current.to_vec(), fixed: false, kind: DeviceKind::Gpu, memory_bytes: 0 }
}

#[test]
fn a_trial_that_fits_one_node_lies_on_the_one_that_it_fills_best() {
    assert_eq!(place(&[want(Width::Devices(2), &[])], &nodes(&[3, 2, 4]), &[9]), [vec![slot(1, 0, 1), slot(1, 1, 1)]]);
}

#[test]
fn it_takes_less_rather_than_span_nodes() {
    let busy = |node| want(Width::ONE, &[slot(node, 0, 1)]);
    let placed = place(&[busy(0), busy(1), want(Width::Devices(2), &[])], &nodes(&[2, 2]), &[4]);
    assert_eq!(placed[2], [slot(0, 1, 1)]);
}

#[test]
fn a_larger_one_takes_whole_nodes_and_each_node_has_one_such_trial() {
    let placed = place(&[want(Width::Devices(4), &[]), want(Width::Devices(4), &[])], &nodes(&[3, 3, 3, 3]), &[12]);
    let homes = |slots: &[Slot]| slots.iter().map(|slot| slot.node).collect::<std::collections::BTreeSet<_>>();
    assert_eq!((placed[0].len(), placed[1].len()), (4, 4));
    assert_eq!((homes(&placed[0]).len(), homes(&placed[1]).len()), (2, 2), "{placed:?}");
    assert!(homes(&placed[0]).is_disjoint(&homes(&placed[1])), "{placed:?}");
}

#[test]
fn growing_keeps_what_it_has_and_shrinking_keeps_the_fuller_node() {
    assert_eq!(place(&[want(Width::Devices(2), &[slot(0, 2, 1)])], &nodes(&[4]), &[4]), [vec![slot(0, 2, 1), slot(0, 0, 1)]]);
    let spread = [slot(0, 0, 1), slot(1, 0, 1), slot(1, 1, 1), slot(1, 2, 1)];
    assert_eq!(place(&[want(Width::Devices(2), &spread)], &nodes(&[3, 3]), &[6]), [vec![slot(1, 0, 1), slot(1, 1, 1)]]);
}

#[test]
fn of_two_that_share_the_shorter_moves_away() {
    let half = |device| [slot(0, device, 2)];
    let placed = place(&[want(Width::ONE, &half(0)), want(Width::ONE, &half(0))], &nodes(&[2]), &[2]);
    assert_eq!(placed, [vec![slot(0, 0, 1)], vec![slot(0, 1, 1)]]);
}

#[test]
fn only_trials_of_one_study_share_and_only_where_memory_lasts() {
    let half = |study, memory_bytes| Want { study, memory_bytes, ..want(Width::Fraction(2), &[]) };
    let devices = |wants: &[Want]| place(wants, &nodes(&[2]), &[1, 1]).iter().map(|slots| slots[0].device).collect::<Vec<_>>();
    assert_eq!(devices(&[half(0, 0), half(0, 0)]), [0, 0]);
    assert_eq!(devices(&[half(0, 0), half(1, 0)]), [0, 1]);
    assert_eq!(devices(&[half(0, 5 << 30), half(0, 5 << 30)]), [0, 1]);
}
