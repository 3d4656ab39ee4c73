//! What every handler reaches: database, wake-ups, checkpoints, counters. Made by `main` and by tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    prepared: AtomicBool,
    /// Set at shutdown: streams and long polls end then.
    pub stop: CancellationToken,
}

impl App {
    /// Starts listening for wake-ups; `stop` ends that.
    pub fn new(pool: PgPool, checkpoints: CheckpointStore, stop: CancellationToken) -> App {
        let wakes = Wakes::listen(pool.clone(), stop.clone());
        App(Arc::new(Inner { pool, wakes, checkpoints, metrics: Metrics::default(), prepared: AtomicBool::new(false), stop }))
    }

    /// The database has the newest schema and an admin's token: from now on requests are served.
    pub fn set_prepared(&self) {
        self.prepared.store(true, Ordering::Release);
    }

    pub fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
