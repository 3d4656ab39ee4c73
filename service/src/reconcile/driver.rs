//! Runs the reconcilers: on wake-ups, at the moments that decisions name, and on a tick that makes up for whatever was missed.
//! Started by `main`, once in each replica.

use std::collections::BTreeSet;
use std::time::Duration;

use elastune_core::model::ids::StudyId;
use elastune_core::time::Time;
use sqlx::{PgConnection, PgPool};
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{decide, judge, lifecycle, propose, retention, watch};
use crate::checkpoints::CheckpointStore;
use crate::db::notify::{self, Wake, Wakes};
use crate::db::{Error, Result, studies};

/// Without a wake-up every loop looks again after this long.
const TICK: Duration = Duration::from_secs(5);
const WATCH: Duration = Duration::from_secs(1);
const SWEEP: Duration = Duration::from_secs(600);
/// Wake-ups within this time are answered together.
const GATHER: Duration = Duration::from_millis(20);

/// Starts the loops; they end, each at its next pause, when `stop` is cancelled.
pub fn spawn(pool: PgPool, wakes: &Wakes, stop: CancellationToken) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(until(stop.clone(), studies_loop(pool.clone(), wakes.subscribe())));
    tasks.spawn(until(stop.clone(), decide_loop(pool.clone(), wakes.subscribe())));
    tasks.spawn(until(stop.clone(), watch_loop(pool.clone())));
    tasks.spawn(until(stop, sweep_loop(pool)));
    tasks
}

async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    stop.run_until_cancelled(work).await;
}

/// What wake-ups were about.
#[derive(Debug, Default)]
struct Dirty {
    studies: BTreeSet<StudyId>,
    cluster: bool,
    all: bool,
}

impl Dirty {
    fn add(&mut self, wake: Wake) {
        match wake {
            Wake::Study(study) => {
                self.studies.insert(study);
            }
            Wake::Cluster => self.cluster = true,
            Wake::All => self.all = true,
            Wake::Node(_) => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.studies.is_empty() && !self.cluster && !self.all
    }
}

/// Waits for wake-ups and gathers what comes at once; after `at_most` everything is due. None: the process no longer listens.
async fn next(wakes: &mut Receiver<Wake>, at_most: Duration) -> Option<Dirty> {
    let mut dirty = Dirty::default();
    let heard = timeout(at_most, async {
        while dirty.is_empty() {
            dirty.add(notify::next(wakes).await?);
        }
        Some(())
    })
    .await;
    match heard {
        Ok(None) => return None,
        Err(_) => dirty.all = true,
        Ok(Some(())) => {}
    }
    // Ends by the clock, however fast they come.
    let gathered = timeout(GATHER, async {
        while let Some(wake) = notify::next(wakes).await {
            dirty.add(wake);
        }
    });
    let _ = gathered.await;
    Some(dirty)
}

/// Judges, fills open slots and ends studies.
async fn studies_loop(pool: PgPool, mut wakes: Receiver<Wake>) {
    let mut wait = Duration::ZERO;
    while let Some(dirty) = next(&mut wakes, wait).await {
        let done = async {
            let mut conn = pool.acquire().await?;
            let ids = if dirty.all { studies::open(&mut conn).await?.into_iter().map(|study| study.id).collect() } else { dirty.studies };
            for study in ids {
                one_study(&mut conn, study).await?;
            }
            Ok(())
        };
        wait = after(done.await, "looking after studies");
    }
}

/// Each reconciler on its own: what one does wakes the others again.
pub async fn one_study(conn: &mut PgConnection, study: StudyId) -> Result<()> {
    lost_race_is_fine(judge::run(conn, study).await)?;
    lost_race_is_fine(propose::fill(conn, study).await)?;
    lost_race_is_fine(lifecycle::settle(conn, study).await)
}

async fn decide_loop(pool: PgPool, mut wakes: Receiver<Wake>) {
    let mut wait = Duration::ZERO;
    while next(&mut wakes, wait).await.is_some() {
        let done = async {
            let mut conn = pool.acquire().await?;
            let outcome = decide::run(&mut conn).await?;
            let now = crate::db::now(&mut conn).await?;
            Ok((outcome, now))
        };
        wait = match done.await {
            Ok((decide::Outcome::Refused { problem, is_new }, _)) => {
                if is_new {
                    tracing::error!(problem, "the plan before stays");
                }
                TICK
            }
            Ok((decide::Outcome::Same { wake_at } | decide::Outcome::Planned { wake_at, .. }, now)) => until_time(wake_at, now),
            // Another replica decided; it may not have seen what we saw.
            Err(Error::Conflict { .. }) => GATHER,
            Err(error) => after(Err(error), "deciding"),
        };
    }
}

fn until_time(wake_at: Option<Time>, now: Time) -> Duration {
    let ms = wake_at.map_or(i64::MAX, |at| (at - now).0.max(1));
    TICK.min(Duration::from_millis(ms as u64))
}

/// Deletes checkpoints that nothing needs any more, now and then, until `stop`.
pub async fn sweep_checkpoints(pool: PgPool, store: CheckpointStore, stop: CancellationToken) {
    let sweeping = async {
        loop {
            sleep(SWEEP).await;
            let done = async { retention::sweep_checkpoints(&mut *pool.acquire().await?, &store).await };
            if let Err(error) = done.await {
                tracing::warn!(cause = format!("{error:#}"), "sweeping checkpoints failed; trying again");
            }
        }
    };
    until(stop, sweeping).await;
}

async fn watch_loop(pool: PgPool) {
    loop {
        let done = async { watch::look(&mut *pool.acquire().await?).await };
        after(done.await, "watching nodes and leases");
        sleep(WATCH).await;
    }
}

async fn sweep_loop(pool: PgPool) {
    loop {
        sleep(SWEEP).await;
        let done = async { retention::sweep(&mut *pool.acquire().await?).await };
        after(done.await, "sweeping");
    }
}

/// How long to wait for the next wake-up. A failure is logged and tried again soon; the database may be away.
fn after(done: Result<()>, what: &str) -> Duration {
    match done {
        Ok(()) => TICK,
        Err(error) => {
            tracing::warn!(%error, "{what} failed; trying again");
            WATCH
        }
    }
}

/// Another replica was first, or the study is gone: the next look sees what it did.
fn lost_race_is_fine<T>(result: Result<T>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(Error::Conflict { code, detail }) => {
            tracing::debug!(code, detail, "someone else was first");
            Ok(())
        }
        Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
