//! Plans: the cluster's chain of decisions, each with what it was decided from. Called by `reconcile::decide` and `http`.

use elastune_api::cluster::PlanPage;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::plan::{Plan, PlanEntry, Report};
use elastune_core::model::snapshot::Snapshot;
use elastune_core::rng::Seed;
use elastune_core::time::Time;
use serde::Serialize;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::{Error, Result, expect_one, unsigned};

/// A decision and all that it was made from, so that it can be made again.
#[derive(Debug)]
pub struct Decided<'a, M> {
    pub plan: &'a Plan,
    /// What the decision before had left.
    pub memory: &'a M,
    pub report: &'a Report,
    pub snapshot: &'a Snapshot,
    pub seed: Seed,
    pub wake_at: Option<Time>,
}

/// Stores a plan as the child of `plan.parent`: of two decisions with one parent the second is refused.
pub async fn insert<M: Serialize + Sync>(conn: &mut PgConnection, decided: &Decided<'_, M>, now: Time) -> Result<()> {
    let number = decided.plan.number;
    let rows = sqlx::query!(
        "insert into plans (number, parent, plan, memory, report, snapshot, seed, wake_at_ms, created_ms)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict do nothing",
        number as i64,
        decided.plan.parent as i64,
        Json(decided.plan) as _,
        Json(decided.memory) as _,
        Json(decided.report) as _,
        Json(decided.snapshot) as _,
        decided.seed.0 as i64,
        decided.wake_at.map(|time| time.0),
        now.0
    )
    .execute(conn)
    .await?
    .rows_affected();
    expect_one(rows, "stale_plan", || format!("plan {number} was made by someone else"))
}

pub async fn get(conn: &mut PgConnection, number: u64) -> Result<PlanPage> {
    let row = sqlx::query!(
        r#"select plan as "plan: Json<Plan>", report as "report: Json<Report>", created_ms from plans where number = $1"#,
        number as i64
    )
    .fetch_optional(conn)
    .await?
    .ok_or(Error::NotFound { what: "plan" })?;
    Ok(PlanPage { plan: row.plan.0, report: row.report.0, created: Time(row.created_ms) })
}

/// The current plan: empty and 0 before the first.
pub async fn current(conn: &mut PgConnection) -> Result<Plan> {
    let plan = sqlx::query_scalar!(r#"select p.plan as "plan: Json<Plan>" from plans p join cluster c on c.plan = p.number"#)
        .fetch_optional(conn)
        .await?;
    Ok(plan.map_or_else(Plan::default, |json| json.0))
}

/// The current plan's entries about some trials, and its number.
pub async fn entries(conn: &mut PgConnection, trials: &[TrialId]) -> Result<(u64, Vec<PlanEntry>)> {
    let ids: Vec<String> = trials.iter().map(TrialId::to_string).collect();
    let rows = sqlx::query!(
        r#"select c.plan as "number!", e.entry as "entry: Json<PlanEntry>"
           from cluster c left join plans p on p.number = c.plan
           left join lateral json_array_elements(p.plan->'entries') as e(entry) on e.entry->>'trial' = any($1)"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    let number = rows.first().map_or(0, |row| row.number as u64);
    Ok((number, rows.into_iter().filter_map(|row| row.entry.map(|json| json.0)).collect()))
}

/// The current plan's number and how many slots it keeps open for a study.
pub async fn open_slots(conn: &mut PgConnection, study: StudyId) -> Result<(u64, u32)> {
    let row = sqlx::query!(
        r#"select c.plan as "number!", count(o.slot) as "slots!" from cluster c left join plans p on p.number = c.plan
           left join lateral json_array_elements(p.plan->'open') as o(slot) on o.slot->>'study' = $1 group by c.plan"#,
        study.to_string()
    )
    .fetch_one(conn)
    .await?;
    Ok((row.number as u64, unsigned(row.slots)))
}

/// Forgets what plans before `number` and `before` were decided from, and them: the chain keeps its newest part.
pub async fn delete_before(conn: &mut PgConnection, number: u64, before: Time) -> Result<u64> {
    let rows = sqlx::query!("delete from plans where number < $1 and created_ms < $2", number as i64, before.0).execute(conn).await?;
    Ok(rows.rows_affected())
}
