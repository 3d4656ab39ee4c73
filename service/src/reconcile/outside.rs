//! Outside workers: a user's own loop that asks for trials, reports on them and completes them, each trial under a lease. Called
//! by `http` and, for leases that run out, by the driver.

use elastune_api::trial::{
    Action, CompleteRequest, Lease as LeaseAnswer, Measurement, ReportRequest, Reported, ShouldStop, SuggestResponse, Suggestion,
};
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::propose::unproposed;
use elastune_core::time::{Span, Time};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::carry_out::MAX_RESTARTS;
use super::change::{Change, Subject};
use super::verbs::finished;
use super::{judge, measure, memory, propose};
use crate::db::trials::{Lease, Trial};
use crate::db::{Error, Result, trials};

/// Three heartbeats of ten seconds.
pub const LEASE: Span = Span::from_secs(30);
/// Trials handed out at once at the most.
pub const MAX_SUGGESTIONS: u32 = 100;

/// Hands out at most `count` trials, in the caller's transaction: those that wait (promoted, lost by another worker) before new
/// ones. Empty with `exhausted` false: ask again later.
pub async fn suggest(conn: &mut PgConnection, study: StudyId, worker: &str, count: u32) -> Result<SuggestResponse> {
    let mut change = Change::begin(conn, study).await?;
    expect_outside(&change)?;
    if change.study.state != StudyState::Active {
        return Ok(SuggestResponse { trials: Vec::new(), exhausted: change.study.state != StudyState::Paused });
    }
    let count = count.min(MAX_SUGGESTIONS) as usize;
    let live = trials::live(conn, study).await?;
    let held = live.iter().filter(|trial| trial.lease.is_some()).count();
    let room = (change.study.spec.budget.max_parallel as usize).saturating_sub(held).min(count);
    let mut waiting: Vec<&Trial> = live.iter().filter(|trial| trial.state == TrialState::Waiting).collect();
    // What was promoted or lost goes before what was never started.
    waiting.sort_by_key(|trial| (trial.started.is_none(), trial.number));
    let mut chosen: Vec<TrialId> = waiting.into_iter().map(|trial| trial.id).take(room).collect();
    let missing = (room - chosen.len()) as u32;
    if missing > 0 {
        chosen.extend(propose::draw(conn, &mut change, missing, 0).await?);
    }
    let mut suggested = Vec::new();
    for id in chosen {
        let mut subject = Subject::load(conn, id).await?;
        suggested.push(lend(&mut change, &mut subject, worker));
        subject.store(conn).await?;
    }
    let exhausted = suggested.is_empty() && is_spent(conn, &change).await?;
    change.finish(conn).await?;
    Ok(SuggestResponse { trials: suggested, exhausted })
}

fn lend(change: &mut Change, subject: &mut Subject, worker: &str) -> Suggestion {
    let lease = Lease { id: Uuid::new_v4(), holder: worker.to_owned(), expires: change.now + LEASE };
    let trial = &mut subject.trial;
    trial.started.get_or_insert(change.now);
    let suggestion = Suggestion {
        id: trial.id,
        number: trial.number,
        parameters: trial.parameters.clone(),
        run_until: trial.run_until.is_finite().then_some(trial.run_until),
        resume_from: (trial.done > 0.0).then_some(trial.done),
        lease: lease.id,
        lease_expires: lease.expires,
    };
    trial.lease = Some(lease);
    subject.enter(change, TrialState::Running, None);
    suggestion
}

async fn is_spent(conn: &mut PgConnection, change: &Change) -> Result<bool> {
    let (live, paused) = trials::any_open(conn, change.study.id).await?;
    let remembered = memory::of_propose(conn, &change.study).await?;
    Ok(!live && !paused && unproposed(&change.study.spec, &remembered.memory) == 0)
}

pub async fn heartbeat(conn: &mut PgConnection, trial: TrialId, lease: Uuid) -> Result<LeaseAnswer> {
    let mut tx = conn.begin().await?;
    let done = async {
        let (change, mut subject) = open(&mut tx, trial, Some(lease)).await?;
        let lease_expires = renew(&change, &mut subject);
        subject.store(&mut tx).await?;
        Ok(LeaseAnswer { lease, lease_expires })
    }
    .await;
    crate::db::end(tx, done).await
}

/// Takes all measurements or none. At the last resource the trial is complete.
pub async fn report(conn: &mut PgConnection, trial: TrialId, request: ReportRequest) -> Result<std::result::Result<Reported, String>> {
    for (index, measurement) in request.measurements.iter().enumerate() {
        if let Err(fault) = measure::check(measurement) {
            return Ok(Err(format!("measurements[{index}].{fault}")));
        }
    }
    let mut tx = conn.begin().await?;
    let done = async {
        let (mut change, mut subject) = open(&mut tx, trial, request.lease).await?;
        let mut reported = Reported { stored: 0, repeated: 0 };
        for measurement in request.measurements {
            match measure::take(&mut tx, &mut change, &mut subject, measurement).await? {
                true => reported.stored += 1,
                false => reported.repeated += 1,
            }
        }
        renew(&change, &mut subject);
        if subject.trial.measured.is_some_and(|step| step >= change.study.spec.max_resource()) {
            measure::complete(&mut change, &mut subject);
        } else if subject.trial.measured.is_some_and(|step| step >= subject.trial.run_until) {
            subject.trial.held = true;
        }
        subject.store(&mut tx).await?;
        change.finish(&mut tx).await?;
        Ok(Ok(reported))
    }
    .await;
    crate::db::end(tx, done).await
}

