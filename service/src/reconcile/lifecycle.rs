//! A study's way to its end: all done, target reached, out of time, or as its user asked. Called by the driver and `verbs`.

use elastune_core::model::event::Event;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::study::{Goal, StudyState};
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::propose::unproposed;
use sqlx::{Connection, PgConnection};

use super::carry_out::{Placements, steer};
use super::change::{Change, Subject};
use super::memory;
use crate::db::{Error, Result, groups, studies, trials};

/// Ends the study if it is time for that. Whether anything changed.
pub async fn settle(conn: &mut PgConnection, study: StudyId) -> Result<bool> {
    let mut tx = conn.begin().await?;
    let done = async {
        let mut change = Change::begin(&mut tx, study).await?;
        if change.study.state.is_final() {
            return Ok(false);
        }
        let mut changed = false;
        if change.study.state != StudyState::Stopping
            && let Some(reason) = over(&mut tx, &change).await?
        {
            stop(&mut tx, &mut change, StudyState::Completed, &reason).await?;
            changed = true;
        }
        changed |= close(&mut tx, &mut change).await?;
        change.finish(&mut tx).await?;
        Ok(changed)
    }
    .await;
    crate::db::end(tx, done).await
}

/// Why the study should stop although it could go on.
async fn over(conn: &mut PgConnection, change: &Change) -> Result<Option<String>> {
    let study = &change.study;
    if study.spec.budget.deadline_ms.is_some_and(|deadline| change.now >= study.created + deadline) {
        return Ok(Some("deadline".into()));
    }
    let Some((goal, target)) = study.spec.metrics.first().and_then(|metric| Some((metric.goal, metric.target?))) else { return Ok(None) };
    let reached = |value: f64| match goal {
        Goal::Minimize => value <= target,
        Goal::Maximize => value >= target,
    };
    let best = studies::best(conn, study).await?;
    Ok(best.filter(|best| reached(best.value)).map(|_| "target_reached".into()))
}

/// Takes back proposals that nobody has started, from the highest number down, so that numbers stay without a gap; the first one that
/// was started ends it.
async fn withdraw(conn: &mut PgConnection, change: &mut Change) -> Result<()> {
    for trial in trials::live(conn, change.study.id).await?.iter().rev() {
        let is_last = trial.number.checked_add(1) == Some(change.study.next_number);
        let untouched = trial.state == TrialState::Waiting && trial.started.is_none() && trial.lease.is_none();
        if !(is_last && untouched && groups::get(conn, trial.id).await?.is_none()) {
            break;
        }
        trials::withdraw(conn, trial.id).await?;
        studies::return_number(conn, change.study.id, trial.number).await?;
        change.study.next_number = trial.number;
        change.record(Event::Unproposed { trial: trial.id, number: trial.number });
    }
    Ok(())
}

/// Sends the study on its way to `ending`: what runs is ended, what waits is dropped.
pub async fn stop(conn: &mut PgConnection, change: &mut Change, ending: StudyState, reason: &str) -> Result<()> {
    change.enter(conn, StudyState::Stopping, Some(ending), Some(reason.to_owned())).await?;
    withdraw(conn, change).await?;
    for trial in trials::live(conn, change.study.id).await? {
        let mut subject = Subject::of(conn, trial).await?;
        if subject.trial.state != TrialState::Stopping {
            subject.end(change, TrialState::Cancelled, Reason::StudyEnded);
            steer(conn, change, &mut subject, &Placements::default(), &[]).await?;
            subject.store(conn).await?;
        }
    }
    let paused = if ending == StudyState::Completed { TrialState::Pruned } else { TrialState::Cancelled };
    for trial in trials::paused(conn, change.study.id).await? {
        let mut subject = Subject::of(conn, trial).await?;
        subject.end(change, paused, Reason::StudyEnded);
        subject.store(conn).await?;
    }
    Ok(())
}

/// Ends a study of which nothing is left: no trial to run or to propose, no process.
async fn close(conn: &mut PgConnection, change: &mut Change) -> Result<bool> {
    let id = change.study.id;
    let (live, paused) = trials::any_open(conn, id).await?;
    if live || paused || !groups::trials_of_study(conn, id).await?.is_empty() {
        return Ok(false);
    }
    let (ending, reason) = match change.study.state {
        StudyState::Stopping => (change.study.ending.unwrap_or(StudyState::Completed), change.study.reason.clone()),
        _ => {
            let remembered = memory::of_propose(conn, &change.study).await?;
            if unproposed(&change.study.spec, &remembered.memory) > 0 {
                return Ok(false);
            }
            (StudyState::Completed, None)
        }
    };
    change.enter(conn, ending, None, reason).await?;
    Ok(true)
}

/// The trial's processes save and go, or what else its state now wants.
pub async fn steer_all(conn: &mut PgConnection, change: &mut Change) -> Result<()> {
    let ids: Vec<TrialId> = groups::trials_of_study(conn, change.study.id).await?;
    let placements = Placements::read(conn, &ids).await?;
    for id in ids {
        let mut subject = Subject::load(conn, id).await?;
        steer(conn, change, &mut subject, &placements, &[]).await?;
        subject.store(conn).await?;
    }
    Ok(())
}

/// Refuses verbs on a study that is over or on its way there.
pub fn expect_open(change: &Change) -> Result<()> {
    match change.study.state {
        StudyState::Active | StudyState::Paused => Ok(()),
        state => Err(Error::conflict("study_ended", format!("the study is {}: nothing can be changed any more", crate::db::word(&state)))),
    }
}
