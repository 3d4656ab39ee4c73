//! Keeps the database from growing without end: old plans, log lines, expired tokens and answers. Called by the driver.

use elastune_core::time::{Span, Time};
use sqlx::PgConnection;

use crate::db::{Result, cluster, idempotency, logs, plans, tokens};

const DAY: i64 = 24 * 3600;
/// Plans are kept for this long, and always the newest ones.
const PLANS: Span = Span::from_secs(30 * DAY);
const NEWEST_PLANS: u64 = 100;
const ANSWERS: Span = Span::from_secs(DAY);

/// One sweep. Events and measurements stay as long as their study.
pub async fn sweep(conn: &mut PgConnection) -> Result<()> {
    let now = crate::db::now(conn).await?;
    let ago = |span: Span| Time(now.0 - span.0);
    let current = cluster::get(conn).await?.plan;
    plans::delete_before(conn, current.saturating_sub(NEWEST_PLANS), ago(PLANS)).await?;
    logs::trim(conn, logs::LINES_PER_TRIAL).await?;
    tokens::delete_expired(conn, now).await?;
    idempotency::delete_before(conn, ago(ANSWERS)).await?;
    Ok(())
}
