//! Steers trials' groups of processes: hands facts and wishes to `elastune_core::elastic::carry_out`, stores the group that it
//! gives, and applies what follows to the trial. Called by `ingest`, and by whoever changes what a trial should hold.

use std::collections::BTreeMap;

use elastune_core::elastic::{Attempt, Effect, Fact, Want, carry_out};
use elastune_core::model::event::Event;
use elastune_core::model::group::{AttemptEnd, Group};
use elastune_core::model::ids::{NodeId, TrialId};
use elastune_core::model::plan::PlanEntry;
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::time::Time;
use sqlx::PgConnection;

use super::change::{Change, Subject};
use crate::db::groups::{self, Stored};
use crate::db::{Result, plans};

/// Failures after which a trial is given up.
pub const MAX_RESTARTS: u32 = 3;

/// The current plan's entries about some trials.
#[derive(Debug, Clone, Default)]
pub struct Placements {
    pub plan: u64,
    entries: BTreeMap<TrialId, PlanEntry>,
}

impl Placements {
    pub fn new(plan: u64, entries: impl IntoIterator<Item = PlanEntry>) -> Placements {
        Placements { plan, entries: entries.into_iter().map(|entry| (entry.trial, entry)).collect() }
    }

    /// Read under the lock of the trials' studies, which a new plan waits for.
    pub async fn read(conn: &mut PgConnection, trials: &[TrialId]) -> Result<Placements> {
        let (plan, entries) = plans::entries(conn, trials).await?;
        Ok(Placements::new(plan, entries))
    }
}

/// By state alone, so that it can be asked at any time.
fn want(change: &Change, subject: &Subject, placements: &Placements) -> Want {
    let trial = &subject.trial;
    let attempt_is_over = subject.group.as_ref().is_some_and(|stored| stored.group.attempt < trial.attempt);
    if attempt_is_over || !trial.state.is_live() || trial.state == TrialState::Stopping {
        return Want::Stop;
    }
    let placed = placements.entries.get(&trial.id).filter(|entry| entry.attempt == trial.attempt);
    match placed {
        Some(entry) if change.study.state == StudyState::Active => {
            Want::Run { slots: entry.slots.clone(), run_until: trial.run_until, plan: placements.plan }
        }
        _ => Want::Save,
    }
}

/// Tells carry-out what happened to the trial's processes (maybe nothing) and what is wanted of them now. The group is stored;
/// the trial is changed in memory.
pub async fn steer(
    conn: &mut PgConnection,
    change: &mut Change,
    subject: &mut Subject,
    placements: &Placements,
    mut facts: &[Fact],
) -> Result<()> {
    // Once more after an attempt has ended: the plan may have a place for the next one already.
    for _ in 0..2 {
        let was = subject.group.clone();
        let attempt = Attempt { trial: subject.trial.id, attempt: subject.trial.attempt };
        let of_attempt = was.as_ref().map_or(attempt.attempt, |stored| stored.group.attempt);
        let group = was.as_ref().map(|stored| stored.group.clone());
        let step = carry_out(attempt, group, &want(change, subject, placements), facts, change.now);
        let ended = was.is_some() && step.group.is_none();
        store(conn, change, subject, was, step.group, step.wake_at).await?;
        for effect in step.effects {
            apply(change, subject, of_attempt, effect);
        }
        show(change, subject);
        if !ended {
            break;
        }
        facts = &[];
    }
    Ok(())
}

