//! The one row about the cluster: epoch, current plan, and since when a service has been watching. Its lock is the last that a
//! transaction takes. Called by the reconcilers and `http`.

use elastune_core::model::plan::Report;
use elastune_core::time::{Span, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::Result;

#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    pub epoch: u64,
    /// The current plan's number; 0 before the first.
    pub plan: u64,
    pub problem: Option<String>,
}

pub async fn get(conn: &mut PgConnection) -> Result<Cluster> {
    let row = sqlx::query!("select epoch, plan, problem from cluster").fetch_one(conn).await?;
    Ok(Cluster { epoch: row.epoch as u64, plan: row.plan as u64, problem: row.problem })
}

/// Takes the cluster's lock until the transaction ends.
pub async fn lock(conn: &mut PgConnection) -> Result<Cluster> {
    let row = sqlx::query!("select epoch, plan, problem from cluster for update").fetch_one(conn).await?;
    Ok(Cluster { epoch: row.epoch as u64, plan: row.plan as u64, problem: row.problem })
}

/// The newest decision's report, whether or not it made a plan.
pub async fn report(conn: &mut PgConnection) -> Result<Report> {
    Ok(sqlx::query_scalar!(r#"select report as "report: Json<Report>" from cluster"#).fetch_one(conn).await?.0)
}

/// What the newest decision left for the next one; the empty memory before the first, or if it cannot be read any more.
pub async fn memory<M: DeserializeOwned + Default>(conn: &mut PgConnection) -> Result<M> {
    let text = sqlx::query_scalar!(r#"select memory::text as "memory!" from cluster"#).fetch_one(conn).await?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// The newest decision made this plan. The caller holds the lock.
pub async fn mark_decided(conn: &mut PgConnection, plan: u64, report: &Report, memory: &(impl Serialize + Sync)) -> Result<()> {
    sqlx::query!(
        "update cluster set plan = $1, report = $2, memory = $3, problem = null",
        plan as i64,
        Json(report) as _,
        Json(memory) as _
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The newest decision kept plan `plan`, if that is still the current one.
pub async fn mark_same(conn: &mut PgConnection, plan: u64, report: &Report, memory: &(impl Serialize + Sync)) -> Result<()> {
    sqlx::query!(
        "update cluster set report = $2, memory = $3, problem = null where plan = $1
         and (problem is not null or report::text <> $2::json::text or memory::text <> $3::json::text)",
        plan as i64,
        Json(report) as _,
        Json(memory) as _
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The decision was refused: its plan is not stored, the problem is shown. Whether the problem is new.
pub async fn mark_problem(conn: &mut PgConnection, problem: &str) -> Result<bool> {
    let rows = sqlx::query!("update cluster set problem = $1 where problem is distinct from $1", problem).execute(conn).await?;
    Ok(rows.rows_affected() == 1)
}

/// A service looks for silent nodes now. Gives the moment since when some service has done so without a gap above `gap`:
/// silence before it is our own fault.
pub async fn mark_watched(conn: &mut PgConnection, now: Time, gap: Span) -> Result<Time> {
    let since = sqlx::query_scalar!(
        "update cluster set watching_since_ms = case when watched_ms + $2 < $1 then $1 else watching_since_ms end,
         watched_ms = greatest(watched_ms, $1) returning watching_since_ms",
        now.0,
        gap.0
    )
    .fetch_one(conn)
    .await?;
    Ok(Time(since))
}

/// After a backup was restored: agents end the workers of the epoch before.
pub async fn raise_epoch(conn: &mut PgConnection) -> Result<u64> {
    Ok(sqlx::query_scalar!("update cluster set epoch = epoch + 1 returning epoch").fetch_one(conn).await? as u64)
}
