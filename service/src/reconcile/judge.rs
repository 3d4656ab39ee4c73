//! Early stopping: applies the verdicts that are due. Called by the driver, and by `outside` before it answers `should-stop`.

use elastune_core::judge::{Judgement, Verdict, idle, judge};
use elastune_core::model::event::Event;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::study::{EarlyStopping, StudyState};
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::propose::unproposed;
use sqlx::{Connection, PgConnection};

use super::carry_out::{Placements, steer};
use super::change::{Change, Subject};
use super::memory;
use crate::db::{Result, verdicts};

/// Judges the study in one transaction. Gives the number of verdicts that took effect; the others come again.
pub async fn run(conn: &mut PgConnection, study: StudyId) -> Result<usize> {
    let mut tx = conn.begin().await?;
    let done = async {
        let mut change = Change::begin(&mut tx, study).await?;
        if !matches!(change.study.state, StudyState::Active | StudyState::Paused) || change.study.spec.early_stopping == EarlyStopping::None
        {
            return Ok(0);
        }
        let remembered = memory::of_judge(&mut tx, &change.study).await?;
        remembered.keep(&mut tx, &change.study).await?;
        let (spec, memory) = (&change.study.spec, &remembered.memory);
        let mut judgements = judge(spec, memory);
        if judgements.is_empty() {
            judgements = idle(spec, memory, unproposed(spec, &memory.proposed));
        }
        let ids: Vec<TrialId> = judgements.iter().map(|judgement| judgement.trial).collect();
        let mut applied = Vec::new();
        if !ids.is_empty() {
            let placements = Placements::read(&mut tx, &ids).await?;
            for judgement in judgements {
                let mut subject = Subject::load(&mut tx, judgement.trial).await?;
                if apply(&mut change, &mut subject, &judgement) {
                    steer(&mut tx, &mut change, &mut subject, &placements, &[]).await?;
                    subject.store(&mut tx).await?;
                    applied.push(judgement);
                }
            }
        }
        if !applied.is_empty() {
            let number = verdicts::last(&mut tx, study).await? + 1;
            verdicts::insert(&mut tx, study, number, memory.proposed.seq, &applied, change.now).await?;
        }
        change.finish(&mut tx).await?;
        Ok(applied.len())
    }
    .await;
    crate::db::end(tx, done).await
}

/// Whether the verdict could take effect. A pause must wait until the trial holds at its milestone, its checkpoint durable.
fn apply(change: &mut Change, subject: &mut Subject, judgement: &Judgement) -> bool {
    let trial = &mut subject.trial;
    if trial.state.is_final() || trial.state == TrialState::Stopping {
        return false;
    }
    let judged = Event::Judged { trial: trial.id, verdict: judgement.verdict, text: judgement.text.clone() };
    match judgement.verdict {
        Verdict::Pause if trial.state == TrialState::Paused || !trial.held => return false,
        Verdict::Pause => {
            change.record(judged);
            subject.next_attempt(change, TrialState::Paused, None);
        }
        Verdict::Promote { run_until } => {
            change.record(judged);
            trial.run_until = trial.run_until.max(run_until);
            trial.held = false;
            if trial.state == TrialState::Paused {
                subject.rewind(change);
                subject.enter(change, TrialState::Waiting, None);
            }
        }
        Verdict::Stop | Verdict::Close => {
            change.record(judged);
            trial.message = Some(judgement.text.clone());
            let reason = if judgement.verdict == Verdict::Stop { Reason::EarlyStopped } else { Reason::NotPromoted };
            subject.enter(change, TrialState::Pruned, Some(reason));
        }
    }
    true
}
