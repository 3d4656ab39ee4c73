//! New trials: as many as the current plan keeps slots open for, or as an outside worker asks for. Called by the driver and
//! `outside`.

use elastune_core::model::event::Event;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::study::StudyState;
use elastune_core::propose::{Proposal, StudyContext, propose, unproposed};
use sqlx::{Connection, PgConnection};

use super::change::Change;
use super::memory;
use crate::db::trials::NewTrial;
use crate::db::{Error, Result, plans, proposals, studies, trials};

/// Fills the slots that the current plan keeps open for the study, once for each plan. Gives the number of new trials.
pub async fn fill(conn: &mut PgConnection, study: StudyId) -> Result<u32> {
    let mut tx = conn.begin().await?;
    let done = async {
        let mut change = Change::begin(&mut tx, study).await?;
        if change.study.spec.workload.is_none() || change.study.state != StudyState::Active {
            return Ok(0);
        }
        let (plan, open) = plans::open_slots(&mut tx, study).await?;
        let (_, filled) = proposals::last(&mut tx, study).await?;
        if open == 0 || filled >= plan {
            return Ok(0);
        }
        let live = trials::live(&mut tx, study).await?.len() as u32;
        let room = change.study.spec.budget.max_parallel.saturating_sub(live);
        let drawn = draw(&mut tx, &mut change, open.min(room), plan).await?;
        change.finish(&mut tx).await?;
        Ok(drawn.len() as u32)
    }
    .await;
    crate::db::end(tx, done).await
}

/// Draws at most `count` trials for an active study and numbers the proposal. `plan`: whose slots it fills; 0 for an outside worker.
pub async fn draw(conn: &mut PgConnection, change: &mut Change, count: u32, plan: u64) -> Result<Vec<TrialId>> {
    let remembered = memory::of_propose(conn, &change.study).await?;
    remembered.keep(conn, &change.study).await?;
    let context = StudyContext::new(change.study.id, change.study.spec.clone());
    let count = count.min(unproposed(&context.spec, &remembered.memory));
    let proposed = propose(&context, &remembered.memory, count);
    let Some(first) = proposed.first().map(|proposal| proposal.number) else { return Ok(Vec::new()) };
    let new: Vec<NewTrial> = proposed.into_iter().map(named).collect();
    // The event log and the counter are written under one lock: a difference would mean a lost or doubled number.
    if first != change.study.next_number {
        let detail = format!("the events say that trial {first} is next, the study says {}", change.study.next_number);
        return Err(Error::conflict("stale_number", detail));
    }
    let number = proposals::last(conn, change.study.id).await?.0 + 1;
    studies::claim_numbers(conn, change.study.id, first, new.len() as u32).await?;
    change.study.next_number += new.len() as u32;
    trials::insert(conn, change.study.id, &new, change.now).await?;
    let proposal =
        proposals::Proposal { number, seq: remembered.memory.seq, plan, asked: count, first_trial: first, trials: new.len() as u32 };
    proposals::insert(conn, change.study.id, &proposal, change.now).await?;
    let ids = new.iter().map(|trial| trial.id).collect();
    for NewTrial { id, number, parameters, run_until } in new {
        change.record(Event::Proposed { trial: id, number, parameters, run_until });
    }
    Ok(ids)
}

fn named(proposal: Proposal) -> NewTrial {
    NewTrial { id: TrialId(uuid::Uuid::now_v7()), number: proposal.number, parameters: proposal.parameters, run_until: proposal.run_until }
}
