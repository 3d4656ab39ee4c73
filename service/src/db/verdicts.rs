//! Verdicts: a study's chain of judgements that took effect. Called by `reconcile::judge`.

use elastune_core::model::ids::StudyId;
use elastune_core::time::Time;
use serde::Serialize;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::{Result, expect_one};

/// The newest verdict's number; 0 where there is none.
pub async fn last(conn: &mut PgConnection, study: StudyId) -> Result<u64> {
    let number = sqlx::query_scalar!(r#"select coalesce(max(number), 0) as "number!" from verdicts where study = $1"#, study.0)
        .fetch_one(conn)
        .await?;
    Ok(number as u64)
}

/// Stores what was judged knowing the events up to `seq`, as the child of the one before: of two with one parent the second
/// is refused.
pub async fn insert(
    conn: &mut PgConnection,
    study: StudyId,
    number: u64,
    seq: u64,
    doc: &(impl Serialize + Sync),
    now: Time,
) -> Result<()> {
    let rows = sqlx::query!(
        "insert into verdicts (study, number, parent, seq, doc, created_ms) values ($1, $2, $3, $4, $5, $6) on conflict do nothing",
        study.0,
        number as i64,
        number as i64 - 1,
        seq as i64,
        Json(doc) as _,
        now.0
    )
    .execute(conn)
    .await?
    .rows_affected();
    expect_one(rows, "stale_verdict", || format!("verdict {number} was made by someone else"))
}
