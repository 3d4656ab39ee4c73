//! One rank of a trial: trains with libtorch, reports to its node's agent, and changes width while it runs. Used by the binary
//! and its tests.

pub mod assembly;
pub mod checkpoint;
pub mod control;
pub mod data;
pub mod exchange;
pub mod fold;
pub mod identity;
pub mod ipc;
pub mod ledger;
pub mod log;
pub mod models;
pub mod optimiser;
pub mod pulse;
pub mod rates;
pub mod saver;
pub mod schedule;
pub mod session;
pub mod start;
pub mod state;
pub mod torch;
pub mod train;
pub mod transfer;
