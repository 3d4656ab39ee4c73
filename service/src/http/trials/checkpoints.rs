//! `GET /trials/{id}/checkpoints`.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::Checkpoint;
use elastune_core::model::ids::TrialId;

use crate::app::App;
use crate::db::{checkpoints as table, trials};
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

/// The trial's checkpoints that are in the store, newest first; download one (safetensors) from `/checkpoints/{sha256}`.
#[utoipa::path(get, path = "/trials/{id}/checkpoints", tag = "trials", params(("id" = TrialId, Path)),
    responses((status = 200, body = Vec<Checkpoint>), Problems))]
pub async fn list(State(app): State<App>, _: Admin, Id(id): Id<TrialId>) -> Result<Json<Vec<Checkpoint>>> {
    let mut conn = app.pool.acquire().await?;
    trials::study_of(&mut conn, id).await?;
    Ok(Json(table::list(&mut conn, id, 1000).await?))
}
