//! The elastune service as a library: storage, reconcilers and the REST API. Called by `main` and by tests.

pub mod app;
pub mod checkpoints;
pub mod config;
pub mod db;
pub mod error;
pub mod http;
pub mod reconcile;
pub mod serve;
pub mod telemetry;
#[cfg(test)]
mod testing;
mod web;
