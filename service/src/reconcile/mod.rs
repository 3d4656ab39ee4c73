//! The loops that turn stored facts into decisions and decisions into stored orders: each reads all it needs, decides by
//! `elastune-core`, and applies in one transaction. Started by `main`; the verbs of people and workers are called by `http`.

pub mod carry_out;
pub mod change;
pub mod decide;
pub mod driver;
pub mod ingest;
pub mod judge;
pub mod lifecycle;
mod measure;
mod memory;
pub mod outside;
pub mod propose;
mod report;
mod retention;
pub mod verbs;
pub mod watch;

#[cfg(test)]
mod tests;
