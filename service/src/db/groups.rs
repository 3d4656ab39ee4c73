//! Carry-out rows: one a trial with processes. Called by `reconcile::carry_out` only; read by `desired` and the decision.

use std::collections::BTreeMap;

use elastune_core::model::group::Group;
use elastune_core::model::ids::{NodeId, StudyId, TrialId};
use elastune_core::model::trial::CheckpointRef;
use elastune_core::time::Time;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Result, expect_one};

/// The group and what its attempt started from.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub group: Group,
    pub checkpoint: Option<CheckpointRef>,
    /// Up to when its devices are counted in the trial's device-seconds.
    pub accounted: Time,
}

struct Row {
    doc: Json<Group>,
    checkpoint: Option<Json<CheckpointRef>>,
    accounted_ms: i64,
}

impl From<Row> for Stored {
    fn from(row: Row) -> Stored {
        Stored { group: row.doc.0, checkpoint: row.checkpoint.map(|json| json.0), accounted: Time(row.accounted_ms) }
    }
}

macro_rules! select {
    ($rest:tt $(, $argument:expr)*) => {
        sqlx::query_as!(
            Row,
            r#"select doc as "doc: Json<Group>", checkpoint as "checkpoint: Json<CheckpointRef>", accounted_ms from groups "# + $rest
            $(, $argument)*
        )
    };
}

pub async fn get(conn: &mut PgConnection, trial: TrialId) -> Result<Option<Stored>> {
    Ok(select!("where trial = $1", trial.0).fetch_optional(conn).await?.map(Stored::from))
}

pub async fn all(conn: &mut PgConnection) -> Result<BTreeMap<TrialId, Stored>> {
    let rows = select!("order by trial").fetch_all(conn).await?;
    Ok(rows.into_iter().map(Stored::from).map(|stored| (stored.group.trial, stored)).collect())
}

/// Those with a process on the node, by trial.
pub async fn on_node(conn: &mut PgConnection, node: NodeId) -> Result<Vec<Stored>> {
    let rows = select!("where nodes @> array[$1::uuid] order by trial", node.0).fetch_all(conn).await?;
    Ok(rows.into_iter().map(Stored::from).collect())
}

/// Trials of groups that wanted to be looked at by `now`.
pub async fn due(conn: &mut PgConnection, now: Time) -> Result<Vec<(StudyId, TrialId)>> {
    let rows = sqlx::query!("select study, trial from groups where wake_at_ms <= $1 order by study, trial", now.0).fetch_all(conn).await?;
    Ok(rows.into_iter().map(|row| (StudyId(row.study), TrialId(row.trial))).collect())
}

/// Trials with processes on nodes that are lost or removed, and those nodes.
pub async fn on_lost_nodes(conn: &mut PgConnection) -> Result<Vec<(StudyId, TrialId, Vec<NodeId>)>> {
    let rows = sqlx::query!(
        r#"select g.study, g.trial, array_agg(n.id order by n.id) as "nodes!" from groups g join nodes n on g.nodes @> array[n.id]
           where n.state in ('lost', 'removed') group by g.study, g.trial order by g.study, g.trial"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (StudyId(row.study), TrialId(row.trial), row.nodes.into_iter().map(NodeId).collect())).collect())
}

/// The earliest moment at which some group wants to be looked at.
pub async fn next_wake(conn: &mut PgConnection) -> Result<Option<Time>> {
    Ok(sqlx::query_scalar!("select min(wake_at_ms) from groups").fetch_one(conn).await?.map(Time))
}

pub async fn trials_of_study(conn: &mut PgConnection, study: StudyId) -> Result<Vec<TrialId>> {
    let rows = sqlx::query_scalar!("select trial from groups where study = $1 order by trial", study.0).fetch_all(conn).await?;
    Ok(rows.into_iter().map(TrialId).collect())
}

/// A new row: the attempt starts from `checkpoint`, whatever is saved later.
pub async fn insert(
    conn: &mut PgConnection,
    study: StudyId,
    group: &Group,
    checkpoint: Option<&CheckpointRef>,
    wake_at: Option<Time>,
    now: Time,
) -> Result<()> {
    sqlx::query!(
        "insert into groups (trial, study, attempt, generation, ordinal, doc, nodes, checkpoint, width, accounted_ms, wake_at_ms)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        group.trial.0,
        study.0,
        i64::from(group.attempt),
        i64::from(group.generation),
        i64::from(group.order),
        Json(group) as _,
        &nodes(group),
        checkpoint.map(Json) as _,
        group.width().devices(),
        now.0,
        wake_at.map(|time| time.0)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes `group` over `was`, if nobody else has.
pub async fn store(conn: &mut PgConnection, group: &Group, was: &Stored, wake_at: Option<Time>, now: Time) -> Result<()> {
    account(conn, was, now).await?;
    let rows = sqlx::query!(
        "update groups set generation = $5, ordinal = $6, doc = $7, nodes = $8, width = $9, accounted_ms = greatest(accounted_ms, $10),
         wake_at_ms = $11 where trial = $1 and attempt = $2 and generation = $3 and ordinal = $4",
        group.trial.0,
        i64::from(was.group.attempt),
        i64::from(was.group.generation),
        i64::from(was.group.order),
        i64::from(group.generation),
        i64::from(group.order),
        Json(group) as _,
        &nodes(group),
        group.width().devices(),
        now.0,
        wake_at.map(|time| time.0)
    )
    .execute(conn)
    .await?
    .rows_affected();
    expect_one(rows, "group_changed", || "the trial's group was changed by someone else".into())
}

/// The attempt is over.
pub async fn delete(conn: &mut PgConnection, was: &Stored, now: Time) -> Result<()> {
    account(conn, was, now).await?;
    let rows = sqlx::query!(
        "delete from groups where trial = $1 and attempt = $2 and generation = $3 and ordinal = $4",
        was.group.trial.0,
        i64::from(was.group.attempt),
        i64::from(was.group.generation),
        i64::from(was.group.order)
    )
    .execute(conn)
    .await?
    .rows_affected();
    expect_one(rows, "group_changed", || "the trial's group was changed by someone else".into())
}

/// Adds what the group held since it was last counted to the trial and its study.
async fn account(conn: &mut PgConnection, was: &Stored, now: Time) -> Result<()> {
    let used = was.group.width().devices() * (now - was.accounted).as_secs_f64().max(0.0);
    sqlx::query!(
        "with trial as (update trials set device_seconds = device_seconds + $2 where id = $1 returning study)
         update studies set device_seconds = studies.device_seconds + $2 from trial where studies.id = trial.study",
        was.group.trial.0,
        used
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Where its processes are or should be.
pub fn nodes(group: &Group) -> Vec<Uuid> {
    let ordered = group.next.iter().flat_map(|order| &order.members);
    let mut nodes: Vec<Uuid> = group.members.iter().chain(ordered).chain(&group.leavers).map(|member| member.slot.node.0).collect();
    nodes.sort();
    nodes.dedup();
    nodes
}
