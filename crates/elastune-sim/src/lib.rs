//! A discrete-event simulator: the same `propose`, `judge` and `decide` as the service calls, on a virtual clock. Called by the
//! benchmarks, by `elastune` and by property tests that need whole studies in milliseconds.

mod engine;
pub mod jobs;
pub mod presets;
mod study;
mod trial;

pub use engine::{Outcome, Simulation};
pub use study::Arrival;
pub use trial::{Costs, Population, Truth};
