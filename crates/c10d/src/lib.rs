//! Safe Rust over libtorch's c10d: TCP stores, Gloo and NCCL process groups, the DDP Reducer. Called by `trial-worker`; useful
//! on its own (see the README).

mod error;
mod ffi;
mod group;
mod reaper;
mod reducer;
mod store;

pub use error::{Error, Result};
pub use group::{Aborter, Group, Op};
pub use reaper::Reaper;
pub use reducer::{Reducer, ReducerOptions};
pub use store::Store;
