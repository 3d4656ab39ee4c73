//! `GET /studies/{id}/optimal-trials`.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::Trial;
use elastune_core::model::ids::StudyId;
use elastune_core::model::study::Goal;
use elastune_core::model::trial::TrialState;

use crate::app::App;
use crate::db::{studies, trials};
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

/// The trials that no other is better than: the best by the study's first metric, and those that tie with it.
#[utoipa::path(get, path = "/studies/{id}/optimal-trials", tag = "studies", params(("id" = StudyId, Path)),
    responses((status = 200, body = Vec<Trial>), Problems))]
pub async fn optimal(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Vec<Trial>>> {
    let mut conn = app.pool.acquire().await?;
    let study = studies::get(&mut conn, id).await?;
    let Some(best) = studies::best(&mut conn, &study).await? else { return Ok(Json(Vec::new())) };
    let max_resource = study.spec.max_resource();
    let mut optimal = vec![trials::get(&mut conn, best.trial).await?.to_api(max_resource)];
    let descending = study.spec.metrics.first().is_some_and(|metric| metric.goal == Goal::Maximize);
    let after = trials::Cursor { number: best.number, value: Some(best.value) };
    let ties = trials::list_page(&mut conn, id, &[], trials::Order::Value { descending }, Some(after), 100).await?;
    let counts = |trial: &trials::Trial| !trial.excluded && !matches!(trial.state, TrialState::Failed | TrialState::Cancelled);
    let ties = ties.into_iter().take_while(|trial| trial.value == Some(best.value)).filter(counts);
    optimal.extend(ties.map(|trial| trial.to_api(max_resource)));
    optimal.sort_by_key(|trial| trial.number);
    Ok(Json(optimal))
}
