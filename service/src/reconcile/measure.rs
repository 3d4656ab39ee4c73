//! Takes a measurement and completes trials by what they measured. Called by `report` (agents) and `outside` (outside workers).

use elastune_api::trial::Measurement;
use elastune_core::model::event::Event;
use elastune_core::model::trial::{Reason, TrialState};
use sqlx::PgConnection;

use super::change::{Change, Subject};
use crate::db::{Result, measurements};

/// Metrics of one measurement at the most.
pub const MAX_METRICS: usize = 64;
/// Bytes of a metric's name at the most.
const MAX_NAME_BYTES: usize = 200;

/// Takes a measurement that `check` has passed. Whether it is new: one of a step that is already there changes nothing.
pub async fn take(conn: &mut PgConnection, change: &mut Change, subject: &mut Subject, measurement: Measurement) -> Result<bool> {
    let trial = &mut subject.trial;
    let Measurement { step, metrics, elapsed_s } = &measurement;
    if !measurements::insert(conn, trial.id, trial.attempt, &measurement, change.now).await? {
        return Ok(false);
    }
    change.record(Event::Measured { trial: trial.id, resource: *step, metrics: metrics.clone(), elapsed_s: *elapsed_s });
    trial.results_since_resize += 1;
    trial.done = trial.done.max(*step);
    // Outside workers may report out of order: the latest is the one of the highest step.
    if trial.measured.is_none_or(|measured| measured < *step) {
        trial.measured = Some(*step);
        trial.metrics.extend(metrics.iter().map(|(name, value)| (name.clone(), value.clone())));
        let objective = change.study.spec.metrics.first().and_then(|metric| metrics.get(&metric.name));
        if let Some(objective) = objective {
            trial.value = objective.number().filter(|value| value.is_finite());
            trial.value_resource = trial.value.map(|_| *step);
        }
    }
    Ok(true)
}

/// Why a measurement makes no sense, with the field at fault.
pub fn check(measurement: &Measurement) -> std::result::Result<(), String> {
    let Measurement { step, metrics, elapsed_s } = measurement;
    if !(0.0..=1e12).contains(step) {
        return Err(format!("step: {step} is not between 0 and 1e12"));
    }
    if !(0.0..=1e12).contains(elapsed_s) {
        return Err(format!("elapsed_s: {elapsed_s} is not between 0 and 1e12"));
    }
    if metrics.is_empty() || metrics.len() > MAX_METRICS {
        return Err(format!("metrics: {} of them; a measurement has 1 to {MAX_METRICS}", metrics.len()));
    }
    match metrics.keys().find(|name| name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0')) {
        Some(_) => Err(format!("metrics: a name has 1 to {MAX_NAME_BYTES} bytes")),
        None => Ok(()),
    }
}

/// By what it measured last: completed, or failed where that is no finite number.
pub fn complete(change: &mut Change, subject: &mut Subject) {
    let metric = change.study.spec.metrics.first().map(|metric| metric.name.clone()).unwrap_or_default();
    if subject.trial.value.is_some() {
        subject.trial.message = None;
        subject.enter(change, TrialState::Completed, None);
    } else {
        subject.trial.message = Some(match subject.trial.metrics.get(&metric) {
            Some(_) => format!("its last value of '{metric}' is not a finite number"),
            None => format!("it never reported '{metric}'"),
        });
        subject.enter(change, TrialState::Failed, Some(Reason::NoMetric));
    }
}
