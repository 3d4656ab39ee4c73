//! The C++ core of PyTorch's DistributedDataParallel: gradients are averaged over the ranks in buckets, while backward still
//! runs. Called around each step by training loops that need speed rather than bits that don't depend on the width.

use std::sync::Arc;

use tch::Tensor;

use crate::error::Result;
use crate::ffi::{GroupHandle, ReducerHandle};
use crate::group::Group;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReducerOptions {
    /// A bucket's size; one all-reduce each.
    pub bucket_bytes: u32,
    /// The first bucket's (the last layers'), smaller so that communication starts early.
    pub first_bucket_bytes: u32,
    /// Gradients are views of the buckets, which saves a copy; don't call `zero_grad` of an optimizer or a tensor then
    /// (`forward` clears them).
    pub gradients_as_views: bool,
}

impl Default for ReducerOptions {
    fn default() -> ReducerOptions {
        ReducerOptions { bucket_bytes: 25 << 20, first_bucket_bytes: 1 << 20, gradients_as_views: true }
    }
}

/// Of one model on one group. Per step: `forward`, compute the loss, `backward`, then read the parameters' gradients.
pub struct Reducer {
    // Freed before its group: fields drop in this order.
    handle: ReducerHandle,
    _group: Arc<GroupHandle>,
}

impl Reducer {
    /// `params`: leaves that require gradients, the same in every rank, in the order of the forward pass; every one must get a
    /// gradient in every backward. Their values are not synchronised here: broadcast them first.
    pub fn new(group: &Group, params: &[Tensor], options: ReducerOptions) -> Result<Reducer> {
        let (bucket, first) = (options.bucket_bytes.max(1).into(), options.first_bucket_bytes.max(1).into());
        let handle = ReducerHandle::new(group.handle(), params, bucket, first, options.gradients_as_views)?;
        Ok(Reducer { handle, _group: Arc::clone(group.handle()) })
    }

    /// Clears the gradients and makes ready for a forward pass.
    pub fn forward(&mut self) -> Result<()> {
        self.handle.forward()
    }

    /// Runs backward from a scalar; the gradients are then the ranks' mean. After an `Err` the reducer and its group are of no
    /// more use.
    pub fn backward(&mut self, loss: &Tensor) -> Result<()> {
        self.handle.backward(loss)
    }
}

impl std::fmt::Debug for Reducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reducer")
    }
}
