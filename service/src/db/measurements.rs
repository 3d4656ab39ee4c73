//! Measurements: (trial, step) is unique, the first stays. Called by `reconcile::ingest`, `reconcile::outside` and `http`.

use std::collections::BTreeMap;

use elastune_api::trial::Measurement;
use elastune_core::model::event::MetricValue;
use elastune_core::model::ids::TrialId;
use elastune_core::time::Time;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::Result;

/// Whether it is new; one of the same step that is there already stays as it is.
pub async fn insert(conn: &mut PgConnection, trial: TrialId, attempt: u32, measurement: &Measurement, now: Time) -> Result<bool> {
    let rows = sqlx::query!(
        "insert into measurements (trial, step, metrics, elapsed_s, attempt, at_ms) values ($1, $2, $3, $4, $5, $6)
         on conflict (trial, step) do nothing",
        trial.0,
        measurement.step,
        Json(&measurement.metrics) as _,
        measurement.elapsed_s,
        i64::from(attempt),
        now.0
    )
    .execute(conn)
    .await?
    .rows_affected();
    Ok(rows == 1)
}

/// Of one trial, by step, after `step`.
pub async fn list_page(conn: &mut PgConnection, trial: TrialId, after: f64, limit: i64) -> Result<Vec<Measurement>> {
    let rows = sqlx::query!(
        r#"select step, metrics as "metrics: Json<BTreeMap<String, MetricValue>>", elapsed_s from measurements
           where trial = $1 and step > $2 order by step limit $3"#,
        trial.0,
        after,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| Measurement { step: row.step, metrics: row.metrics.0, elapsed_s: row.elapsed_s }).collect())
}
