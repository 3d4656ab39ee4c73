//! `POST /trials/{id}:stop`, `:cancel`, `:retry`, `:exclude`.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::{ExcludeRequest, Trial};
use elastune_core::model::ids::TrialId;
use elastune_core::model::trial::TrialState;

use crate::app::App;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::{Id, OptionalJson};
use crate::http::openapi::Problems;
use crate::reconcile::verbs;

/// Ends the trial early; what it measured counts.
#[utoipa::path(post, path = "/trials/{id}/~stop", tag = "trials", params(("id" = TrialId, Path)), responses((status = 200, body = Trial), Problems))]
pub async fn stop(State(app): State<App>, _: Admin, Id(id): Id<TrialId>) -> Result<Json<Trial>> {
    let mut conn = app.pool.acquire().await?;
    verbs::end_trial(&mut conn, id, TrialState::Pruned).await?;
    super::read(&mut conn, id).await.map(Json)
}

/// Gives the trial up; it counts for nothing.
#[utoipa::path(post, path = "/trials/{id}/~cancel", tag = "trials", params(("id" = TrialId, Path)), responses((status = 200, body = Trial), Problems))]
pub async fn cancel(State(app): State<App>, _: Admin, Id(id): Id<TrialId>) -> Result<Json<Trial>> {
    let mut conn = app.pool.acquire().await?;
    verbs::end_trial(&mut conn, id, TrialState::Cancelled).await?;
    super::read(&mut conn, id).await.map(Json)
}

/// A failed or cancelled trial waits again, from its newest checkpoint.
#[utoipa::path(post, path = "/trials/{id}/~retry", tag = "trials", params(("id" = TrialId, Path)), responses((status = 200, body = Trial), Problems))]
pub async fn retry(State(app): State<App>, _: Admin, Id(id): Id<TrialId>) -> Result<Json<Trial>> {
    let mut conn = app.pool.acquire().await?;
    verbs::retry_trial(&mut conn, id).await?;
    super::read(&mut conn, id).await.map(Json)
}

/// Hides a finished trial from the algorithm, or shows it again; its row stays.
#[utoipa::path(post, path = "/trials/{id}/~exclude", tag = "trials", params(("id" = TrialId, Path)), request_body = ExcludeRequest,
    responses((status = 200, body = Trial), Problems))]
pub async fn exclude(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<TrialId>,
    OptionalJson(request): OptionalJson<ExcludeRequest>,
) -> Result<Json<Trial>> {
    let mut conn = app.pool.acquire().await?;
    verbs::exclude_trial(&mut conn, id, request.excluded).await?;
    super::read(&mut conn, id).await.map(Json)
}
