//! `GET /studies/{id}/widths`: how the study's trials shared devices over time.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use elastune_api::study::{StudyWidths, TrialWidths};
use elastune_core::model::event::StudyEvent;
use elastune_core::model::ids::{StudyId, TrialId};

use crate::app::App;
use crate::db::{events, studies};
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;
use crate::http::trials::widths::{KINDS, points};

const MOST: i64 = 5_000;

/// A point at each change of each trial's width, oldest first, out of the newest 5,000 changes of the study.
#[utoipa::path(get, path = "/studies/{id}/widths", tag = "studies", params(("id" = StudyId, Path)),
    responses((status = 200, body = StudyWidths), Problems))]
pub async fn widths(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<StudyWidths>> {
    let mut conn = app.pool.acquire().await?;
    studies::get(&mut conn, id).await?;
    let history = events::of_study(&mut conn, id, &KINDS, MOST).await?;
    let truncated = history.len() as i64 == MOST;
    let mut trials: BTreeMap<(u32, TrialId), Vec<StudyEvent>> = BTreeMap::new();
    for (number, trial, event) in history.into_iter().rev() {
        trials.entry((number, trial)).or_default().push(event);
    }
    let trials = trials.into_iter().map(|((number, trial), events)| TrialWidths { trial, number, points: points(&events) });
    Ok(Json(StudyWidths { trials: trials.filter(|trial| !trial.points.is_empty()).collect(), truncated }))
}
