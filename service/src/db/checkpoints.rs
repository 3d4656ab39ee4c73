//! Checkpoints that lie in the store, by trial. Called by `reconcile::ingest` and `http`.

use elastune_api::trial::Checkpoint;
use elastune_core::model::ids::TrialId;
use elastune_core::model::trial::CheckpointRef;
use elastune_core::time::Time;
use sqlx::PgConnection;

use super::{Result, unsigned};

/// Whether it is new.
pub async fn insert(conn: &mut PgConnection, trial: TrialId, attempt: u32, checkpoint: &CheckpointRef, now: Time) -> Result<bool> {
    let rows = sqlx::query!(
        "insert into checkpoints (trial, attempt, step, resource, sha256, bytes, at_ms) values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (trial, step, attempt) do nothing",
        trial.0,
        i64::from(attempt),
        checkpoint.step as i64,
        checkpoint.resource,
        checkpoint.sha256,
        checkpoint.bytes as i64,
        now.0
    )
    .execute(conn)
    .await?
    .rows_affected();
    Ok(rows == 1)
}

/// Newest first.
pub async fn list(conn: &mut PgConnection, trial: TrialId, limit: i64) -> Result<Vec<Checkpoint>> {
    let rows = sqlx::query!(
        "select attempt, step, resource, sha256, bytes, at_ms from checkpoints where trial = $1 order by step desc, attempt desc limit $2",
        trial.0,
        limit
    )
    .fetch_all(conn)
    .await?;
    let checkpoint = |sha256, resource, step: i64, bytes: i64| CheckpointRef { sha256, resource, step: step as u64, bytes: bytes as u64 };
    Ok(rows
        .into_iter()
        .map(|row| Checkpoint {
            checkpoint: checkpoint(row.sha256, row.resource, row.step, row.bytes),
            attempt: unsigned(row.attempt),
            at: Time(row.at_ms),
        })
        .collect())
}

/// Whether any trial still refers to these bytes.
pub async fn is_referenced(conn: &mut PgConnection, sha256: &str) -> Result<bool> {
    Ok(sqlx::query_scalar!(r#"select exists (select from checkpoints where sha256 = $1) as "is!""#, sha256).fetch_one(conn).await?)
}

/// Forgets the rows of `trial` that lie before `keep_from` (a step), except the one at `best`; gives the contents that nobody
/// refers to any more.
pub async fn prune(conn: &mut PgConnection, trial: TrialId, keep_from: u64, best: Option<f64>) -> Result<Vec<String>> {
    let gone = sqlx::query_scalar!(
        "delete from checkpoints where trial = $1 and step < $2 and ($3::float8 is null or resource <> $3) returning sha256",
        trial.0,
        keep_from as i64,
        best
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut unreferenced = Vec::new();
    for sha256 in gone {
        if !is_referenced(conn, &sha256).await? {
            unreferenced.push(sha256);
        }
    }
    Ok(unreferenced)
}
