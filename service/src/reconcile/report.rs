//! What each kind of report does to its trial, and which are too late to do anything. Called by `ingest`.

use elastune_api::agent::{AgentReport, ReportBody};
use elastune_api::trial::Measurement;
use elastune_core::model::event::Event;
use elastune_core::model::group::Group;
use elastune_core::model::ids::Incarnation;
use elastune_core::model::trial::{CheckpointRef, RateSample};
use sqlx::PgConnection;

use super::carry_out::{Placements, steer};
use super::change::{Change, Subject};
use super::measure;
use crate::db::{Result, checkpoints, logs};

/// Why a report is dropped: it is late, or makes no sense.
pub type Late = String;

/// Widths of which a trial remembers its speed.
const RATES_KEPT: usize = 16;

/// Whether the report may start the trial's next attempt or order, for which the current plan is needed.
pub fn needs_placement(body: &ReportBody) -> bool {
    body.fact(Incarnation(uuid::Uuid::nil())).is_some() || matches!(body, ReportBody::Milestone { .. })
}

/// Applies one report. The inner error says why it is dropped.
pub async fn take(
    conn: &mut PgConnection,
    change: &mut Change,
    subject: &mut Subject,
    placements: &Placements,
    report: &AgentReport,
) -> Result<std::result::Result<(), Late>> {
    if let ReportBody::Log { source, line } = &report.body {
        logs::insert(conn, report.trial, report.attempt, report.at, source, line).await?;
        return Ok(Ok(()));
    }
    if let Some(fact) = report.body.fact(report.incarnation) {
        let known =
            subject.group.as_ref().is_some_and(|stored| stored.group.attempt == report.attempt && knows(&stored.group, report.incarnation));
        if !known {
            return Ok(Err("the process is not of the trial's group any more".into()));
        }
        steer(conn, change, subject, placements, &[fact]).await?;
        return Ok(Ok(()));
    }
    if let Err(late) = fence(subject, report) {
        return Ok(Err(late));
    }
    match &report.body {
        ReportBody::Progress { done, rates, .. } => Ok(progress(subject, *done, rates)),
        ReportBody::Measured { resource, metrics, elapsed_s } => {
            let measurement = Measurement { step: *resource, metrics: metrics.clone(), elapsed_s: *elapsed_s };
            if let Err(fault) = measure::check(&measurement) {
                return Ok(Err(fault));
            }
            measure::take(conn, change, subject, measurement).await?;
            Ok(Ok(()))
        }
        ReportBody::Milestone { resource } => milestone(conn, change, subject, placements, *resource).await,
        ReportBody::Checkpointed { checkpoint } => checkpointed(conn, change, subject, checkpoint).await,
        _ => Ok(Ok(())),
    }
}

/// A process of the group, or one that an order given up may still have made one.
fn knows(group: &Group, incarnation: Incarnation) -> bool {
    let ordered = group.next.iter().chain(&group.abandoned).flat_map(|order| &order.members);
    group.members.iter().chain(ordered).chain(&group.leavers).any(|member| member.incarnation == incarnation)
}

fn fence(subject: &Subject, report: &AgentReport) -> std::result::Result<(), Late> {
    let trial = &subject.trial;
    if trial.state.is_final() {
        return Err("the trial has ended".into());
    }
    if report.attempt != trial.attempt {
        return Err(format!("attempt {} is over, the trial is in attempt {}", report.attempt, trial.attempt));
    }
    let stored = subject.group.as_ref().filter(|stored| knows(&stored.group, report.incarnation));
    stored.map(drop).ok_or_else(|| "the process is not of the trial's group any more".into())
}

fn progress(subject: &mut Subject, done: f64, rates: &[RateSample]) -> std::result::Result<(), Late> {
    if !(0.0..=1e12).contains(&done) {
        return Err(format!("{done} is no progress"));
    }
    let trial = &mut subject.trial;
    trial.done = done;
    for rate in rates.iter().filter(|rate| rate.seconds_per_unit.is_finite() && rate.seconds_per_unit > 0.0) {
        trial.rates.retain(|kept| (kept.width, kept.nodes) != (rate.width, rate.nodes));
        trial.rates.push(*rate);
    }
    let surplus = trial.rates.len().saturating_sub(RATES_KEPT);
    trial.rates.drain(..surplus);
    Ok(())
}

/// It holds its slot and waits for a verdict; at the last resource it is complete.
async fn milestone(
    conn: &mut PgConnection,
    change: &mut Change,
    subject: &mut Subject,
    placements: &Placements,
    resource: f64,
) -> Result<std::result::Result<(), Late>> {
    let trial = &mut subject.trial;
    if !resource.is_finite() || resource < trial.run_until {
        return Ok(Err(format!("the trial may go on to {}", trial.run_until)));
    }
    trial.done = resource;
    if resource >= change.study.spec.max_resource() {
        measure::complete(change, subject);
        steer(conn, change, subject, placements, &[]).await?;
    } else {
        trial.held = true;
    }
    change.wake();
    Ok(Ok(()))
}

async fn checkpointed(
    conn: &mut PgConnection,
    change: &mut Change,
    subject: &mut Subject,
    checkpoint: &CheckpointRef,
) -> Result<std::result::Result<(), Late>> {
    let hex = checkpoint.sha256.len() == 64 && checkpoint.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !hex || !(0.0..=1e12).contains(&checkpoint.resource) || checkpoint.step > i64::MAX as u64 || checkpoint.bytes > i64::MAX as u64 {
        return Ok(Err("it names no checkpoint".into()));
    }
    // Resuming from it must not skip what it has been measured for.
    let measured = subject.trial.measured.unwrap_or(0.0);
    if checkpoint.resource.floor() > measured {
        return Ok(Err(format!("the measurements up to {} are not here yet", checkpoint.resource.floor())));
    }
    let trial = &mut subject.trial;
    if checkpoints::insert(conn, trial.id, trial.attempt, checkpoint, change.now).await? {
        change.record(Event::Checkpointed { trial: trial.id, checkpoint: checkpoint.clone() });
    }
    if trial.checkpoint.as_ref().is_none_or(|newest| newest.step <= checkpoint.step) {
        trial.checkpoint = Some(checkpoint.clone());
    }
    Ok(Ok(()))
}
