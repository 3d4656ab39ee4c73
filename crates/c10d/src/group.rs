//! Process groups and their collectives. Called by every rank, in the same order.

use std::cell::Cell;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tch::Tensor;

use crate::error::{Error, Result};
use crate::ffi::GroupHandle;
use crate::store::Store;

/// How `all_reduce` combines the ranks' tensors, element by element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Op {
    Sum = 0,
    Min = 1,
    Max = 2,
}

/// A fixed set of ranks that are connected with each other.
///
/// Every rank must call the same collectives in the same order, with tensors of the same shape and kind (Gloo ends the process
/// that receives more than it expected); tensors are contiguous and on the group's kind of device. Each call returns when this rank's part is done. After an `Err` of a collective the group
/// is of no more use, here and on the peers: drop it and build another. Dropping takes about 20 ms (`Reaper`).
///
/// A group may move between threads, but is driven by one at a time.
pub struct Group {
    handle: Arc<GroupHandle>,
    rank: usize,
    size: usize,
    timeout: Duration,
    one_thread: PhantomData<Cell<()>>,
}

impl Group {
    /// A group over Gloo (tensors on the CPU). `address` is this rank's own, at which its peers reach it. Returns when all
    /// `size` ranks are connected and have passed a first barrier; a peer that doesn't come is an error after `timeout`, which
    /// is then also the timeout of every collective.
    ///
    /// `store` should be a prefix that no group was ever built on. A peer that dies in the midst of connecting can hold this up
    /// for twice `timeout`.
    pub fn gloo(store: &Store, rank: usize, size: usize, timeout: Duration, address: IpAddr) -> Result<Group> {
        let address = address.to_string();
        Group::build(store, rank, size, timeout, move |store| GroupHandle::gloo(store.handle(), rank, size, timeout, &address))
    }

    /// A group over NCCL (tensors on the CUDA device `device_index`, which no other rank may use).
    #[cfg(feature = "cuda")]
    pub fn nccl(store: &Store, rank: usize, size: usize, timeout: Duration, device_index: usize) -> Result<Group> {
        Group::build(store, rank, size, timeout, move |store| GroupHandle::nccl(store.handle(), rank, size, timeout, device_index))
    }

    fn build(
        store: &Store,
        rank: usize,
        size: usize,
        timeout: Duration,
        connect: impl FnOnce(&Store) -> Result<GroupHandle> + Send + 'static,
    ) -> Result<Group> {
        if rank >= size {
            return Err(Error::Failed(format!("rank {rank} of a group of {size}")));
        }
        let store = store.clone();
        // Gloo's retries can multiply the timeout of its constructor.
        let handle = crate::within(2 * timeout, "peers that were there stopped connecting", move || {
            let handle = connect(&store)?;
            handle.barrier(timeout)?;
            Ok(handle)
        })?;
        Ok(Group { handle: Arc::new(handle), rank, size, timeout, one_thread: PhantomData })
    }

    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// For the calls that follow.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Every rank's tensor becomes the one of rank `root`.
    pub fn broadcast(&self, tensor: &mut Tensor, root: usize) -> Result<()> {
        contiguous([&*tensor])?;
        self.handle.broadcast(tensor, root, self.timeout)
    }

    /// Every rank's tensor becomes the combination of all ranks' ones, equal to the bit on all of them. In which order floats
    /// are added depends on the group's size.
    pub fn all_reduce(&self, tensor: &mut Tensor, op: Op) -> Result<()> {
        contiguous([&*tensor])?;
        self.handle.all_reduce(tensor, op, self.timeout)
    }

    /// `outputs[r]` becomes rank r's `input`; one tensor of the input's shape per rank.
    pub fn all_gather(&self, outputs: &mut [Tensor], input: &Tensor) -> Result<()> {
        contiguous(outputs.iter().chain([input]))?;
        self.handle.all_gather(outputs, input, self.timeout)
    }

    /// Rank r receives this rank's r-th block of rows of `input` (`send[r]` rows); `output` becomes the blocks that the ranks
    /// sent to this one, in rank order (`receive[r]` rows from rank r). Rows are along the first dimension.
    pub fn all_to_all(&self, output: &mut Tensor, receive: &[i64], input: &Tensor, send: &[i64]) -> Result<()> {
        if receive.len() != self.size || send.len() != self.size {
            return Err(Error::Failed(format!("counts must name each of the {} ranks", self.size)));
        }
        contiguous([&*output, input])?;
        self.handle.all_to_all(output, input, (receive, send), self.timeout)
    }

    /// Returns once every rank has called it.
    pub fn barrier(&self) -> Result<()> {
        self.handle.barrier(self.timeout)
    }

    /// With which other threads may abort this group.
    pub fn aborter(&self) -> Aborter {
        Aborter(Arc::downgrade(&self.handle))
    }

    pub(crate) fn handle(&self) -> &Arc<GroupHandle> {
        &self.handle
    }
}

/// Gloo takes a tensor's memory as it lies, and would silently mix up one with gaps.
fn contiguous<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
    match tensors.into_iter().all(Tensor::is_contiguous) {
        true => Ok(()),
        false => Err(Error::Failed("tensors must be contiguous: call contiguous() on them first".into())),
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("rank", &self.rank).field("size", &self.size).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Fails a group from any thread: its connections close, a collective that waits in it returns an error at once. So do its
/// peers' that wait for this rank, and their peers' in turn; one that waits for a rank which is in no collective stays until
/// that one comes, or the timeout. Doesn't keep the group alive.
#[derive(Clone)]
pub struct Aborter(Weak<GroupHandle>);

impl Aborter {
    /// Whether there was still a group to abort.
    pub fn abort(&self) -> Result<bool> {
        match self.0.upgrade() {
            Some(handle) => handle.abort().map(|()| true),
            None => Ok(false),
        }
    }
}

impl std::fmt::Debug for Aborter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Aborter")
    }
}
