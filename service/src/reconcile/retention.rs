//! Keeps database and checkpoint store from growing without end: old plans, log lines, expired tokens and answers, checkpoints
//! that nothing resumes from. Called by the driver.

use elastune_core::time::{Span, Time};
use futures::{StreamExt, TryStreamExt};
use sqlx::PgConnection;

use crate::checkpoints::{CheckpointStore, Sha256Hex};
use crate::db::{self, Result, cluster, idempotency, logs, plans, studies, tokens};

const DAY: i64 = 24 * 3600;
/// Plans are kept for this long, and always the newest ones.
const PLANS: Span = Span::from_secs(30 * DAY);
const NEWEST_PLANS: u64 = 100;
const ANSWERS: Span = Span::from_secs(DAY);

/// One sweep. Events and measurements stay as long as their study.
pub async fn sweep(conn: &mut PgConnection) -> Result<()> {
    let now = crate::db::now(conn).await?;
    let ago = |span: Span| Time(now.0 - span.0);
    let current = cluster::get(conn).await?.plan;
    plans::delete_before(conn, current.saturating_sub(NEWEST_PLANS), ago(PLANS)).await?;
    logs::trim(conn, logs::LINES_PER_TRIAL).await?;
    tokens::delete_expired(conn, now).await?;
    idempotency::delete_before(conn, ago(ANSWERS)).await?;
    Ok(())
}

/// Bytes that no row names are left alone for this long: the report about them may still be on its way.
const UNNAMED: Span = Span::from_secs(DAY);
const NAMES_AT_ONCE: usize = 500;

/// Forgets checkpoints that nothing resumes from and deletes their bytes, and bytes that no study knows. Gives the number of
/// checkpoints deleted.
///
/// # Errors
/// Database or store do not answer; what is left is done at the next sweep.
pub async fn sweep_checkpoints(conn: &mut PgConnection, store: &CheckpointStore) -> anyhow::Result<usize> {
    let mut deleted = 0;
    for id in db::checkpoints::studies_with_surplus(conn).await? {
        let Some(study) = studies::get_all(conn, &[id]).await?.pop() else { continue };
        let gone = db::checkpoints::prune(conn, &study).await?;
        deleted += delete(store, &gone).await?;
    }
    let before = Time(db::now(conn).await?.0 - UNNAMED.0);
    let mut old = store.written_before(before.0 / 1000).try_chunks(NAMES_AT_ONCE);
    while let Some(names) = old.next().await {
        let names: Vec<String> = names.map_err(|error| error.1)?.iter().map(|name| name.as_str().to_owned()).collect();
        deleted += delete(store, &db::checkpoints::unknown(conn, names).await?).await?;
    }
    Ok(deleted)
}

async fn delete(store: &CheckpointStore, names: &[String]) -> anyhow::Result<usize> {
    for name in names.iter().filter_map(|name| Sha256Hex::parse(name)) {
        store.delete(&name).await?;
    }
    Ok(names.len())
}
