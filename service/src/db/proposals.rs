//! Proposals: a study's chain of draws, each with how much of the study's history it knew. Called by `reconcile::propose`.

use elastune_core::model::ids::StudyId;
use elastune_core::time::Time;
use sqlx::PgConnection;

use super::{Result, expect_one};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    pub number: u64,
    /// The last event that it knew.
    pub seq: u64,
    /// Whose open slots it fills; 0 for an outside worker's.
    pub plan: u64,
    /// Trials asked for.
    pub asked: u32,
    pub first_trial: u32,
    pub trials: u32,
}

/// Stores it as the child of the one before: of two with one parent, or for one plan, the second is refused.
pub async fn insert(conn: &mut PgConnection, study: StudyId, proposal: &Proposal, now: Time) -> Result<()> {
    let rows = sqlx::query!(
        "insert into proposals (study, number, parent, seq, plan, asked, first_trial, trials, created_ms)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict do nothing",
        study.0,
        proposal.number as i64,
        proposal.number as i64 - 1,
        proposal.seq as i64,
        proposal.plan as i64,
        i64::from(proposal.asked),
        i64::from(proposal.first_trial),
        i64::from(proposal.trials),
        now.0
    )
    .execute(conn)
    .await?
    .rows_affected();
    expect_one(rows, "stale_proposal", || format!("proposal {} was made by someone else", proposal.number))
}

/// The newest proposal's number, and the newest plan whose open slots were filled; 0 where there is none.
pub async fn last(conn: &mut PgConnection, study: StudyId) -> Result<(u64, u64)> {
    let row = sqlx::query!(
        r#"select coalesce(max(number), 0) as "number!", coalesce(max(plan), 0) as "plan!" from proposals where study = $1"#,
        study.0
    )
    .fetch_one(conn)
    .await?;
    Ok((row.number as u64, row.plan as u64))
}
