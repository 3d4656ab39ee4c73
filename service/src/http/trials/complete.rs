//! `POST /trials/{id}:complete` (also called tell): an outside worker is done with a trial.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use elastune_api::trial::{CompleteRequest, Trial};
use elastune_core::model::ids::TrialId;
use sqlx::Connection;

use super::{check_metrics, refused};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{Id, Numbers};
use crate::http::idempotency::{self, Keyed};
use crate::http::openapi::Problems;
use crate::reconcile::outside;

/// Ends a trial by its last measurement, or by the metrics sent along. A value that is not finite fails it with `no_metric`.
#[utoipa::path(post, path = "/trials/{id}/~complete", tag = "trials", request_body = CompleteRequest,
    params(("id" = TrialId, Path), ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key gets the same answer")),
    responses((status = 200, body = Trial), Problems))]
pub async fn complete(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<TrialId>,
    Keyed { body: Numbers(request), key }: Keyed<Numbers<CompleteRequest>>,
) -> Result<Response> {
    let mut errors = Vec::new();
    check_metrics("metrics", &request.metrics, &mut errors);
    if !errors.is_empty() {
        return Err(ApiError::invalid("invalid_measurement", "the trial was not completed; `errors` says why", errors));
    }
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    if let Some(answer) = idempotency::replay(&mut tx, key.as_ref()).await? {
        return Ok(answer);
    }
    outside::complete(&mut tx, id, request).await?.map_err(|fault| refused(&fault))?;
    let trial = super::read(&mut tx, id).await?;
    let response = idempotency::keep(&mut tx, key.as_ref(), StatusCode::OK, &trial).await?;
    tx.commit().await?;
    Ok(response)
}
