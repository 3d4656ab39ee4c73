//! Wire types of elastune: what the REST API, the agents and the workers say to each other. Used by service, runner, CLI and tests.

pub mod agent;
#[cfg(feature = "client")]
pub mod client;
pub mod cluster;
pub mod problem;
pub mod study;
pub mod trial;
pub mod worker;
