//! `GET /studies/{id}`.

use axum::Json;
use axum::extract::State;
use elastune_api::study::Study;
use elastune_core::model::ids::StudyId;

use crate::app::App;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

/// One study, with its document, counts and best trial.
#[utoipa::path(get, path = "/studies/{id}", tag = "studies", params(("id" = StudyId, Path)), responses((status = 200, body = Study), Problems))]
pub async fn get(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Study>> {
    let mut conn = app.pool.acquire().await?;
    super::read(&mut conn, id).await.map(Json)
}
