//! Nodes: the machines that agents speak for. Called by `http` (registration, heartbeats) and the reconcilers.

use elastune_api::cluster::Node;
use elastune_core::model::cluster::{Device, NodeState};
use elastune_core::model::ids::NodeId;
use elastune_core::time::Time;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::notify::{self, Wake};
use super::{Error, Result, expect_one, from_word, word};

struct Row {
    id: Uuid,
    name: String,
    state: String,
    devices: Json<Vec<Device>>,
    address: String,
    joined_ms: i64,
    last_seen_ms: i64,
}

impl TryFrom<Row> for Node {
    type Error = Error;

    fn try_from(row: Row) -> Result<Node> {
        Ok(Node {
            id: NodeId(row.id),
            name: row.name,
            state: from_word("node state", &row.state)?,
            devices: row.devices.0,
            joined: Time(row.joined_ms),
            last_seen: Time(row.last_seen_ms),
            address: row.address,
        })
    }
}

macro_rules! select {
    ($rest:tt $(, $argument:expr)*) => {
        sqlx::query_as!(
            Row,
            r#"select id, name, state, devices as "devices: Json<Vec<Device>>", address, joined_ms, last_seen_ms from nodes "# + $rest
            $(, $argument)*
        )
    };
}

/// A new node, ready.
pub async fn insert(conn: &mut PgConnection, id: NodeId, name: &str, devices: &[Device], address: &str, now: Time) -> Result<()> {
    sqlx::query!(
        "insert into nodes (id, name, state, devices, address, joined_ms, last_seen_ms) values ($1, $2, 'ready', $3, $4, $5, $5)",
        id.0,
        name,
        Json(devices) as _,
        address,
        now.0
    )
    .execute(&mut *conn)
    .await?;
    notify::send(conn, Wake::Cluster).await
}

/// A known agent is back: its devices and address may have changed. A lost node is ready again; a removed one is refused.
pub async fn mark_back(conn: &mut PgConnection, id: NodeId, name: &str, devices: &[Device], address: &str, now: Time) -> Result<()> {
    let rows = sqlx::query!(
        "update nodes set name = $2, devices = $3, address = $4, last_seen_ms = $5,
         state = case when state = 'lost' then 'ready' else state end where id = $1 and state <> 'removed'",
        id.0,
        name,
        Json(devices) as _,
        address,
        now.0
    )
    .execute(&mut *conn)
    .await?
    .rows_affected();
    expect_one(rows, "node_removed", || "this node was removed: join again with a new join token".into())?;
    notify::send(conn, Wake::Cluster).await
}

/// A heartbeat. One of a lost node makes it ready again.
pub async fn mark_seen(conn: &mut PgConnection, id: NodeId, now: Time) -> Result<()> {
    let was = sqlx::query_scalar!(
        "update nodes n set last_seen_ms = greatest(n.last_seen_ms, $2), state = case when n.state = 'lost' then 'ready' else n.state end
         from nodes old where old.id = n.id and n.id = $1 and n.state <> 'removed' returning old.state",
        id.0,
        now.0
    )
    .fetch_optional(&mut *conn)
    .await?;
    match was.as_deref() {
        None => Err(Error::conflict("node_removed", "this node was removed: join again with a new join token")),
        Some("lost") => notify::send(conn, Wake::Cluster).await,
        Some(_) => Ok(()),
    }
}

/// Moves a node from one of `was` to `state`.
pub async fn mark_state(conn: &mut PgConnection, id: NodeId, was: &[NodeState], state: NodeState) -> Result<()> {
    let was: Vec<String> = was.iter().map(word).collect();
    let rows = sqlx::query!("update nodes set state = $3 where id = $1 and state = any($2)", id.0, &was, word(&state))
        .execute(&mut *conn)
        .await?
        .rows_affected();
    expect_one(rows, "node_state", || format!("the node is not {}", was.join(" or ")))?;
    notify::send(&mut *conn, Wake::Node(id)).await?;
    notify::send(conn, Wake::Cluster).await
}

pub async fn get(conn: &mut PgConnection, id: NodeId) -> Result<Node> {
    select!("where id = $1", id.0).fetch_optional(conn).await?.ok_or(Error::NotFound { what: "node" })?.try_into()
}

/// All but those removed, by id.
pub async fn all(conn: &mut PgConnection) -> Result<Vec<Node>> {
    let rows = select!("where state <> 'removed' order by id").fetch_all(conn).await?;
    rows.into_iter().map(Node::try_from).collect()
}

/// Nodes that have been silent since `before` and are not yet given up.
pub async fn silent(conn: &mut PgConnection, before: Time) -> Result<Vec<NodeId>> {
    let rows = sqlx::query_scalar!(
        "select id from nodes where last_seen_ms < $1 and state in ('ready', 'cordoned', 'draining') order by id",
        before.0
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(NodeId).collect())
}

/// Gives a node up if it has been silent since `before` still.
pub async fn mark_lost(conn: &mut PgConnection, id: NodeId, before: Time) -> Result<bool> {
    let rows = sqlx::query!(
        "update nodes set state = 'lost' where id = $1 and last_seen_ms < $2 and state in ('ready', 'cordoned', 'draining')",
        id.0,
        before.0
    )
    .execute(&mut *conn)
    .await?
    .rows_affected();
    if rows == 1 {
        notify::send(conn, Wake::Cluster).await?;
    }
    Ok(rows == 1)
}

/// The last report of `spool` that was taken; locks the node's row, so that a batch is taken once.
pub async fn lock_spool(conn: &mut PgConnection, id: NodeId, spool: Uuid) -> Result<u64> {
    let row = sqlx::query!("select spool, spool_seq from nodes where id = $1 and state <> 'removed' for update", id.0)
        .fetch_optional(conn)
        .await?
        .ok_or_else(|| Error::conflict("node_removed", "this node was removed: join again with a new join token"))?;
    Ok(if row.spool == Some(spool) { row.spool_seq as u64 } else { 0 })
}

/// Reports of `spool` up to `seq` are taken, which is a sign of life too.
pub async fn mark_spool(conn: &mut PgConnection, id: NodeId, spool: Uuid, seq: u64, now: Time) -> Result<()> {
    sqlx::query!(
        "update nodes set spool = $2, spool_seq = $3, last_seen_ms = greatest(last_seen_ms, $4) where id = $1",
        id.0,
        spool,
        seq as i64,
        now.0
    )
    .execute(conn)
    .await?;
    Ok(())
}
