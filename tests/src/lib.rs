//! A harness for tests of the real programs: a private Postgres, services, agents and their workers, each ended by its own pid.
//! Called by the tests in `tests/`.

pub mod agent;
pub mod data;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod service;
pub mod studies;
pub mod world;

pub use agent::Agent;
pub use postgres::Postgres;
pub use proxy::Proxy;
pub use service::Service;
pub use world::World;

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A program of this workspace, built beforehand (`make build`) into the folder that this test was built into.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let path = own.parent().and_then(|deps| deps.parent()).expect("tests lie in target/debug/deps").join(name);
    assert!(path.is_file(), "there is no {}; run `make build` first", path.display());
    path
}

/// Asks `done` every 50 ms until it answers something. Panics with `what` after `limit`.
pub async fn until<T>(what: &str, limit: Duration, mut done: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = done().await {
            return value;
        }
        assert!(start.elapsed() < limit, "not within {} s: {what}", limit.as_secs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
