//! Checkpoints that lie in the store, by trial. Called by `reconcile::ingest` and `http`.

use elastune_api::trial::Checkpoint;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::trial::CheckpointRef;
use elastune_core::time::Time;
use sqlx::PgConnection;

use super::studies::Study;
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

/// Studies in which some trial has more checkpoints than are kept.
pub async fn studies_with_surplus(conn: &mut PgConnection) -> Result<Vec<StudyId>> {
    let rows = sqlx::query_scalar!(
        "select distinct t.study from trials t
         where t.id in (select trial from checkpoints group by trial having count(*) > 2) order by t.study"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(StudyId).collect())
}

/// Keeps each trial's newest checkpoint, the one of its best measurement and the one that its processes started from. Gives the
/// contents that nobody refers to any more. A checkpoint that an attempt redoes lies after the newest, so none comes back.
pub async fn prune(conn: &mut PgConnection, study: &Study) -> Result<Vec<String>> {
    let Some(metric) = study.spec.metrics.first() else { return Ok(Vec::new()) };
    let mut gone = sqlx::query_scalar!(
        "delete from checkpoints c using trials t
         where t.id = c.trial and t.study = $1 and c.step < (t.checkpoint->>'step')::bigint
           and c.resource is distinct from (
               select m.step from measurements m where m.trial = t.id and json_typeof(m.metrics->$2) = 'number'
               order by $3::float8 * (m.metrics->>$2)::float8, m.step limit 1)
           and not exists (select from groups g where g.trial = t.id and g.checkpoint->>'sha256' = c.sha256)
         returning c.sha256",
        study.id.0,
        metric.name,
        metric.goal.loss(1.0)
    )
    .fetch_all(&mut *conn)
    .await?;
    gone.sort();
    gone.dedup();
    unknown(conn, gone).await
}

/// Those of `names` to which no trial refers.
pub async fn unknown(conn: &mut PgConnection, mut names: Vec<String>) -> Result<Vec<String>> {
    let known = sqlx::query_scalar!("select distinct sha256 from checkpoints where sha256 = any($1)", &names).fetch_all(conn).await?;
    names.retain(|name| !known.contains(name));
    Ok(names)
}
