//! Trials: one row each, read whole, changed in memory, written back whole. Called by the reconcilers and `http`, writers
//! holding the study's lock.

use std::collections::BTreeMap;

use elastune_core::model::event::MetricValue;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::space::Params;
use elastune_core::model::trial::{CheckpointRef, RateSample, Reason, TrialState};
use elastune_core::model::width::Width;
use elastune_core::time::Time;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Error, Result, expect_one, from_word, from_words, unsigned, width, word};

/// A trial as stored, with the width that its carry-out row says.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub id: TrialId,
    pub study: StudyId,
    pub number: u32,
    pub parameters: Params,
    pub state: TrialState,
    /// Where a stopping trial goes.
    pub ending: Option<TrialState>,
    pub reason: Option<Reason>,
    pub message: Option<String>,
    pub attempt: u32,
    pub failures: u32,
    pub run_until: f64,
    pub done: f64,
    pub held: bool,
    pub rates: Vec<RateSample>,
    pub metrics: BTreeMap<String, MetricValue>,
    /// Of the study's first metric.
    pub value: Option<f64>,
    pub value_resource: Option<f64>,
    /// The highest step measured.
    pub measured: Option<f64>,
    pub checkpoint: Option<CheckpointRef>,
    pub excluded: bool,
    pub alone: bool,
    pub peak_bytes: u64,
    pub last_resize: Option<Time>,
    pub results_since_resize: u32,
    pub lease: Option<Lease>,
    pub created: Time,
    pub started: Option<Time>,
    pub ended: Option<Time>,
    /// Up to now.
    pub device_seconds: f64,
    /// Of its carry-out row; zero without one.
    pub width: Width,
}

/// An outside worker's hold on a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    pub id: Uuid,
    pub holder: String,
    pub expires: Time,
}

impl Trial {
    /// The wire form. `max_resource`: of its study.
    pub fn to_api(&self, max_resource: f64) -> elastune_api::trial::Trial {
        elastune_api::trial::Trial {
            id: self.id,
            study: self.study,
            number: self.number,
            parameters: self.parameters.clone(),
            state: self.state,
            reason: self.reason,
            message: self.message.clone(),
            attempt: self.attempt,
            failures: self.failures,
            excluded: self.excluded,
            run_until: self.run_until,
            done: self.done,
            max_resource,
            width: self.width,
            metrics: self.metrics.clone(),
            value: self.value,
            rates: self.rates.clone(),
            checkpoint: self.checkpoint.clone(),
            created: self.created,
            started: self.started,
            ended: self.ended,
            device_seconds: self.device_seconds,
        }
    }
}

struct Row {
    id: Uuid,
    study: Uuid,
    number: i64,
    parameters: Json<Params>,
    state: String,
    ending: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    attempt: i64,
    failures: i64,
    run_until: f64,
    done: f64,
    held: bool,
    rates: Json<Vec<RateSample>>,
    metrics: Json<BTreeMap<String, MetricValue>>,
    value: Option<f64>,
    value_resource: Option<f64>,
    measured: Option<f64>,
    checkpoint: Option<Json<CheckpointRef>>,
    excluded: bool,
    alone: bool,
    peak_bytes: i64,
    last_resize_ms: Option<i64>,
    results_since_resize: i64,
    lease: Option<Uuid>,
    lease_holder: Option<String>,
    lease_expires_ms: Option<i64>,
    created_ms: i64,
    started_ms: Option<i64>,
    ended_ms: Option<i64>,
    device_seconds: f64,
    width: f64,
}

impl TryFrom<Row> for Trial {
    type Error = Error;

