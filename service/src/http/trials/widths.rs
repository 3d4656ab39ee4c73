//! `GET /trials/{id}/widths`: width over time.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::WidthPoint;
use elastune_core::model::event::{Event, StudyEvent};
use elastune_core::model::ids::TrialId;
use elastune_core::model::trial::TrialState;
use elastune_core::model::width::Width;

use crate::app::App;
use crate::db::{events, trials};
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

const MOST: i64 = 5_000;
/// Of the events that `points` reads.
pub const KINDS: [&str; 2] = ["resized", "changed"];

/// A point at each change of the trial's width, oldest first; the newest 5,000.
#[utoipa::path(get, path = "/trials/{id}/widths", tag = "trials", params(("id" = TrialId, Path)),
    responses((status = 200, body = Vec<WidthPoint>), Problems))]
pub async fn widths(State(app): State<App>, _: Admin, Id(id): Id<TrialId>) -> Result<Json<Vec<WidthPoint>>> {
    let mut conn = app.pool.acquire().await?;
    trials::study_of(&mut conn, id).await?;
    let mut history = events::of_trial(&mut conn, id, &KINDS, MOST).await?;
    history.reverse();
    Ok(Json(points(&history)))
}

/// A generation's first step sets the width; a state that holds nothing ends it.
pub fn points(history: &[StudyEvent]) -> Vec<WidthPoint> {
    let mut points: Vec<WidthPoint> = Vec::new();
    for StudyEvent { at, event, .. } in history {
        match event {
            Event::Resized { attempt, generation, width, step, .. } => {
                points.push(WidthPoint { at: *at, width: *width, attempt: *attempt, generation: *generation, step: *step });
            }
            Event::Changed { state, .. } if holds_nothing(*state) => {
                if let Some(last) = points.last().filter(|last| !last.width.is_zero()).cloned() {
                    points.push(WidthPoint { at: *at, width: Width::ZERO, ..last });
                }
            }
            _ => {}
        }
    }
    points
}

fn holds_nothing(state: TrialState) -> bool {
    state.is_final() || matches!(state, TrialState::Waiting | TrialState::Paused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elastune_core::time::Time;

    #[test]
    fn width_falls_to_zero_once_when_the_processes_are_gone() {
        let trial = TrialId(uuid::Uuid::nil());
        let resized = |width, generation| Event::Resized { trial, attempt: 1, generation, width: Width::Devices(width), step: 10 };
        let changed = |state| Event::Changed { trial, state, reason: None, attempt: 1 };
        let history: Vec<_> = [
            changed(TrialState::Waiting),
            changed(TrialState::Starting),
            resized(1, 1),
            changed(TrialState::Running),
            resized(4, 2),
            changed(TrialState::Paused),
            changed(TrialState::Waiting),
            resized(2, 1),
            changed(TrialState::Completed),
        ]
        .into_iter()
        .enumerate()
        .map(|(i, event)| StudyEvent { seq: i as u64 + 1, at: Time(i as i64), event })
        .collect();
        let seen: Vec<_> = points(&history).iter().map(|point| (point.at.0, point.width.devices())).collect();
        assert_eq!(seen, [(2, 1.0), (4, 4.0), (5, 0.0), (7, 2.0), (8, 0.0)]);
    }
}
