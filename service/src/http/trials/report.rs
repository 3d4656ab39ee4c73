//! `POST /trials/{id}/measurements`: an outside worker reports.

use axum::Json;
use axum::extract::State;
use elastune_api::problem::FieldError;
use elastune_api::trial::{ReportRequest, Reported};
use elastune_core::model::ids::TrialId;

use super::{check_metrics, refused};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{Id, Numbers};
use crate::http::openapi::Problems;
use crate::reconcile::outside;

const MOST: usize = 1000;

/// Stores all of the measurements or none; a step that is there already keeps its first values. Also renews the lease.
/// NaN and infinite values are stored as the words `nan`, `inf` and `-inf`; Python's bare NaN is understood.
#[utoipa::path(post, path = "/trials/{id}/measurements", tag = "trials", params(("id" = TrialId, Path)), request_body = ReportRequest,
    responses((status = 200, body = Reported), Problems))]
pub async fn report(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<TrialId>,
    Numbers(request): Numbers<ReportRequest>,
) -> Result<Json<Reported>> {
    check(&request)?;
    let mut conn = app.pool.acquire().await?;
    outside::report(&mut conn, id, request).await?.map(Json).map_err(|fault| refused(&fault))
}

fn check(request: &ReportRequest) -> Result<()> {
    let mut errors = Vec::new();
    if !(1..=MOST).contains(&request.measurements.len()) {
        let message = format!("there are {}; send 1 to {MOST} at once", request.measurements.len());
        errors.push(FieldError { path: "measurements".into(), message });
    }
    for (at, measurement) in request.measurements.iter().take(MOST).enumerate() {
        check_metrics(&format!("measurements[{at}].metrics"), &measurement.metrics, &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("invalid_measurement", "nothing was stored; `errors` says why", errors)) }
}