    fn try_from(row: Row) -> Result<Trial> {
        let lease = row.lease.zip(row.lease_holder).zip(row.lease_expires_ms);
        Ok(Trial {
            id: TrialId(row.id),
            study: StudyId(row.study),
            number: unsigned(row.number),
            parameters: row.parameters.0,
            state: from_word("trial state", &row.state)?,
            ending: from_words("trial state", row.ending.as_deref())?,
            reason: from_words("reason", row.reason.as_deref())?,
            message: row.message,
            attempt: unsigned(row.attempt),
            failures: unsigned(row.failures),
            run_until: row.run_until,
            done: row.done,
            held: row.held,
            rates: row.rates.0,
            metrics: row.metrics.0,
            value: row.value,
            value_resource: row.value_resource,
            measured: row.measured,
            checkpoint: row.checkpoint.map(|json| json.0),
            excluded: row.excluded,
            alone: row.alone,
            peak_bytes: row.peak_bytes as u64,
            last_resize: row.last_resize_ms.map(Time),
            results_since_resize: unsigned(row.results_since_resize),
            lease: lease.map(|((id, holder), expires)| Lease { id, holder, expires: Time(expires) }),
            created: Time(row.created_ms),
            started: row.started_ms.map(Time),
            ended: row.ended_ms.map(Time),
            device_seconds: row.device_seconds,
            width: width(row.width)?,
        })
    }
}

macro_rules! select {
    ($rest:tt $(, $argument:expr)*) => {
        sqlx::query_as!(
            Row,
            r#"select t.id, t.study, t.number, t.parameters as "parameters: Json<Params>", t.state, t.ending, t.reason, t.message,
               t.attempt, t.failures, t.run_until, t.done, t.held, t.rates as "rates: Json<Vec<RateSample>>",
               t.metrics as "metrics: Json<BTreeMap<String, MetricValue>>", t.value, t.value_resource, t.measured,
               t.checkpoint as "checkpoint: Json<CheckpointRef>", t.excluded, t.alone, t.peak_bytes, t.last_resize_ms,
               t.results_since_resize, t.lease, t.lease_holder, t.lease_expires_ms, t.created_ms, t.started_ms, t.ended_ms,
               t.device_seconds + coalesce(g.width * greatest(0, extract(epoch from clock_timestamp())::float8 - g.accounted_ms::float8 / 1000), 0)
               as "device_seconds!", coalesce(g.width, 0) as "width!" from trials t left join groups g on g.trial = t.id "# + $rest
            $(, $argument)*
        )
    };
}

/// What a new trial is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTrial {
    pub id: TrialId,
    pub number: u32,
    pub parameters: Params,
    pub run_until: f64,
}

/// New waiting trials, whose numbers the caller has claimed.
pub async fn insert(conn: &mut PgConnection, study: StudyId, trials: &[NewTrial], now: Time) -> Result<()> {
    let ids: Vec<Uuid> = trials.iter().map(|trial| trial.id.0).collect();
    let numbers: Vec<i64> = trials.iter().map(|trial| i64::from(trial.number)).collect();
    let parameters: Vec<Json<&Params>> = trials.iter().map(|trial| Json(&trial.parameters)).collect();
    let run_until: Vec<f64> = trials.iter().map(|trial| trial.run_until).collect();
    sqlx::query!(
        "insert into trials (id, study, number, parameters, state, run_until, created_ms)
         select t.id, $1, t.number, t.parameters, 'waiting', t.run_until, $2
         from unnest($3::uuid[], $4::bigint[], $5::json[], $6::float8[]) as t(id, number, parameters, run_until)",
        study.0,
        now.0,
        &ids,
        &numbers,
        &parameters as _,
        &run_until
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes a trial that nobody has started.
pub async fn withdraw(conn: &mut PgConnection, id: TrialId) -> Result<()> {
    let rows = sqlx::query!("delete from trials where id = $1 and state = 'waiting' and started_ms is null", id.0)
        .execute(conn)
        .await?
        .rows_affected();
    expect_one(rows, "trial_started", || "the trial has been started: it cannot be withdrawn any more".into())
}

pub async fn get(conn: &mut PgConnection, id: TrialId) -> Result<Trial> {
    select!("where t.id = $1", id.0).fetch_optional(conn).await?.ok_or(Error::NotFound { what: "trial" })?.try_into()
}

pub async fn get_number(conn: &mut PgConnection, study: StudyId, number: u32) -> Result<Trial> {
    let row = select!("where t.study = $1 and t.number = $2", study.0, i64::from(number)).fetch_optional(conn).await?;
    row.ok_or(Error::NotFound { what: "trial" })?.try_into()
}

/// Several, by number; those that are gone are left out.
pub async fn get_all(conn: &mut PgConnection, ids: &[TrialId]) -> Result<Vec<Trial>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let rows = select!("where t.id = any($1) order by t.number, t.id", &ids).fetch_all(conn).await?;
    rows.into_iter().map(Trial::try_from).collect()
}

/// The study of a trial: what to lock before the trial is read.
pub async fn study_of(conn: &mut PgConnection, id: TrialId) -> Result<StudyId> {
    let study = sqlx::query_scalar!("select study from trials where id = $1", id.0).fetch_optional(conn).await?;
    study.map(StudyId).ok_or(Error::NotFound { what: "trial" })
}

/// The studies of several trials; those that are gone are left out.
pub async fn studies_of(conn: &mut PgConnection, ids: &[TrialId]) -> Result<BTreeMap<TrialId, StudyId>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let rows = sqlx::query!("select id, study from trials where id = any($1)", &ids).fetch_all(conn).await?;
    Ok(rows.into_iter().map(|row| (TrialId(row.id), StudyId(row.study))).collect())
}

