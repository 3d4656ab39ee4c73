//! Random search spaces and studies, and the suite that every searcher passes. For tests of this crate and (feature `testing`) others.

pub mod history;
pub mod spaces;
pub mod suite;
