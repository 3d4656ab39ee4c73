//! The agent of one node: registers its devices, keeps the worker processes that the service desires, passes on what they
//! report, and outlives the service's absence. Workers outlive the agent. The program is `main.rs`.

pub mod agent;
pub mod backoff;
pub mod cli;
pub mod desired;
pub mod devices;
pub mod outbox;
pub mod service;
pub mod state;
pub mod supervise;