/// A study's trials that hold slots or want them, by number.
pub async fn live(conn: &mut PgConnection, study: StudyId) -> Result<Vec<Trial>> {
    let rows =
        select!("where t.study = $1 and t.state in ('waiting', 'starting', 'running', 'resizing', 'stopping') order by t.number", study.0)
            .fetch_all(conn)
            .await?;
    rows.into_iter().map(Trial::try_from).collect()
}

/// The same for every study that is not over, by study and number.
pub async fn all_live(conn: &mut PgConnection) -> Result<Vec<Trial>> {
    let rows = select!(
        "join studies s on s.id = t.study where s.ended_ms is null
         and t.state in ('waiting', 'starting', 'running', 'resizing', 'stopping') order by t.study, t.number"
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Trial::try_from).collect()
}

/// A study's paused trials, by number.
pub async fn paused(conn: &mut PgConnection, study: StudyId) -> Result<Vec<Trial>> {
    let rows = select!("where t.study = $1 and t.state = 'paused' order by t.number", study.0).fetch_all(conn).await?;
    rows.into_iter().map(Trial::try_from).collect()
}

/// Whether the study has a trial that is live, and one that is paused.
pub async fn any_open(conn: &mut PgConnection, study: StudyId) -> Result<(bool, bool)> {
    let row = sqlx::query!(
        r#"select exists (select from trials where study = $1
               and state in ('waiting', 'starting', 'running', 'resizing', 'stopping')) as "live!",
           exists (select from trials where study = $1 and state = 'paused') as "paused!""#,
        study.0
    )
    .fetch_one(conn)
    .await?;
    Ok((row.live, row.paused))
}

/// Trials whose outside worker has been silent past its lease.
pub async fn expired(conn: &mut PgConnection, now: Time, limit: i64) -> Result<Vec<(StudyId, TrialId)>> {
    let rows = sqlx::query!(
        "select study, id from trials where lease is not null and lease_expires_ms <= $1 order by lease_expires_ms limit $2",
        now.0,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (StudyId(row.study), TrialId(row.id))).collect())
}

/// How a page of trials is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Number {
        descending: bool,
    },
    /// Trials without a value come last either way.
    Value {
        descending: bool,
    },
}

/// The last trial of the page before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cursor {
    pub number: u32,
    pub value: Option<f64>,
}

