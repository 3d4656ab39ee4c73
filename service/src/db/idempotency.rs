//! Answers already given, by the caller's `Idempotency-Key`. Called by `http`.

use elastune_core::time::Time;
use sqlx::PgConnection;

use super::{Error, Result, unsigned};

/// An answer to give again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Claims `key` for this request within the caller's transaction, or gives the answer that it got before. A second request
/// with the same key waits here until the first has ended; the same key with another request is refused.
pub async fn claim(conn: &mut PgConnection, scope: &str, key: &str, request: &[u8; 32], now: Time) -> Result<Option<Answer>> {
    let claimed = sqlx::query!(
        "insert into idempotency (scope, key, request, created_ms) values ($1, $2, $3, $4) on conflict do nothing",
        scope,
        key,
        request.as_slice(),
        now.0
    )
    .execute(&mut *conn)
    .await?
    .rows_affected();
    if claimed == 1 {
        return Ok(None);
    }
    let row = sqlx::query!("select request, status, body from idempotency where scope = $1 and key = $2", scope, key)
        .fetch_optional(conn)
        .await?;
    match row {
        Some(row) if row.request != request => Err(Error::conflict(
            "idempotency_key_reused",
            "this Idempotency-Key was used for a different request: draw a new key for each request",
        )),
        Some(row) => match row.status.zip(row.body) {
            Some((status, body)) => Ok(Some(Answer { status: unsigned(status) as u16, body })),
            None => Err(Error::conflict("idempotency_key_in_use", "the first request with this Idempotency-Key is still being answered")),
        },
        None => Err(Error::conflict("idempotency_key_in_use", "the first request with this Idempotency-Key has just expired: try again")),
    }
}

/// Keeps the answer, in the transaction that claimed the key.
pub async fn store(conn: &mut PgConnection, scope: &str, key: &str, answer: &Answer) -> Result<()> {
    sqlx::query!(
        "update idempotency set status = $3, body = $4 where scope = $1 and key = $2",
        scope,
        key,
        i64::from(answer.status),
        answer.body
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn delete_before(conn: &mut PgConnection, before: Time) -> Result<u64> {
    Ok(sqlx::query!("delete from idempotency where created_ms < $1", before.0).execute(conn).await?.rows_affected())
}
