//! Kernels that give the same bits whenever they are given the same numbers, as ranks need that are to agree to the bit. Called
//! before the first computation.

use crate::{Result, ffi};

/// For the whole process, and for good: libtorch uses deterministic kernels alone (an operation that has none is an error), cuDNN
/// doesn't choose by measuring, and nothing is rounded to TF32 (<https://docs.pytorch.org/docs/stable/notes/randomness.html>).
/// cuBLAS also wants `CUBLAS_WORKSPACE_CONFIG=:4096:8` in the environment in which the process starts. On the CPU it changes no bit.
pub fn pin() -> Result<()> {
    ffi::pin_kernels()
}

/// Whether all of that holds.
pub fn are_pinned() -> Result<bool> {
    ffi::kernels_are_pinned()
}