/// At most `limit` trials of a study after `cursor`; only those in `states`, where any are given.
pub async fn list_page(
    conn: &mut PgConnection,
    study: StudyId,
    states: &[TrialState],
    order: Order,
    cursor: Option<Cursor>,
    limit: i64,
) -> Result<Vec<Trial>> {
    let states: Option<Vec<String>> = (!states.is_empty()).then(|| states.iter().map(word).collect());
    let states = states.as_deref();
    let number = cursor.map(|cursor| i64::from(cursor.number));
    let rows = match order {
        Order::Number { descending: false } => {
            select!(
                "where t.study = $1 and ($2::text[] is null or t.state = any($2)) and t.number > $3 order by t.number limit $4",
                study.0,
                states as _,
                number.unwrap_or(-1),
                limit
            )
            .fetch_all(conn)
            .await?
        }
        Order::Number { descending: true } => {
            select!(
                "where t.study = $1 and ($2::text[] is null or t.state = any($2)) and t.number < $3 order by t.number desc limit $4",
                study.0,
                states as _,
                number.unwrap_or(i64::MAX),
                limit
            )
            .fetch_all(conn)
            .await?
        }
        Order::Value { descending } => {
            let past_values = cursor.is_some_and(|cursor| cursor.value.is_none());
            let mut rows = Vec::new();
            if !past_values {
                let start = if descending { f64::INFINITY } else { f64::NEG_INFINITY };
                let value = cursor.and_then(|cursor| cursor.value).unwrap_or(start);
                rows = by_value(conn, study, states, descending, value, number, limit).await?;
            }
            let missing = limit - rows.len() as i64;
            if missing > 0 {
                let after = if past_values { number.unwrap_or(-1) } else { -1 };
                let rest = select!(
                    "where t.study = $1 and ($2::text[] is null or t.state = any($2)) and t.value is null and t.number > $3
                     order by t.number limit $4",
                    study.0,
                    states as _,
                    after,
                    missing
                )
                .fetch_all(conn)
                .await?;
                rows.extend(rest);
            }
            rows
        }
    };
    rows.into_iter().map(Trial::try_from).collect()
}

async fn by_value(
    conn: &mut PgConnection,
    study: StudyId,
    states: Option<&[String]>,
    descending: bool,
    value: f64,
    number: Option<i64>,
    limit: i64,
) -> Result<Vec<Row>> {
    Ok(if descending {
        select!(
            "where t.study = $1 and ($2::text[] is null or t.state = any($2)) and t.value is not null
             and (t.value, t.number) < ($3, $4) order by t.value desc, t.number desc limit $5",
            study.0,
            states as _,
            value,
            number.unwrap_or(i64::MAX),
            limit
        )
        .fetch_all(conn)
        .await?
    } else {
        select!(
            "where t.study = $1 and ($2::text[] is null or t.state = any($2)) and t.value is not null
             and (t.value, t.number) > ($3, $4) order by t.value, t.number limit $5",
            study.0,
            states as _,
            value,
            number.unwrap_or(-1),
            limit
        )
        .fetch_all(conn)
        .await?
    })
}

/// Writes back everything that may change of `trial`, if it is still in the state and attempt `was`. Device-seconds are
/// not written: `groups` adds to them.
pub async fn store(conn: &mut PgConnection, trial: &Trial, was: (TrialState, u32)) -> Result<()> {
    let rows = sqlx::query!(
        "update trials set state = $4, ending = $5, reason = $6, message = $7, attempt = $8, failures = $9, run_until = $10,
         done = $11, held = $12, rates = $13, metrics = $14, value = $15, value_resource = $16, checkpoint = $17, excluded = $18,
         alone = $19, peak_bytes = $20, last_resize_ms = $21, results_since_resize = $22, lease = $23, lease_holder = $24,
         lease_expires_ms = $25, started_ms = $26, ended_ms = $27, measured = $28
         where id = $1 and state = $2 and attempt = $3",
        trial.id.0,
        word(&was.0),
        i64::from(was.1),
        word(&trial.state),
        trial.ending.map(|state| word(&state)),
        trial.reason.map(|reason| word(&reason)),
        trial.message,
        i64::from(trial.attempt),
        i64::from(trial.failures),
        trial.run_until,
        trial.done,
        trial.held,
        Json(&trial.rates) as _,
        Json(&trial.metrics) as _,
        trial.value,
        trial.value_resource,
        trial.checkpoint.as_ref().map(Json) as _,
        trial.excluded,
        trial.alone,
        trial.peak_bytes as i64,
        trial.last_resize.map(|time| time.0),
        i64::from(trial.results_since_resize),
        trial.lease.as_ref().map(|lease| lease.id),
        trial.lease.as_ref().map(|lease| lease.holder.as_str()),
        trial.lease.as_ref().map(|lease| lease.expires.0),
        trial.started.map(|time| time.0),
        trial.ended.map(|time| time.0),
        trial.measured
    )
    .execute(conn)
    .await?
    .rows_affected();
    expect_one(rows, "trial_changed", || format!("trial {} is no longer {} in attempt {}", trial.number, word(&was.0), was.1))
}
