//! Side-by-side benchmarks against named peers: the programs in `src/bin`. What they print is `bench_report`'s.

pub use bench_report::*;
