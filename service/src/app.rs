//! What every handler reaches: database, wake-ups, checkpoints, counters. Made by `main` and by tests.

use std::sync::Arc;

use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::checkpoints::CheckpointStore;
use crate::db::notify::Wakes;
use crate::http::metrics::Metrics;

/// State of the router.
#[derive(Debug, Clone)]
pub struct App(Arc<Inner>);

#[derive(Debug)]
pub struct Inner {
    pub pool: PgPool,
    pub wakes: Wakes,
    pub checkpoints: CheckpointStore,
    pub metrics: Metrics,
    /// Set at shutdown: streams and long polls end then.
    pub stop: CancellationToken,
}

impl App {
    /// Starts listening for wake-ups; `stop` ends that.
    pub fn new(pool: PgPool, checkpoints: CheckpointStore, stop: CancellationToken) -> App {
        let wakes = Wakes::listen(pool.clone(), stop.clone());
        App(Arc::new(Inner { pool, wakes, checkpoints, metrics: Metrics::default(), stop }))
    }
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
