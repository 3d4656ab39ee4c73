//! Tokens: SHA-256 of secrets and what they allow. Called by `http`, which makes and hashes them.

use elastune_core::model::ids::NodeId;
use elastune_core::time::Time;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::{Error, Result, from_word, word};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Admin,
    /// Registers nodes, until it expires.
    Join,
    /// Speaks for one node.
    Node,
    /// Logs a browser in, once.
    BrowserLink,
    /// A browser's session.
    Browser,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    /// Of a node's token.
    pub node: Option<NodeId>,
    pub expires: Option<Time>,
}

pub async fn insert(conn: &mut PgConnection, hash: &[u8; 32], token: &Token, now: Time) -> Result<()> {
    sqlx::query!(
        "insert into tokens (hash, kind, node, created_ms, expires_ms) values ($1, $2, $3, $4, $5)",
        hash.as_slice(),
        word(&token.kind),
        token.node.map(|id| id.0),
        now.0,
        token.expires.map(|time| time.0)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The token, unless it has expired or was a link that is used up.
pub async fn get(conn: &mut PgConnection, hash: &[u8; 32], now: Time) -> Result<Option<Token>> {
    let row = sqlx::query!(
        "select kind, node, expires_ms from tokens where hash = $1 and (expires_ms is null or expires_ms > $2)
         and not (kind = 'browser_link' and used_ms is not null)",
        hash.as_slice(),
        now.0
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| Ok(Token { kind: from_word("token kind", &row.kind)?, node: row.node.map(NodeId), expires: row.expires_ms.map(Time) }))
        .transpose()
}

/// Uses a one-time link up.
pub async fn claim_link(conn: &mut PgConnection, hash: &[u8; 32], now: Time) -> Result<()> {
    let rows = sqlx::query!(
        "update tokens set used_ms = $2 where hash = $1 and kind = 'browser_link' and used_ms is null and expires_ms > $2",
        hash.as_slice(),
        now.0
    )
    .execute(conn)
    .await?
    .rows_affected();
    if rows == 1 { Ok(()) } else { Err(Error::NotFound { what: "login link (it is used up, has expired, or never was)" }) }
}

pub async fn any_admin(conn: &mut PgConnection) -> Result<bool> {
    Ok(sqlx::query_scalar!(r#"select exists (select from tokens where kind = 'admin') as "is!""#).fetch_one(conn).await?)
}

/// A removed node's agent may speak no more.
pub async fn delete_of_node(conn: &mut PgConnection, node: NodeId) -> Result<()> {
    sqlx::query!("delete from tokens where node = $1", node.0).execute(conn).await?;
    Ok(())
}

pub async fn delete(conn: &mut PgConnection, hash: &[u8; 32]) -> Result<()> {
    sqlx::query!("delete from tokens where hash = $1", hash.as_slice()).execute(conn).await?;
    Ok(())
}

pub async fn delete_expired(conn: &mut PgConnection, now: Time) -> Result<u64> {
    Ok(sqlx::query!("delete from tokens where expires_ms <= $1", now.0).execute(conn).await?.rows_affected())
}
