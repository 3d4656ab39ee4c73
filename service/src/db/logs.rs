//! Log lines of trials' processes, bounded per trial. Called by `reconcile::ingest`, `reconcile::retention` and `http`.

use elastune_api::trial::LogLine;
use elastune_core::model::ids::TrialId;
use elastune_core::time::Time;
use sqlx::PgConnection;

use super::{Result, unsigned};

/// Lines kept of a trial; older ones are dropped now and then.
pub const LINES_PER_TRIAL: i64 = 10_000;
/// Characters kept of a line.
pub const LINE_CHARS: usize = 4_000;

pub async fn insert(conn: &mut PgConnection, trial: TrialId, attempt: u32, at: Time, source: &str, line: &str) -> Result<()> {
    // Text that Postgres cannot hold is no reason to lose the rest.
    let clean = |text: &str, chars| text.chars().filter(|c| *c != '\0').take(chars).collect::<String>();
    sqlx::query!(
        "insert into logs (trial, attempt, at_ms, source, line) values ($1, $2, $3, $4, $5)",
        trial.0,
        i64::from(attempt),
        at.0,
        clean(source, 100),
        clean(line, LINE_CHARS)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// At most `limit` lines after line `id`, oldest first.
pub async fn list_page(conn: &mut PgConnection, trial: TrialId, after: i64, limit: i64) -> Result<Vec<LogLine>> {
    let rows = sqlx::query!(
        "select id, at_ms, attempt, source, line from logs where trial = $1 and id > $2 order by id limit $3",
        trial.0,
        after,
        limit
    )
    .fetch_all(conn)
    .await?;
    let line = |id, at, attempt, source, line| LogLine { id, at: Time(at), attempt: unsigned(attempt), source, line };
    Ok(rows.into_iter().map(|row| line(row.id, row.at_ms, row.attempt, row.source, row.line)).collect())
}

/// Keeps the newest lines of each trial.
pub async fn trim(conn: &mut PgConnection, lines_per_trial: i64) -> Result<u64> {
    let rows = sqlx::query!(
        "with long as (select trial from logs group by trial having count(*) > $1),
         edge as (select l.trial, k.id from long l cross join lateral
                  (select id from logs where logs.trial = l.trial order by id desc offset $1 - 1 limit 1) k)
         delete from logs using edge where logs.trial = edge.trial and logs.id < edge.id",
        lines_per_trial
    )
    .execute(conn)
    .await?;
    Ok(rows.rows_affected())
}
