//! `GET /trials/{id}/should-stop`: whether an outside worker goes on.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::ShouldStop;
use elastune_core::model::ids::TrialId;
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::app::App;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::{Id, Query};
use crate::http::openapi::Problems;
use crate::reconcile::outside;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The asker's hold on the trial: once it is over, the answer is to pause. Without it, the answer is the trial's, whoever has it.
    lease: Option<Uuid>,
}

/// Continue, pause or stop, with the reason; knows everything that was reported before it was asked.
#[utoipa::path(get, path = "/trials/{id}/should-stop", tag = "trials", params(("id" = TrialId, Path), Asked),
    responses((status = 200, body = ShouldStop), Problems))]
pub async fn should_stop(State(app): State<App>, _: Admin, Id(id): Id<TrialId>, Query(asked): Query<Asked>) -> Result<Json<ShouldStop>> {
    let mut conn = app.pool.acquire().await?;
    Ok(Json(outside::should_stop(&mut conn, id, asked.lease).await?))
}
