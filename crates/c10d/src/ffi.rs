//! The only unsafe code here: declarations of the shim (`shim/c10d.cpp`) and owners of its handles, safe to use from the
//! modules beside this one.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

use tch::Tensor;
use torch_sys::C_tensor;

use crate::error::{Error, Result};

#[repr(C)]
struct RawStore {
    _private: [u8; 0],
}
#[repr(C)]
struct RawGroup {
    _private: [u8; 0],
}
#[repr(C)]
struct RawReduction {
    _private: [u8; 0],
}

type Give = extern "C" fn(*mut c_void, *const u8, usize);

unsafe extern "C" {
    fn c10d_last_error() -> *const c_char;

    fn c10d_store_tcp(host: *const c_char, port: u16, listen_fd: c_int, timeout_ms: i64, out: *mut *mut RawStore) -> c_int;
    fn c10d_store_prefix(store: *const RawStore, prefix: *const c_char, out: *mut *mut RawStore) -> c_int;
    fn c10d_store_set(store: *const RawStore, key: *const c_char, data: *const u8, len: usize) -> c_int;
    fn c10d_store_get(store: *const RawStore, key: *const c_char, timeout_ms: i64, give: Give, to: *mut c_void) -> c_int;
    fn c10d_store_add(store: *const RawStore, key: *const c_char, amount: i64, out: *mut i64) -> c_int;
    fn c10d_store_check(store: *const RawStore, key: *const c_char, out: *mut bool) -> c_int;
    fn c10d_store_delete_key(store: *const RawStore, key: *const c_char, out: *mut bool) -> c_int;
    fn c10d_store_num_keys(store: *const RawStore, out: *mut i64) -> c_int;
    fn c10d_store_free(store: *mut RawStore) -> c_int;

    fn c10d_group_gloo(
        store: *const RawStore,
        rank: c_int,
        size: c_int,
        timeout_ms: i64,
        address: *const c_char,
        out: *mut *mut RawGroup,
    ) -> c_int;
    #[cfg(feature = "cuda")]
    fn c10d_group_nccl(
        store: *const RawStore,
        rank: c_int,
        size: c_int,
        timeout_ms: i64,
        device_index: c_int,
        out: *mut *mut RawGroup,
    ) -> c_int;
    fn c10d_group_broadcast(group: *const RawGroup, tensor: *mut C_tensor, root: c_int, timeout_ms: i64) -> c_int;
    fn c10d_group_all_reduce(group: *const RawGroup, tensor: *mut C_tensor, op: c_int, timeout_ms: i64) -> c_int;
    fn c10d_group_all_gather(
        group: *const RawGroup,
        outputs: *const *mut C_tensor,
        count: usize,
        input: *const C_tensor,
        timeout_ms: i64,
    ) -> c_int;
    fn c10d_group_all_to_all(
        group: *const RawGroup,
        output: *mut C_tensor,
        input: *const C_tensor,
        output_counts: *const i64,
        input_counts: *const i64,
        count: usize,
        timeout_ms: i64,
    ) -> c_int;
    fn c10d_group_barrier(group: *const RawGroup, timeout_ms: i64) -> c_int;
    fn c10d_group_abort(group: *const RawGroup) -> c_int;
    fn c10d_group_free(group: *mut RawGroup) -> c_int;

    fn c10d_kernels_pin() -> c_int;
    fn c10d_kernels_pinned(out: *mut bool) -> c_int;

    fn c10d_reducer_new(
        group: *const RawGroup,
        params: *const *mut C_tensor,
        count: usize,
        bucket_bytes: i64,
        first_bucket_bytes: i64,
        gradients_as_views: bool,
        out: *mut *mut RawReduction,
    ) -> c_int;
    fn c10d_reducer_forward(reduction: *mut RawReduction) -> c_int;
    fn c10d_reducer_backward(reduction: *mut RawReduction, loss: *const C_tensor) -> c_int;
    fn c10d_reducer_free(reduction: *mut RawReduction) -> c_int;
}

fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the shim's message is a zero-terminated string that lives until this thread's next call.
    let message = unsafe { CStr::from_ptr(c10d_last_error()) }.to_string_lossy().into_owned();
    Err(if code == 1 { Error::Timeout(message) } else { Error::Failed(message) })
}

/// Runs a constructor of the shim.
fn make<T>(build: impl FnOnce(*mut *mut T) -> c_int) -> Result<NonNull<T>> {
    let mut out = null_mut();
    check(build(&mut out))?;
    NonNull::new(out).ok_or_else(|| Error::Failed("c10d answered nothing".into()))
}

fn ms(span: Duration) -> i64 {
    // 0 would mean "no wait at all" and negative ones "the default" to c10d.
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX).clamp(1, 1 << 40)
}

