//! Who holds what while `place` works: free parts, memory and sharers of every device.

use std::collections::BTreeMap;

use crate::model::cluster::{NodeState, NodeView, Slot};
use crate::model::ids::NodeId;
use crate::model::study::DeviceKind;
use crate::model::width::Width;
use crate::sched::{UNITS_PER_DEVICE, units};

/// What a rank needs besides room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    pub study: usize,
    pub kind: DeviceKind,
    pub memory_bytes: u64,
}

struct DeviceBook {
    slot: Slot,
    kind: DeviceKind,
    max_sharers: u8,
    free_units: u32,
    /// Left by trials that move away in this plan: their processes stay until the move has succeeded.
    vacated_units: u32,
    sharers: u8,
    study: Option<usize>,
    free_bytes: u64,
    memory_bytes: u64,
}

struct NodeBook {
    devices: Vec<DeviceBook>,
    /// Only ready nodes get something new.
    ready: bool,
    /// A trial that spans nodes lies here.
    spanned: bool,
}

pub(super) struct Book {
    nodes: Vec<NodeBook>,
    index: BTreeMap<(NodeId, u16), (usize, usize)>,
}

impl Book {
    pub fn new(nodes: &[NodeView]) -> Book {
        let mut sorted: Vec<&NodeView> = nodes.iter().collect();
        sorted.sort_by_key(|node| node.id);
        let mut book = Book { nodes: Vec::new(), index: BTreeMap::new() };
        for node in sorted {
            let device = |device: &crate::model::cluster::Device| DeviceBook {
                slot: Slot { node: node.id, device: device.index, parts: 1 },
                kind: device.kind,
                max_sharers: device.max_sharers.max(1),
                free_units: UNITS_PER_DEVICE,
                vacated_units: 0,
                sharers: 0,
                study: None,
                free_bytes: device.memory_bytes,
                memory_bytes: device.memory_bytes,
            };
            let devices: Vec<DeviceBook> = node.devices.iter().map(device).collect();
            for (at, device) in devices.iter().enumerate() {
                book.index.insert((node.id, device.slot.device), (book.nodes.len(), at));
            }
            book.nodes.push(NodeBook { devices, ready: node.state == NodeState::Ready, spanned: false });
        }
        book
    }

    fn device(&mut self, slot: Slot) -> Option<&mut DeviceBook> {
        let (node, device) = *self.index.get(&(slot.node, slot.device))?;
        self.nodes.get_mut(node)?.devices.get_mut(device)
    }

    /// Books the slots, whether or not they fit.
    pub fn take(&mut self, need: &Need, slots: &[Slot]) {
        for slot in slots {
            if let Some(device) = self.device(*slot) {
                device.free_units = device.free_units.saturating_sub(units(Width::Fraction(slot.parts)));
                device.free_bytes = device.free_bytes.saturating_sub(need.memory_bytes);
                device.sharers = device.sharers.saturating_add(1);
                device.study = Some(need.study);
            }
        }
        self.mark_span(slots, true);
    }

    pub fn release(&mut self, need: &Need, slots: &[Slot]) {
        for slot in slots {
            if let Some(device) = self.device(*slot) {
                device.free_units = (device.free_units + units(Width::Fraction(slot.parts))).min(UNITS_PER_DEVICE);
                device.free_bytes = device.free_bytes.saturating_add(need.memory_bytes).min(device.memory_bytes);
                device.sharers = device.sharers.saturating_sub(1);
                if device.sharers == 0 {
                    device.study = None;
                }
            }
        }
        self.mark_span(slots, false);
    }

    /// A trial moves from `before` to `after`: nobody may start in this plan where it leaves.
    pub fn vacate(&mut self, before: &[Slot], after: &[Slot]) {
        let stays = |slot: &Slot| after.iter().any(|other| (other.node, other.device) == (slot.node, slot.device));
        for slot in before.iter().filter(|slot| !stays(slot)) {
            if let Some(device) = self.device(*slot) {
                device.vacated_units += units(Width::Fraction(slot.parts));
            }
        }
    }

    fn mark_span(&mut self, slots: &[Slot], spanned: bool) {
        if slots.iter().any(|slot| slot.node != slots[0].node) {
            for slot in slots {
                if let Some((node, _)) = self.index.get(&(slot.node, slot.device)) {
                    self.nodes[*node].spanned = spanned;
                }
            }
        }
    }

    /// Whether a rank may have the slot; `starts`: a process of it must start there.
    pub fn fits(&self, need: &Need, slot: Slot, starts: bool) -> bool {
        let Some((node, at)) = self.index.get(&(slot.node, slot.device)) else { return false };
        self.nodes[*node].devices[*at].fits(need, slot.parts, starts)
    }