/// Writes the group and wakes the nodes on which something is different now.
async fn store(
    conn: &mut PgConnection,
    change: &mut Change,
    subject: &mut Subject,
    was: Option<Stored>,
    group: Option<Group>,
    wake_at: Option<Time>,
) -> Result<()> {
    let study = change.study.id;
    subject.group = match (&was, group) {
        (None, None) => None,
        (None, Some(group)) => {
            let checkpoint = subject.trial.checkpoint.clone();
            groups::insert(conn, study, &group, checkpoint.as_ref(), wake_at, change.now).await?;
            Some(Stored { group, checkpoint, accounted: change.now })
        }
        (Some(was), None) => {
            groups::delete(conn, was, change.now).await?;
            None
        }
        (Some(was), Some(group)) => {
            groups::store(conn, &group, was, wake_at, change.now).await?;
            Some(Stored { group, checkpoint: was.checkpoint.clone(), accounted: was.accounted.max(change.now) })
        }
    };
    let before = was.map(|stored| stored.group);
    let after = subject.group.as_ref().map(|stored| &stored.group);
    if before.as_ref() != after {
        for node in before.iter().chain(after).flat_map(groups::nodes) {
            change.wake_node(NodeId(node));
        }
        change.wake();
    }
    Ok(())
}

fn apply(change: &mut Change, subject: &mut Subject, attempt: u32, effect: Effect) {
    let trial = subject.trial.id;
    match effect {
        Effect::Note { text } => change.note(Some(trial), text),
        Effect::Stable { generation, width, step } if attempt == subject.trial.attempt => {
            change.record(Event::Resized { trial, attempt, generation, width, step });
            subject.trial.last_resize = Some(change.now);
            subject.trial.results_since_resize = 0;
            subject.trial.started.get_or_insert(change.now);
        }
        Effect::Ended { end } if attempt == subject.trial.attempt && !subject.trial.state.is_final() => {
            finish_attempt(change, subject, end)
        }
        // Of an attempt that was over already: that its processes are gone is all that was wanted.
        Effect::Stable { .. } | Effect::Ended { .. } => {}
    }
}

/// No process of the trial's current attempt is left.
fn finish_attempt(change: &mut Change, subject: &mut Subject, end: AttemptEnd) {
    let trial = &mut subject.trial;
    if trial.state == TrialState::Stopping {
        let (ending, reason) = (trial.ending.unwrap_or(TrialState::Cancelled), trial.reason);
        return subject.enter(change, ending, reason);
    }
    match end {
        AttemptEnd::Asked => subject.next_attempt(change, TrialState::Waiting, Some(Reason::Preempted)),
        AttemptEnd::NodeLost => {
            change.note(Some(trial.id), "its node was lost: it goes on from its newest checkpoint");
            subject.next_attempt(change, TrialState::Waiting, Some(Reason::WorkerLost));
        }
        AttemptEnd::Lost { message } => {
            trial.failures += 1;
            trial.message = Some(message);
            if trial.failures > MAX_RESTARTS {
                subject.enter(change, TrialState::Failed, Some(Reason::WorkerLost));
            } else {
                subject.next_attempt(change, TrialState::Waiting, Some(Reason::WorkerLost));
            }
        }
        AttemptEnd::OutOfMemory { peak_bytes } => {
            trial.peak_bytes = trial.peak_bytes.max(peak_bytes);
            if trial.alone {
                trial.message = Some("it ran out of device memory although it was alone on its devices".into());
                subject.enter(change, TrialState::Failed, Some(Reason::OutOfMemory));
            } else {
                trial.alone = true;
                subject.next_attempt(change, TrialState::Waiting, Some(Reason::OutOfMemory));
            }
        }
        AttemptEnd::Unusable { message } => {
            trial.message = Some(message);
            subject.enter(change, TrialState::Failed, Some(Reason::Error));
        }
    }
}

/// Keeps a live trial's state in step with its group's.
fn show(change: &mut Change, subject: &mut Subject) {
    let Some(Stored { group, .. }) = &subject.group else { return };
    let placed = matches!(subject.trial.state, TrialState::Waiting | TrialState::Starting | TrialState::Running | TrialState::Resizing);
    if !placed || group.attempt != subject.trial.attempt {
        return;
    }
    let state = match (group.generation, &group.next) {
        (0, _) => TrialState::Starting,
        (_, Some(_)) => TrialState::Resizing,
        (_, None) => TrialState::Running,
    };
    if state != subject.trial.state {
        subject.enter(change, state, None);
    }
}
