//! `POST /trials/{id}:heartbeat`: an outside worker is alive.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::{HeartbeatRequest, Lease};
use elastune_core::model::ids::TrialId;

use crate::app::App;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::{self, Id};
use crate::http::openapi::Problems;
use crate::reconcile::outside;

/// Renews a lease for 30 s.
#[utoipa::path(post, path = "/trials/{id}/~heartbeat", tag = "trials", params(("id" = TrialId, Path)), request_body = HeartbeatRequest,
    responses((status = 200, body = Lease), Problems))]
pub async fn heartbeat(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<TrialId>,
    extract::Json(request): extract::Json<HeartbeatRequest>,
) -> Result<Json<Lease>> {
    let mut conn = app.pool.acquire().await?;
    Ok(Json(outside::heartbeat(&mut conn, id, request.lease).await?))
}