    /// `width` devices (or a part of one) for a trial that starts there.
    pub fn find(&self, need: &Need, width: Width) -> Option<Vec<Slot>> {
        match width {
            Width::Fraction(parts) => self.find_part(need, parts).map(|slot| vec![slot]),
            Width::Devices(0) => None,
            Width::Devices(devices) => self.find_whole(need, usize::from(devices)),
        }
    }

    /// Best fit: the fullest device that the study shares already, else a free one on the node with fewest free ones.
    fn find_part(&self, need: &Need, parts: u8) -> Option<Slot> {
        let free = || self.find_whole(need, 1).map(|slots| Slot { parts, ..slots[0] });
        self.find_shared(need, parts).or_else(free).filter(|slot| self.fits(need, *slot, true))
    }

    /// A part of the fullest device that the study shares already.
    pub fn find_shared(&self, need: &Need, parts: u8) -> Option<Slot> {
        let devices = self.nodes.iter().filter(|node| node.ready).flat_map(|node| &node.devices);
        let shared = devices.filter(|device| device.sharers > 0 && device.fits(need, parts, true));
        shared.min_by_key(|device| device.free_units).map(|device| Slot { parts, ..device.slot })
    }

    /// Whether one trial alone holds (part of) the slot's device.
    pub fn alone(&self, slot: Slot) -> bool {
        self.index.get(&(slot.node, slot.device)).is_some_and(|(node, at)| self.nodes[*node].devices[*at].sharers == 1)
    }

    /// Devices of which the study holds something.
    pub fn devices(&self, study: usize) -> u32 {
        self.nodes.iter().flat_map(|node| &node.devices).filter(|device| device.study == Some(study)).count() as u32
    }

    fn find_whole(&self, need: &Need, devices: usize) -> Option<Vec<Slot>> {
        let free: Vec<Vec<Slot>> = self.nodes.iter().map(|node| node.free(need)).collect();
        let best = free.iter().filter(|free| free.len() >= devices).min_by_key(|free| free.len());
        match best {
            Some(free) => Some(free[..devices].to_vec()),
            None => self.span(need, Vec::new(), devices),
        }
    }

    /// Adds devices to `slots`, whose node they must share unless no node is large enough.
    pub fn extend(&self, need: &Need, slots: &[Slot], width: Width) -> Option<Vec<Slot>> {
        let devices = width.ranks() as usize;
        let home = slots.first()?.node;
        if slots.iter().all(|slot| slot.node == home) {
            let (node, _) = self.index.get(&(home, slots[0].device))?;
            let free = self.nodes[*node].free(need).into_iter().filter(|free| !slots.contains(free));
            let grown: Vec<Slot> = slots.iter().copied().chain(free).take(devices).collect();
            if grown.len() == devices {
                return Some(grown);
            }
        }
        self.span(need, slots.to_vec(), devices)
    }

    /// Over several nodes, those with most free devices first; only for what no node could ever hold.
    fn span(&self, need: &Need, mut slots: Vec<Slot>, devices: usize) -> Option<Vec<Slot>> {
        let largest = self.nodes.iter().filter(|node| node.ready).map(|node| node.size(need)).max().unwrap_or(0);
        if devices <= largest {
            return None;
        }
        let mut nodes: Vec<(usize, Vec<Slot>)> = Vec::new();
        for node in self.nodes.iter().filter(|node| !node.spanned) {
            let free: Vec<Slot> = node.free(need).into_iter().filter(|free| !slots.contains(free)).collect();
            let home = node.devices.iter().any(|device| slots.iter().any(|slot| slot.node == device.slot.node));
            nodes.push((if home { 0 } else { 1 }, free));
        }
        nodes.sort_by_key(|(away, free)| (*away, std::cmp::Reverse(free.len())));
        slots.extend(nodes.into_iter().flat_map(|(_, free)| free));
        slots.truncate(devices);
        (slots.len() == devices).then_some(slots)
    }
}

impl NodeBook {
    /// Devices on which a whole rank may start now.
    fn free(&self, need: &Need) -> Vec<Slot> {
        let fitting = self.devices.iter().filter(|device| self.ready && device.fits(need, 1, true));
        fitting.map(|device| device.slot).collect()
    }

    fn size(&self, need: &Need) -> usize {
        self.devices.iter().filter(|device| device.suits(need)).count()
    }
}

impl DeviceBook {
    fn suits(&self, need: &Need) -> bool {
        (need.kind == DeviceKind::Any || need.kind == self.kind) && need.memory_bytes <= self.memory_bytes
    }

    fn fits(&self, need: &Need, parts: u8, starts: bool) -> bool {
        let blocked = if starts { self.vacated_units } else { 0 };
        let room = units(Width::Fraction(parts)) + blocked <= self.free_units;
        let shareable = self.sharers == 0 || (self.sharers < self.max_sharers && self.study == Some(need.study));
        self.suits(need) && room && shareable && need.memory_bytes <= self.free_bytes && (parts == 1 || parts <= self.max_sharers)
    }
}
