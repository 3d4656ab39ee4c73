//! The values that decisions read and write. Everyone uses them; none of them does anything but hold.

pub mod cluster;
pub mod event;
pub mod group;
pub mod ids;
pub mod plan;
pub mod snapshot;
pub mod space;
pub mod study;
pub mod trial;
pub mod unbounded;
pub mod width;
pub mod workload;
