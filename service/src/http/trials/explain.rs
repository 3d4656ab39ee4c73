//! `GET /trials/{id}/explain`: why a trial has its width, or waits, or ended, in words.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::{Explain, ExplainLine};
use elastune_core::model::event::Event;
use elastune_core::model::ids::TrialId;
use elastune_core::model::trial::TrialState;

use crate::app::App;
use crate::db::{cluster, events, trials};
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

const LINES: i64 = 200;

/// Why the trial has its width, or holds nothing; and what led to it, newest first.
#[utoipa::path(get, path = "/trials/{id}/explain", tag = "trials", params(("id" = TrialId, Path)), responses((status = 200, body = Explain), Problems))]
pub async fn explain(State(app): State<App>, _: Admin, Id(id): Id<TrialId>) -> Result<Json<Explain>> {
    let mut conn = app.pool.acquire().await?;
    let trial = trials::get(&mut conn, id).await?;
    let plan = cluster::get(&mut conn).await?.plan;
    let report = cluster::report(&mut conn).await?;
    let decided = report.trials.into_iter().find(|line| line.trial == id).filter(|_| trial.state.is_live());
    let (code, text) = match decided {
        Some(line) => (line.code, line.text),
        None => by_state(&trial),
    };
    let kinds = ["judged", "noted", "resized", "changed"];
    let past = events::of_trial(&mut conn, id, &kinds, LINES).await?;
    let history = past.iter().filter_map(|event| Some(ExplainLine { at: event.at, text: sentence(&event.event)? })).collect();
    Ok(Json(Explain { trial: id, state: trial.state, width: trial.width, plan, code, text, history }))
}

/// What the newest decision does not speak of.
fn by_state(trial: &trials::Trial) -> (String, String) {
    let reason = trial.message.clone().or_else(|| trial.reason.map(|reason| format!("reason: {}", words(&reason))));
    let because = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let (code, text) = match trial.state {
        TrialState::Waiting if trial.lease.is_some() => ("leased", "An outside worker has it.".into()),
        TrialState::Waiting => ("not_decided", "It waits for the next decision.".into()),
        TrialState::Paused => {
            ("paused", format!("Paused at {}: it holds nothing, and goes on if its rung promotes it{because}.", trial.done))
        }
        TrialState::Completed => ("completed", format!("Completed at {}.", trial.done)),
        TrialState::Pruned => ("pruned", format!("Ended early at {}{because}.", trial.done)),
        TrialState::Failed => ("failed", format!("Failed at {}{because}.", trial.done)),
        TrialState::Cancelled => ("cancelled", format!("Cancelled at {}{because}.", trial.done)),
        TrialState::Stopping => ("stopping", format!("Its processes are being ended{because}.")),
        TrialState::Starting | TrialState::Running | TrialState::Resizing if trial.lease.is_some() => {
            ("leased", "An outside worker runs it.".into())
        }
        TrialState::Starting | TrialState::Running | TrialState::Resizing => ("not_decided", "No decision has looked at it yet.".into()),
    };
    (code.into(), text)
}

fn sentence(event: &Event) -> Option<String> {
    match event {
        Event::Judged { text, .. } | Event::Noted { text, .. } => Some(text.clone()),
        Event::Resized { width, generation, step, .. } => {
            Some(format!("Width {} from step {step} on (generation {generation}).", width.devices()))
        }
        Event::Changed { state, reason: Some(reason), .. } => Some(format!("Became {}: {}.", words(state), words(reason))),
        Event::Changed { state, .. } => Some(format!("Became {}.", words(state))),
        _ => None,
    }
}

/// `out_of_memory` -> "out of memory".
fn words(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word.replace('_', " "),
        _ => String::new(),
    }
}
