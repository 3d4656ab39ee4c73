//! One file a part: each adds its figures to the report of `make bench-brain`.

pub mod afs;
pub mod exact;
pub mod pollux;