fn int(number: usize) -> Result<c_int> {
    c_int::try_from(number).map_err(|_| Error::Failed(format!("{number} is too large for a rank or a size")))
}

fn pointers(tensors: &[Tensor]) -> Vec<*mut C_tensor> {
    tensors.iter().map(|tensor| tensor.as_ptr().cast_mut()).collect()
}

pub struct StoreHandle(NonNull<RawStore>);

// SAFETY: c10d's stores take a lock around each request; their reference counts are atomic.
unsafe impl Send for StoreHandle {}
// SAFETY: as above.
unsafe impl Sync for StoreHandle {}

impl StoreHandle {
    /// `listen`: a bound, listening socket to serve on; the store owns it from here on, whatever comes of it.
    pub fn tcp(host: &str, port: u16, listen: Option<OwnedFd>, timeout: Duration) -> Result<StoreHandle> {
        let host = CString::new(host)?;
        let listen = listen.map_or(-1, IntoRawFd::into_raw_fd);
        // SAFETY: `host` is zero-terminated and outlives the call; `listen` is ours to give away.
        make(|out| unsafe { c10d_store_tcp(host.as_ptr(), port, listen, ms(timeout), out) }).map(StoreHandle)
    }

    pub fn prefix(&self, prefix: &str) -> Result<StoreHandle> {
        let prefix = CString::new(prefix)?;
        // SAFETY: the handle is alive; the new store keeps a count of the old one.
        make(|out| unsafe { c10d_store_prefix(self.0.as_ptr(), prefix.as_ptr(), out) }).map(StoreHandle)
    }

    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let key = CString::new(key)?;
        // SAFETY: the handle is alive, pointer and length are of one slice, which the shim copies.
        check(unsafe { c10d_store_set(self.0.as_ptr(), key.as_ptr(), value.as_ptr(), value.len()) })
    }

    pub fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        extern "C" fn give(to: *mut c_void, data: *const u8, len: usize) {
            if len > 0 {
                // SAFETY: `to` is the vector below, `data` and `len` a buffer that lives during this call.
                unsafe { (*to.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(data, len)) }
            }
        }
        let key = CString::new(key)?;
        let mut value = Vec::new();
        let to = (&raw mut value).cast();
        // SAFETY: the handle is alive; `give` is called within this call only, with `to`.
        check(unsafe { c10d_store_get(self.0.as_ptr(), key.as_ptr(), ms(timeout), give, to) })?;
        Ok(value)
    }

    pub fn add(&self, key: &str, amount: i64) -> Result<i64> {
        let key = CString::new(key)?;
        let mut sum = 0;
        // SAFETY: the handle is alive and `sum` outlives the call.
        check(unsafe { c10d_store_add(self.0.as_ptr(), key.as_ptr(), amount, &mut sum) })?;
        Ok(sum)
    }

    pub fn check(&self, key: &str) -> Result<bool> {
        let key = CString::new(key)?;
        let mut there = false;
        // SAFETY: the handle is alive and `there` outlives the call.
        check(unsafe { c10d_store_check(self.0.as_ptr(), key.as_ptr(), &mut there) })?;
        Ok(there)
    }

    pub fn delete_key(&self, key: &str) -> Result<bool> {
        let key = CString::new(key)?;
        let mut was_there = false;
        // SAFETY: the handle is alive and `was_there` outlives the call.
        check(unsafe { c10d_store_delete_key(self.0.as_ptr(), key.as_ptr(), &mut was_there) })?;
        Ok(was_there)
    }

    pub fn num_keys(&self) -> Result<i64> {
        let mut count = 0;
        // SAFETY: the handle is alive and `count` outlives the call.
        check(unsafe { c10d_store_num_keys(self.0.as_ptr(), &mut count) })?;
        Ok(count)
    }
}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and not used again. An exception while it goes has nobody to tell.
        let _ = unsafe { c10d_store_free(self.0.as_ptr()) };
    }
}

pub struct GroupHandle(NonNull<RawGroup>);

// SAFETY: c10d's groups queue work under a lock and have no thread of their own; their reference counts are atomic.
unsafe impl Send for GroupHandle {}
// SAFETY: as above. Two threads whose collectives interleave would pair up wrongly across ranks, which is a wrong result or a
// timeout, never a broken memory; `Group` forbids it by not being Sync.
unsafe impl Sync for GroupHandle {}

impl GroupHandle {
    pub fn gloo(store: &StoreHandle, rank: usize, size: usize, timeout: Duration, address: &str) -> Result<GroupHandle> {
        let (rank, size, address) = (int(rank)?, int(size)?, CString::new(address)?);
        // SAFETY: the store is alive and counted by the group; `address` is zero-terminated.
        make(|out| unsafe { c10d_group_gloo(store.0.as_ptr(), rank, size, ms(timeout), address.as_ptr(), out) }).map(GroupHandle)
    }

