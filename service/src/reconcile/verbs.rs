//! What people do to studies and trials: pause, resume, stop, cancel, retry, exclude, change limits. Called by `http`; each is
//! one transaction.

use elastune_core::model::event::Event;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::study::{StudySpec, StudyState};
use elastune_core::model::trial::{Reason, TrialState};
use sqlx::{Connection, PgConnection};

use super::carry_out::{Placements, steer};
use super::change::{Change, Subject};
use super::lifecycle::{self, expect_open};
use crate::db::trials::Trial;
use crate::db::{Error, Result, studies, trials};

/// A new study with its first event, in the caller's transaction.
pub async fn create_study(conn: &mut PgConnection, id: StudyId, spec: &StudySpec) -> Result<()> {
    let now = crate::db::now(conn).await?;
    studies::insert(conn, id, spec, elastune_core::rng::Seed(spec.algorithm.seed()), now).await?;
    let mut change = Change::begin(conn, id).await?;
    change.record(Event::StudyCreated { spec: Box::new(spec.clone()) });
    change.finish(conn).await
}

/// New limits, in the caller's transaction: `edit` gets the document under the study's lock and may refuse.
pub async fn change_study<E>(
    conn: &mut PgConnection,
    id: StudyId,
    edit: impl FnOnce(&StudySpec) -> std::result::Result<StudySpec, E>,
) -> Result<std::result::Result<(), E>> {
    let mut change = Change::begin(conn, id).await?;
    expect_open(&change)?;
    let spec = match edit(&change.study.spec) {
        Ok(spec) => spec,
        Err(refused) => return Ok(Err(refused)),
    };
    studies::mark_spec(conn, id, &spec).await?;
    change.record(Event::StudyChanged { spec: Box::new(spec) });
    change.finish(conn).await?;
    Ok(Ok(()))
}

/// Running trials save and give up their slots; they go on after `resume_study`. One that is paused stays so.
pub async fn pause_study(conn: &mut PgConnection, id: StudyId) -> Result<()> {
    let mut tx = conn.begin().await?;
    let done = async {
        let mut change = Change::begin(&mut tx, id).await?;
        expect_open(&change)?;
        if change.study.state == StudyState::Active {
            change.enter(&mut tx, StudyState::Paused, None, Some("user".into())).await?;
            lifecycle::steer_all(&mut tx, &mut change).await?;
        }
        change.finish(&mut tx).await?;
        Ok(())
    }
    .await;
    crate::db::end(tx, done).await
}

pub async fn resume_study(conn: &mut PgConnection, id: StudyId) -> Result<()> {
    let mut tx = conn.begin().await?;
    let done = async {
        let mut change = Change::begin(&mut tx, id).await?;
        expect_open(&change)?;
        if change.study.state == StudyState::Paused {
            change.enter(&mut tx, StudyState::Active, None, None).await?;
        }
        change.finish(&mut tx).await?;
        Ok(())
    }
    .await;
    crate::db::end(tx, done).await
}

/// Ends the study early: `Completed` keeps it as a result, `Cancelled` says that it was given up. Once it is on its way this
/// changes nothing.
pub async fn end_study(conn: &mut PgConnection, id: StudyId, ending: StudyState) -> Result<()> {
    let mut tx = conn.begin().await?;
    let done = async {
        let mut change = Change::begin(&mut tx, id).await?;
        match change.study.state {
            StudyState::Stopping => {}
            state if state == ending => {}
            _ => {
                expect_open(&change)?;
                lifecycle::stop(&mut tx, &mut change, ending, "user").await?;
            }
        }
        change.finish(&mut tx).await?;
        Ok(())
    }
    .await;
    crate::db::end(tx, done).await
}

/// Hides the study from lists, or shows it again.
pub async fn archive_study(conn: &mut PgConnection, id: StudyId, archived: bool) -> Result<()> {
    studies::mark_archived(conn, id, archived).await
}

/// Ends a trial: `Pruned` keeps what it measured as a result, `Cancelled` does not. One that is on its way or there stays as it is.
pub async fn end_trial(conn: &mut PgConnection, id: TrialId, ending: TrialState) -> Result<Trial> {
    on_trial(conn, id, |change, subject| {
        if subject.trial.state.is_final() {
            return Err(finished(&subject.trial));
        }
        if subject.trial.state != TrialState::Stopping {
            subject.end(change, ending, Reason::User);
        }
        Ok(())
    })
    .await
}

/// A failed or cancelled trial waits again, from its newest checkpoint, with its failures forgiven.
pub async fn retry_trial(conn: &mut PgConnection, id: TrialId) -> Result<Trial> {
    on_trial(conn, id, |change, subject| {
        expect_open(change)?;
        let trial = &mut subject.trial;
        if !matches!(trial.state, TrialState::Failed | TrialState::Cancelled) {
            return Err(Error::conflict("trial_not_failed", "only a failed or cancelled trial can be tried again"));
        }
        trial.failures = 0;
        trial.message = None;
        trial.ended = None;
        subject.next_attempt(change, TrialState::Waiting, None);
        Ok(())
    })
    .await
}

/// Hides a finished trial from the algorithm, or shows it again.
pub async fn exclude_trial(conn: &mut PgConnection, id: TrialId, excluded: bool) -> Result<Trial> {
    on_trial(conn, id, |change, subject| {
        if !subject.trial.state.is_final() {
            return Err(Error::conflict("trial_live", "only a finished trial can be excluded: stop or cancel it first"));
        }
        if subject.trial.excluded != excluded {
            subject.trial.excluded = excluded;
            change.record(Event::Excluded { trial: id, excluded });
        }
        Ok(())
    })
    .await
}

async fn on_trial(conn: &mut PgConnection, id: TrialId, edit: impl FnOnce(&mut Change, &mut Subject) -> Result<()>) -> Result<Trial> {
    let mut tx = conn.begin().await?;
    let done = async {
        let study = trials::study_of(&mut tx, id).await?;
        let mut change = Change::begin(&mut tx, study).await?;
        let mut subject = Subject::load(&mut tx, id).await?;
        edit(&mut change, &mut subject)?;
        let placements = Placements::read(&mut tx, &[id]).await?;
        steer(&mut tx, &mut change, &mut subject, &placements, &[]).await?;
        subject.store(&mut tx).await?;
        change.finish(&mut tx).await?;
        Ok(subject.trial)
    }
    .await;
    crate::db::end(tx, done).await
}

/// A refusal that names the trial's end.
pub fn finished(trial: &Trial) -> Error {
    let state = crate::db::word(&trial.state);
    Error::conflict("trial_finished", format!("trial {} has ended ({state}): nothing can be added to it", trial.number))
}
