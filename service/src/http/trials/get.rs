//! `GET /trials/{id}`.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::Trial;
use elastune_core::model::ids::TrialId;

use crate::app::App;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

/// One trial.
#[utoipa::path(get, path = "/trials/{id}", tag = "trials", params(("id" = TrialId, Path)), responses((status = 200, body = Trial), Problems))]
pub async fn get(State(app): State<App>, _: Admin, Id(id): Id<TrialId>) -> Result<Json<Trial>> {
    let mut conn = app.pool.acquire().await?;
    super::read(&mut conn, id).await.map(Json)
}