    #[cfg(feature = "cuda")]
    pub fn nccl(store: &StoreHandle, rank: usize, size: usize, timeout: Duration, device_index: usize) -> Result<GroupHandle> {
        let (rank, size, device_index) = (int(rank)?, int(size)?, int(device_index)?);
        // SAFETY: the store is alive and counted by the group.
        make(|out| unsafe { c10d_group_nccl(store.0.as_ptr(), rank, size, ms(timeout), device_index, out) }).map(GroupHandle)
    }

    pub fn broadcast(&self, tensor: &mut Tensor, root: usize, timeout: Duration) -> Result<()> {
        let root = int(root)?;
        // SAFETY: handle and tensor are alive; the call returns when the work is done or has failed.
        check(unsafe { c10d_group_broadcast(self.0.as_ptr(), tensor.as_mut_ptr(), root, ms(timeout)) })
    }

    /// `op`: 0 sum, 1 min, 2 max.
    pub fn all_reduce(&self, tensor: &mut Tensor, op: crate::Op, timeout: Duration) -> Result<()> {
        // SAFETY: as in `broadcast`; `op` is within the shim's table.
        check(unsafe { c10d_group_all_reduce(self.0.as_ptr(), tensor.as_mut_ptr(), op as c_int, ms(timeout)) })
    }

    pub fn all_gather(&self, outputs: &mut [Tensor], input: &Tensor, timeout: Duration) -> Result<()> {
        let outputs = pointers(outputs);
        // SAFETY: as in `broadcast`; the shim makes its own references to the tensors.
        check(unsafe { c10d_group_all_gather(self.0.as_ptr(), outputs.as_ptr(), outputs.len(), input.as_ptr(), ms(timeout)) })
    }

    /// `counts`: of rows to receive from and to send to each rank, equally long.
    pub fn all_to_all(&self, output: &mut Tensor, input: &Tensor, counts: (&[i64], &[i64]), timeout: Duration) -> Result<()> {
        let (from, to) = counts;
        if from.len() != to.len() {
            return Err(Error::Failed(format!("{} counts to receive, {} to send", from.len(), to.len())));
        }
        // SAFETY: as in `broadcast`; both slices have the length that is passed.
        check(unsafe {
            c10d_group_all_to_all(self.0.as_ptr(), output.as_mut_ptr(), input.as_ptr(), from.as_ptr(), to.as_ptr(), from.len(), ms(timeout))
        })
    }

    pub fn barrier(&self, timeout: Duration) -> Result<()> {
        // SAFETY: the handle is alive.
        check(unsafe { c10d_group_barrier(self.0.as_ptr(), ms(timeout)) })
    }

    pub fn abort(&self) -> Result<()> {
        // SAFETY: the handle is alive; the pairs that an abort fails have locks of their own.
        check(unsafe { c10d_group_abort(self.0.as_ptr()) })
    }
}

impl Drop for GroupHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and not used again.
        let _ = unsafe { c10d_group_free(self.0.as_ptr()) };
    }
}

pub struct ReducerHandle(NonNull<RawReduction>);

// SAFETY: it holds counted tensors and its group; every use needs `&mut`.
unsafe impl Send for ReducerHandle {}

impl ReducerHandle {
    pub fn new(group: &GroupHandle, params: &[Tensor], bucket_bytes: i64, first_bucket_bytes: i64, views: bool) -> Result<ReducerHandle> {
        let params = pointers(params);
        // SAFETY: the group is alive and counted by the reducer, which makes its own references to the tensors.
        make(|out| unsafe {
            c10d_reducer_new(group.0.as_ptr(), params.as_ptr(), params.len(), bucket_bytes, first_bucket_bytes, views, out)
        })
        .map(ReducerHandle)
    }

    pub fn forward(&mut self) -> Result<()> {
        // SAFETY: the handle is alive and used by this thread alone.
        check(unsafe { c10d_reducer_forward(self.0.as_ptr()) })
    }

    pub fn backward(&mut self, loss: &Tensor) -> Result<()> {
        // SAFETY: as in `forward`; the loss is alive.
        check(unsafe { c10d_reducer_backward(self.0.as_ptr(), loss.as_ptr()) })
    }
}

impl Drop for ReducerHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and not used again.
        let _ = unsafe { c10d_reducer_free(self.0.as_ptr()) };
    }
}

pub fn pin_kernels() -> Result<()> {
    // SAFETY: no arguments.
    check(unsafe { c10d_kernels_pin() })
}

pub fn kernels_are_pinned() -> Result<bool> {
    let mut pinned = false;
    // SAFETY: the result outlives the call.
    check(unsafe { c10d_kernels_pinned(&raw mut pinned) })?;
    Ok(pinned)
}
