//! Looks after what no report will tell: silent nodes, silent outside workers, groups whose deadline has passed. Called by the
//! driver about once a second, in every replica.

use elastune_core::elastic::Fact;
use elastune_core::model::cluster::NodeState;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::time::{Span, Time};
use sqlx::{Connection, PgConnection};

use super::carry_out::{Placements, steer};
use super::change::{Change, Subject};
use super::outside;
use crate::db::{Error, Result, cluster, groups, nodes, trials};

/// How often agents and outside workers show that they live.
pub const HEARTBEAT: Span = Span::from_secs(10);
/// Three heartbeats missed.
const LOST_AFTER: Span = Span::from_secs(30);
const LEASES_AT_ONCE: i64 = 100;

/// One look. Silence counts only while some service was watching, so a service that was away for long first waits.
pub async fn look(conn: &mut PgConnection) -> Result<()> {
    let now = crate::db::now(conn).await?;
    let since = cluster::mark_watched(conn, now, HEARTBEAT).await?;
    give_up_nodes(conn, now, since).await?;
    drop_lost_processes(conn).await?;
    expire_leases(conn, now, since).await?;
    steer_due(conn, now).await
}

async fn give_up_nodes(conn: &mut PgConnection, now: Time, watching_since: Time) -> Result<()> {
    let before = Time(now.0 - LOST_AFTER.0);
    if watching_since > before {
        return Ok(());
    }
    for node in nodes::silent(conn, before).await? {
        if nodes::mark_lost(conn, node, before).await? {
            tracing::warn!(%node, "the node is lost: no heartbeat for {} s", LOST_AFTER.as_secs_f64());
        }
    }
    Ok(())
}

/// Processes on nodes that are lost or removed are dropped from their groups. By state, so that a crash in between loses nothing.
async fn drop_lost_processes(conn: &mut PgConnection) -> Result<()> {
    for (study, trial, lost) in groups::on_lost_nodes(conn).await? {
        let mut facts = Vec::new();
        for node in lost {
            let for_good = nodes::get(conn, node).await?.state == NodeState::Removed;
            facts.push(Fact::NodeLost { node, for_good });
        }
        steer_one(conn, study, trial, &facts).await?;
    }
    Ok(())
}

async fn expire_leases(conn: &mut PgConnection, now: Time, watching_since: Time) -> Result<()> {
    if now - watching_since < outside::LEASE {
        return Ok(());
    }
    for (study, trial) in trials::expired(conn, now, LEASES_AT_ONCE).await? {
        gone_is_fine(outside::expire(conn, study, trial).await)?;
    }
    Ok(())
}

async fn steer_due(conn: &mut PgConnection, now: Time) -> Result<()> {
    for (study, trial) in groups::due(conn, now).await? {
        steer_one(conn, study, trial, &[]).await?;
    }
    Ok(())
}

async fn steer_one(conn: &mut PgConnection, study: StudyId, trial: TrialId, facts: &[Fact]) -> Result<()> {
    let mut tx = conn.begin().await?;
    let done = async {
        let Some(mut change) = gone_is_fine(Change::begin(&mut tx, study).await)? else { return Ok(()) };
        let Some(mut subject) = gone_is_fine(Subject::load(&mut tx, trial).await)? else { return Ok(()) };
        let placements = Placements::read(&mut tx, &[trial]).await?;
        steer(&mut tx, &mut change, &mut subject, &placements, facts).await?;
        subject.store(&mut tx).await?;
        change.finish(&mut tx).await?;
        Ok(())
    }
    .await;
    crate::db::end(tx, done).await
}

/// The study was deleted since the list was made.
fn gone_is_fine<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
