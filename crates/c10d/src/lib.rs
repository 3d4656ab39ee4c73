//! Safe Rust over libtorch's c10d: TCP stores, Gloo and NCCL process groups, the DDP Reducer. Called by `trial-worker`; useful
//! on its own (see the README).

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

mod error;
mod ffi;
mod group;
pub mod kernels;
mod reaper;
mod reducer;
mod store;

pub use error::{Error, Result};
pub use group::{Aborter, Group, Op};
pub use reaper::Reaper;
pub use reducer::{Reducer, ReducerOptions};
pub use store::Store;

/// Runs a call of c10d's that may outlive its own timeout on a thread of its own. If it does, that thread is left to end when
/// c10d does, and what it makes is dropped there.
fn within<T: Send + 'static>(timeout: Duration, late: &str, call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("c10d-connect".into())
        .spawn(move || drop(sender.send(call())))
        .map_err(|error| Error::Failed(format!("no thread to connect on: {error}")))?;
    // c10d's own error says more than ours: give it time to come.
    match receiver.recv_timeout(timeout + Duration::from_millis(500)) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => Err(Error::Timeout(late.into())),
        Err(RecvTimeoutError::Disconnected) => Err(Error::Failed("c10d panicked".into())),
    }
}