/// Whether to go on. Judges first, so that the answer knows all that was reported. With the asker's `lease`: a trial that was paused,
/// promoted and lent to another worker in the meantime runs on, but not for the asker.
pub async fn should_stop(conn: &mut PgConnection, id: TrialId, lease: Option<Uuid>) -> Result<ShouldStop> {
    let study = trials::study_of(conn, id).await?;
    judge::run(conn, study).await?;
    let trial = trials::get(conn, id).await?;
    let run_until = trial.run_until.is_finite().then_some(trial.run_until);
    let (action, reason) = match trial.state {
        TrialState::Paused => (Action::Pause, "it waits at its rung; it is suggested again if it is promoted".into()),
        TrialState::Waiting => (Action::Pause, "it waits to be given to a worker: ask for another trial".into()),
        TrialState::Stopping => (Action::Stop, "it was asked to stop: complete it".into()),
        state if state.is_final() => {
            let words = trial.message.clone().unwrap_or_else(|| format!("the trial is {}", crate::db::word(&state)));
            (Action::Stop, words)
        }
        _ if lease.is_some() && lease != trial.lease.map(|held| held.id) => {
            (Action::Pause, "another worker has it now: ask for another trial".into())
        }
        _ => match run_until {
            Some(resource) => (Action::Continue, format!("it may go on to {resource}")),
            None => (Action::Continue, "nothing stops it".into()),
        },
    };
    Ok(ShouldStop { action, reason, run_until })
}

/// The trial is done, in the caller's transaction, which must be rolled back on either error. Once it has ended, completing it
/// again answers the trial as it is.
pub async fn complete(conn: &mut PgConnection, id: TrialId, request: CompleteRequest) -> Result<std::result::Result<Trial, String>> {
    let trial = trials::get(conn, id).await?;
    if trial.state.is_final() {
        return Ok(Ok(trial));
    }
    let (mut change, mut subject) = match open(conn, id, request.lease).await {
        Ok(opened) => opened,
        // Someone else ended it between the two looks.
        Err(Error::Conflict { code: "trial_finished", .. }) => return Ok(Ok(trials::get(conn, id).await?)),
        Err(error) => return Err(error),
    };
    if !request.metrics.is_empty() {
        let step = subject.trial.measured.map_or(1.0, |step| step + 1.0).min(change.study.spec.max_resource());
        let measurement = Measurement { step, metrics: request.metrics, elapsed_s: 0.0 };
        if let Err(fault) = measure::check(&measurement) {
            return Ok(Err(fault));
        }
        measure::take(conn, &mut change, &mut subject, measurement).await?;
    }
    match (request.infeasible, subject.trial.ending) {
        (Some(why), _) => {
            subject.trial.message = Some(why.chars().filter(|c| *c != '\0').take(1000).collect());
            subject.enter(&mut change, TrialState::Failed, Some(Reason::Infeasible));
        }
        (None, Some(ending)) => {
            let reason = subject.trial.reason;
            subject.enter(&mut change, ending, reason);
        }
        (None, None) => measure::complete(&mut change, &mut subject),
    }
    subject.store(conn).await?;
    change.finish(conn).await?;
    Ok(Ok(subject.trial))
}

/// A silent worker's trial waits for another one; after too many it has failed. Whether the lease had run out.
pub async fn expire(conn: &mut PgConnection, study: StudyId, id: TrialId) -> Result<bool> {
    let mut tx = conn.begin().await?;
    let done = async {
        let mut change = Change::begin(&mut tx, study).await?;
        let mut subject = Subject::load(&mut tx, id).await?;
        let Some(holder) = subject.trial.lease.take_if(|lease| lease.expires <= change.now).map(|lease| lease.holder) else {
            return Ok(false);
        };
        let trial = &mut subject.trial;
        if let Some(ending) = trial.ending {
            let reason = trial.reason;
            subject.enter(&mut change, ending, reason);
        } else {
            trial.failures += 1;
            trial.message = Some(format!("the worker '{holder}' has been silent for {} s", LEASE.as_secs_f64()));
            if trial.failures > MAX_RESTARTS {
                subject.enter(&mut change, TrialState::Failed, Some(Reason::WorkerLost));
            } else {
                subject.next_attempt(&mut change, TrialState::Waiting, Some(Reason::WorkerLost));
            }
        }
        subject.store(&mut tx).await?;
        change.finish(&mut tx).await?;
        Ok(true)
    }
    .await;
    crate::db::end(tx, done).await
}

/// The trial under its study's lock, if `lease` still holds it. Without a lease a trial is open to anyone who may write.
async fn open(conn: &mut PgConnection, id: TrialId, lease: Option<Uuid>) -> Result<(Change, Subject)> {
    let study = trials::study_of(conn, id).await?;
    let change = Change::begin(conn, study).await?;
    expect_outside(&change)?;
    let subject = Subject::load(conn, id).await?;
    let trial = &subject.trial;
    if trial.state.is_final() {
        return Err(finished(trial));
    }
    match (&trial.lease, lease) {
        (Some(held), Some(lease)) if held.id == lease => Ok((change, subject)),
        (Some(_), None) => Ok((change, subject)),
        _ => Err(Error::conflict(
            "stale_lease",
            format!("trial {} is not lent under this lease any more: stop working on it and ask for another", trial.number),
        )),
    }
}

fn renew(change: &Change, subject: &mut Subject) -> Time {
    let expires = change.now + LEASE;
    if let Some(lease) = &mut subject.trial.lease {
        lease.expires = expires;
    }
    expires
}

fn expect_outside(change: &Change) -> Result<()> {
    match change.study.spec.workload {
        None => Ok(()),
        Some(_) => Err(Error::conflict("study_has_workload", "this study's trials are run by its workload, not by outside workers")),
    }
}
