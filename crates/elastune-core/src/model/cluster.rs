//! Nodes, their devices and the slots that plans hand out.

use serde::{Deserialize, Serialize};

use super::ids::NodeId;
use super::study::DeviceKind;

/// A GPU or a CPU slot of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Device {
    /// From 0 within its node.
    pub index: u16,
    pub kind: DeviceKind,
    /// As the driver names it, or `cpu`.
    pub name: String,
    pub memory_bytes: u64,
    /// Most trials that may share it: Fluid's c; 1 on CPU slots.
    pub max_sharers: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    Ready,
    /// Keeps what runs, gets nothing new.
    Cordoned,
    /// Gives up what runs, gets nothing new.
    Draining,
    /// Silent for three heartbeats.
    Lost,
    Removed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    pub id: NodeId,
    pub name: String,
    pub state: NodeState,
    pub devices: Vec<Device>,
}

/// A part of one device. Within a plan the shares of a device add up to at most 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Slot {
    pub node: NodeId,
    pub device: u16,
    /// The slot is 1/parts of the device; 1 is all of it.
    pub parts: u8,
}
