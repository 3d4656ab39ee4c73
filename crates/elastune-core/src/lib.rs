//! The decisions of elastune, values in and values out: the service and the simulator call the same functions.
//!
//! Nothing here awaits, logs, reads a clock, draws ambient randomness or fails: bad input is refused when a study is
//! created (`search::validate`), and what a decision cannot do becomes a line in its report.

pub mod check;
pub mod decide;
pub mod early_stopping;
pub mod elastic;
pub mod judge;
pub mod model;
pub mod perf;
pub mod place;
pub mod propose;
pub mod rng;
pub mod sched;
pub mod search;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
