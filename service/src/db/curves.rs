//! A study's measurements side by side, for charts and exports. Called by `http`.

use std::collections::BTreeMap;

use elastune_api::study::HistoryPoint;
use elastune_api::trial::Measurement;
use elastune_core::model::event::MetricValue;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::space::Params;
use elastune_core::model::study::Goal;
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::time::Time;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Result, from_word, from_words, unsigned};

/// What charts and exports need of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub id: TrialId,
    pub number: u32,
    pub state: TrialState,
    pub reason: Option<Reason>,
    pub parameters: Params,
    pub value: Option<f64>,
    pub excluded: bool,
}

/// At most `limit` trials from number `from` on, by number.
pub async fn lines(conn: &mut PgConnection, study: StudyId, from: u32, limit: i64) -> Result<Vec<Line>> {
    let rows = sqlx::query!(
        r#"select id, number, state, reason, parameters as "parameters: Json<Params>", value, excluded from trials
           where study = $1 and number >= $2 order by number limit $3"#,
        study.0,
        i64::from(from),
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Line {
                id: TrialId(row.id),
                number: unsigned(row.number),
                state: from_word("trial state", &row.state)?,
                reason: from_words("reason", row.reason.as_deref())?,
                parameters: row.parameters.0,
                value: row.value,
                excluded: row.excluded,
            })
        })
        .collect()
}

/// Points of one metric, by trial: (step, value; null where it was not finite), by step.
pub async fn points(conn: &mut PgConnection, trials: &[TrialId], metric: &str) -> Result<BTreeMap<TrialId, Vec<(f64, Option<f64>)>>> {
    let ids: Vec<Uuid> = trials.iter().map(|id| id.0).collect();
    let rows = sqlx::query!(
        r#"select trial, step, case when json_typeof(metrics->$2) = 'number' then (metrics->>$2)::float8 end as value
           from measurements where trial = any($1) and metrics->$2 is not null order by trial, step"#,
        &ids,
        metric
    )
    .fetch_all(conn)
    .await?;
    let mut points: BTreeMap<TrialId, Vec<_>> = BTreeMap::new();
    for row in rows {
        points.entry(TrialId(row.trial)).or_default().push((row.step, row.value));
    }
    Ok(points)
}

/// Each measurement that was better than all before it, in the order in which they came.
pub async fn best_so_far(conn: &mut PgConnection, study: StudyId, metric: &str, goal: Goal) -> Result<Vec<HistoryPoint>> {
    let sign = goal.loss(1.0);
    let rows = sqlx::query!(
        r#"select at_ms as "at_ms!", number as "number!", loss as "loss!" from (
             select at_ms, number, loss, min(loss) over (order by at_ms, number, step rows between unbounded preceding and 1 preceding) as before
             from (select m.at_ms, t.number, m.step, $3 * (m.metrics->>$2)::float8 as loss
                   from measurements m join trials t on t.id = m.trial
                   where t.study = $1 and not t.excluded and json_typeof(m.metrics->$2) = 'number') points
           ) points where before is null or loss < before order by at_ms, number"#,
        study.0,
        metric,
        sign
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| HistoryPoint { at: Time(row.at_ms), number: unsigned(row.number), value: goal.loss(row.loss) }).collect())
}

/// All measurements of some trials, by step.
pub async fn measurements(conn: &mut PgConnection, trials: &[TrialId]) -> Result<BTreeMap<TrialId, Vec<Measurement>>> {
    let ids: Vec<Uuid> = trials.iter().map(|id| id.0).collect();
    let rows = sqlx::query!(
        r#"select trial, step, metrics as "metrics: Json<BTreeMap<String, MetricValue>>", elapsed_s
           from measurements where trial = any($1) order by trial, step"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    let mut found: BTreeMap<TrialId, Vec<Measurement>> = BTreeMap::new();
    for row in rows {
        let measurement = Measurement { step: row.step, metrics: row.metrics.0, elapsed_s: row.elapsed_s };
        found.entry(TrialId(row.trial)).or_default().push(measurement);
    }
    Ok(found)
}

/// Names of every metric that the study's trials reported, sorted.
pub async fn metric_names(conn: &mut PgConnection, study: StudyId) -> Result<Vec<String>> {
    let names = sqlx::query_scalar!(
        r#"select distinct k.name as "name!" from measurements m join trials t on t.id = m.trial
           cross join lateral json_object_keys(m.metrics) as k(name) where t.study = $1 order by 1"#,
        study.0
    )
    .fetch_all(conn)
    .await?;
    Ok(names)
}
