//! Studies: the row that is locked by whoever changes anything of a study. Called by the reconcilers and `http`.

use elastune_api::study::{BestTrial, TrialCounts};
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::space::Params;
use elastune_core::model::study::{Goal, StudySpec, StudyState};
use elastune_core::rng::Seed;
use elastune_core::time::Time;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Error, Result, expect_one, from_word, from_words, unsigned, word};

/// A study as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    pub id: StudyId,
    pub spec: StudySpec,
    pub seed: Seed,
    pub state: StudyState,
    /// Where a stopping study goes.
    pub ending: Option<StudyState>,
    pub reason: Option<String>,
    pub archived: bool,
    pub created: Time,
    pub ended: Option<Time>,
    /// Trials numbered so far.
    pub next_number: u32,
    pub event_seq: u64,
    pub device_seconds: f64,
}

struct Row {
    id: Uuid,
    spec: Json<StudySpec>,
    seed: i64,
    state: String,
    ending: Option<String>,
    reason: Option<String>,
    archived: bool,
    created_ms: i64,
    ended_ms: Option<i64>,
    next_number: i64,
    event_seq: i64,
    device_seconds: f64,
}

impl TryFrom<Row> for Study {
    type Error = Error;

    fn try_from(row: Row) -> Result<Study> {
        Ok(Study {
            id: StudyId(row.id),
            spec: row.spec.0,
            seed: Seed(row.seed as u64),
            state: from_word("study state", &row.state)?,
            ending: from_words("study state", row.ending.as_deref())?,
            reason: row.reason,
            archived: row.archived,
            created: Time(row.created_ms),
            ended: row.ended_ms.map(Time),
            next_number: unsigned(row.next_number),
            event_seq: row.event_seq as u64,
            device_seconds: row.device_seconds,
        })
    }
}

macro_rules! select {
    ($rest:tt $(, $argument:expr)*) => {
        sqlx::query_as!(
            Row,
            r#"select id, spec as "spec: Json<StudySpec>", seed, state, ending, reason, archived, created_ms, ended_ms, next_number,
               event_seq, device_seconds + coalesce((select
                   sum(g.width * greatest(0, extract(epoch from clock_timestamp())::float8 - g.accounted_ms::float8 / 1000))
                   from groups g where g.study = studies.id), 0) as "device_seconds!" from studies "# + $rest
            $(, $argument)*
        )
    };
}

/// A new, active study. The caller appends its `StudyCreated`.
pub async fn insert(conn: &mut PgConnection, id: StudyId, spec: &StudySpec, seed: Seed, now: Time) -> Result<()> {
    sqlx::query!(
        "insert into studies (id, name, spec, seed, state, created_ms) values ($1, $2, $3, $4, 'active', $5)",
        id.0,
        spec.name,
        Json(spec) as _,
        seed.0 as i64,
        now.0
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn get(conn: &mut PgConnection, id: StudyId) -> Result<Study> {
    select!("where id = $1", id.0).fetch_optional(conn).await?.ok_or(Error::NotFound { what: "study" })?.try_into()
}

/// Several, by id; those that are gone are left out.
pub async fn get_all(conn: &mut PgConnection, ids: &[StudyId]) -> Result<Vec<Study>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let rows = select!("where id = any($1) order by id", &ids).fetch_all(conn).await?;
    rows.into_iter().map(Study::try_from).collect()
}

/// Takes the study's lock until the transaction ends.
pub async fn lock(conn: &mut PgConnection, id: StudyId) -> Result<Study> {
    select!("where id = $1 for update", id.0).fetch_optional(conn).await?.ok_or(Error::NotFound { what: "study" })?.try_into()
}

/// Locks several, in id order; those that are gone are left out.
pub async fn lock_all(conn: &mut PgConnection, ids: &[StudyId]) -> Result<Vec<Study>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let rows = select!("where id = any($1) order by id for update", &ids).fetch_all(conn).await?;
    rows.into_iter().map(Study::try_from).collect()
}

/// Every study that is not over, by creation.
pub async fn open(conn: &mut PgConnection) -> Result<Vec<Study>> {
    let rows = select!("where ended_ms is null order by created_ms, id").fetch_all(conn).await?;
    rows.into_iter().map(Study::try_from).collect()
}

/// Newest first, after the study `(created, id)`; only those in `state` and called `name`, where given.
pub async fn list_page(
    conn: &mut PgConnection,
    after: Option<(Time, StudyId)>,
    archived: bool,
    state: Option<StudyState>,
    name: Option<&str>,
    limit: i64,
) -> Result<Vec<Study>> {
    let (created, id) = after.map_or((i64::MAX, Uuid::max()), |(time, id)| (time.0, id.0));
    let rows = select!(
        "where (created_ms, id) < ($1, $2) and archived = $3 and ($4::text is null or state = $4) and ($5::text is null or name = $5)
         order by created_ms desc, id desc limit $6",
        created,
        id,
        archived,
        state.map(|state| word(&state)),
        name,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Study::try_from).collect()
}

