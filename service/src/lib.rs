//! The elastune service as a library: storage, reconcilers and the REST API. Called by `main` and by tests.

pub mod db;
pub mod reconcile;
#[cfg(test)]
mod testing;
