//! What happened in a study, in commit order. Called by every reconciler and by `http`, whoever writes holding the study's lock.

use elastune_api::study::StudyEventLine;
use elastune_core::model::event::{Event, StudyEvent};
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::time::Time;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::notify::{self, Wake};
use super::{Error, Result, unsigned};

/// Appends in order, draws their numbers under the study's lock and wakes whoever looks at the study. Gives the last number.
pub async fn append(conn: &mut PgConnection, study: StudyId, at: Time, events: &[Event]) -> Result<u64> {
    let count = events.len() as i64;
    let last = sqlx::query_scalar!("update studies set event_seq = event_seq + $2 where id = $1 returning event_seq", study.0, count)
        .fetch_optional(&mut *conn)
        .await?
        .ok_or(Error::NotFound { what: "study" })?;
    if events.is_empty() {
        return Ok(last as u64);
    }
    let kinds: Vec<String> = events.iter().map(|event| kind(event).to_owned()).collect();
    let trials: Vec<Option<uuid::Uuid>> = events.iter().map(|event| trial(event).map(|id| id.0)).collect();
    let docs: Vec<String> = events.iter().map(text).collect::<Result<_>>()?;
    sqlx::query!(
        r#"insert into events (study, seq, kind, trial, at_ms, doc)
           select $1, $2 + e.n, e.kind, e.trial, $3, e.doc::json
           from unnest($4::text[], $5::uuid[], $6::text[]) with ordinality as e(kind, trial, doc, n)"#,
        study.0,
        last - count,
        at.0,
        &kinds,
        &trials as &[Option<uuid::Uuid>],
        &docs
    )
    .execute(&mut *conn)
    .await?;
    notify::send(conn, Wake::Study(study)).await?;
    Ok(last as u64)
}

/// At most `limit` events after `seq`.
pub async fn after(conn: &mut PgConnection, study: StudyId, seq: u64, limit: i64) -> Result<Vec<StudyEvent>> {
    let rows = sqlx::query!(
        r#"select seq, at_ms, doc as "doc: Json<Event>" from events where study = $1 and seq > $2 order by seq limit $3"#,
        study.0,
        seq as i64,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| StudyEvent { seq: row.seq as u64, at: Time(row.at_ms), event: row.doc.0 }).collect())
}

/// The same for people and pages.
pub async fn list_page(conn: &mut PgConnection, study: StudyId, seq: u64, limit: i64) -> Result<Vec<StudyEventLine>> {
    let rows = sqlx::query!(
        "select seq, kind, trial, at_ms, doc from events where study = $1 and seq > $2 order by seq limit $3",
        study.0,
        seq as i64,
        limit
    )
    .fetch_all(conn)
    .await?;
    let line = |seq: i64, at: i64, kind, trial: Option<uuid::Uuid>, event| StudyEventLine {
        seq: seq as u64,
        at: Time(at),
        kind,
        trial: trial.map(TrialId),
        event,
    };
    Ok(rows.into_iter().map(|row| line(row.seq, row.at_ms, row.kind, row.trial, row.doc)).collect())
}

/// A trial's newest events of some kinds, newest first.
pub async fn of_trial(conn: &mut PgConnection, trial: TrialId, kinds: &[&str], limit: i64) -> Result<Vec<StudyEvent>> {
    let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let rows = sqlx::query!(
        r#"select seq, at_ms, doc as "doc: Json<Event>" from events where trial = $1 and kind = any($2) order by seq desc limit $3"#,
        trial.0,
        &kinds,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| StudyEvent { seq: row.seq as u64, at: Time(row.at_ms), event: row.doc.0 }).collect())
}

/// A study's newest events of some kinds that concern a trial that is still there, with its number, newest first.
pub async fn of_study(conn: &mut PgConnection, study: StudyId, kinds: &[&str], limit: i64) -> Result<Vec<(u32, TrialId, StudyEvent)>> {
    let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let rows = sqlx::query!(
        r#"select e.seq, e.at_ms, e.doc as "doc: Json<Event>", t.id, t.number from events e join trials t on t.id = e.trial
           where e.study = $1 and e.kind = any($2) order by e.seq desc limit $3"#,
        study.0,
        &kinds,
        limit
    )
    .fetch_all(conn)
    .await?;
    let event = |seq: i64, at: i64, event: Json<Event>| StudyEvent { seq: seq as u64, at: Time(at), event: event.0 };
    Ok(rows.into_iter().map(|row| (unsigned(row.number), TrialId(row.id), event(row.seq, row.at_ms, row.doc))).collect())
}

fn text(event: &Event) -> Result<String> {
    serde_json::to_string(event).map_err(|error| Error::Stored { what: "event", error: error.to_string() })
}

/// The tag that the event's JSON has.
fn kind(event: &Event) -> &'static str {
    match event {
        Event::StudyCreated { .. } => "study_created",
        Event::StudyChanged { .. } => "study_changed",
        Event::StudyState { .. } => "study_state",
        Event::Proposed { .. } => "proposed",
        Event::Unproposed { .. } => "unproposed",
        Event::Judged { .. } => "judged",
        Event::Changed { .. } => "changed",
        Event::Measured { .. } => "measured",
        Event::Checkpointed { .. } => "checkpointed",
        Event::Resized { .. } => "resized",
        Event::Excluded { .. } => "excluded",
        Event::Noted { .. } => "noted",
    }
}

fn trial(event: &Event) -> Option<TrialId> {
    match event {
        Event::StudyCreated { .. } | Event::StudyChanged { .. } | Event::StudyState { .. } => None,
        Event::Noted { trial, .. } => *trial,
        Event::Proposed { trial, .. }
        | Event::Unproposed { trial, .. }
        | Event::Judged { trial, .. }
        | Event::Changed { trial, .. }
        | Event::Measured { trial, .. }
        | Event::Checkpointed { trial, .. }
        | Event::Excluded { trial, .. }
        | Event::Resized { trial, .. } => Some(*trial),
    }
}