/// Moves a study from `was` to `study.state`. `ended` is kept with it.
pub async fn mark_state(conn: &mut PgConnection, study: &Study, was: StudyState) -> Result<()> {
    let rows = sqlx::query!(
        "update studies set state = $3, ending = $4, reason = $5, ended_ms = $6 where id = $1 and state = $2",
        study.id.0,
        word(&was),
        word(&study.state),
        study.ending.map(|state| word(&state)),
        study.reason,
        study.ended.map(|time| time.0)
    )
    .execute(conn)
    .await?
    .rows_affected();
    expect_one(rows, "study_state", || format!("the study is no longer {}", word(&was)))
}

/// Limits changed by a user.
pub async fn mark_spec(conn: &mut PgConnection, id: StudyId, spec: &StudySpec) -> Result<()> {
    let rows = sqlx::query!("update studies set spec = $2 where id = $1 and ended_ms is null", id.0, Json(spec) as _)
        .execute(conn)
        .await?
        .rows_affected();
    expect_one(rows, "study_ended", || "the study has ended: its limits are history".into())
}

/// Hands out the next `count` trial numbers after `next_number`, which the caller read under the lock.
pub async fn claim_numbers(conn: &mut PgConnection, id: StudyId, next_number: u32, count: u32) -> Result<()> {
    let rows = sqlx::query!(
        "update studies set next_number = next_number + $3 where id = $1 and next_number = $2",
        id.0,
        i64::from(next_number),
        i64::from(count)
    )
    .execute(conn)
    .await?
    .rows_affected();
    expect_one(rows, "stale_number", || "the study's trials were numbered by someone else".into())
}

/// Takes back the highest number, whose trial is gone.
pub async fn return_number(conn: &mut PgConnection, id: StudyId, number: u32) -> Result<()> {
    let rows = sqlx::query!("update studies set next_number = $2 where id = $1 and next_number - 1 = $2", id.0, i64::from(number))
        .execute(conn)
        .await?
        .rows_affected();
    expect_one(rows, "stale_number", || format!("number {number} is not the highest any more"))
}

pub async fn mark_archived(conn: &mut PgConnection, id: StudyId, archived: bool) -> Result<()> {
    let rows = sqlx::query!("update studies set archived = $2 where id = $1", id.0, archived).execute(conn).await?.rows_affected();
    if rows == 1 { Ok(()) } else { Err(Error::NotFound { what: "study" }) }
}

/// Deletes the study with everything of it. Only one that has ended, so that no process is left without a row.
pub async fn delete(conn: &mut PgConnection, id: StudyId) -> Result<()> {
    let rows = sqlx::query!(
        "delete from studies where id = $1 and ended_ms is not null and not exists (select from groups where study = $1)",
        id.0
    )
    .execute(&mut *conn)
    .await?
    .rows_affected();
    if rows == 1 {
        return Ok(());
    }
    get(conn, id).await?;
    Err(Error::conflict("study_live", "the study still runs: cancel it first, and wait until its processes are gone"))
}

/// Trials by state.
pub async fn counts(conn: &mut PgConnection, id: StudyId) -> Result<TrialCounts> {
    let rows =
        sqlx::query!(r#"select state, count(*) as "count!" from trials where study = $1 group by state"#, id.0).fetch_all(conn).await?;
    let mut counts = TrialCounts::default();
    for row in rows {
        counts.add(from_word("trial state", &row.state)?, unsigned(row.count));
    }
    Ok(counts)
}

/// The best value of the study's first metric among trials that count.
pub async fn best(conn: &mut PgConnection, study: &Study) -> Result<Option<BestTrial>> {
    struct Best {
        id: Uuid,
        number: i64,
        value: Option<f64>,
        value_resource: Option<f64>,
        parameters: Json<Params>,
    }
    let Some(metric) = study.spec.metrics.first() else { return Ok(None) };
    let best = match metric.goal {
        Goal::Minimize => {
            sqlx::query_as!(
                Best,
                r#"select id, number, value, value_resource, parameters as "parameters: Json<Params>" from trials
                   where study = $1 and value is not null and not excluded and state not in ('failed', 'cancelled')
                   order by value, number limit 1"#,
                study.id.0
            )
            .fetch_optional(conn)
            .await?
        }
        Goal::Maximize => {
            sqlx::query_as!(
                Best,
                r#"select id, number, value, value_resource, parameters as "parameters: Json<Params>" from trials
                   where study = $1 and value is not null and not excluded and state not in ('failed', 'cancelled')
                   order by value desc, number limit 1"#,
                study.id.0
            )
            .fetch_optional(conn)
            .await?
        }
    };
    Ok(best.and_then(|row| {
        Some(BestTrial {
            trial: TrialId(row.id),
            number: unsigned(row.number),
            value: row.value?,
            resource: row.value_resource.unwrap_or(0.0),
            parameters: row.parameters.0,
        })
    }))
}
