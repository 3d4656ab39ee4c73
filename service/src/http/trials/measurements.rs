//! `GET /trials/{id}/measurements`.

use axum::Json;
use axum::extract::State;
use elastune_api::trial::Measurement;
use elastune_core::model::ids::TrialId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::db::{measurements as table, trials};
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{Id, Query};
use crate::http::openapi::Problems;

const MOST: i64 = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Only those after this step.
    after: Option<f64>,
}

/// What a trial measured, by step; at most 10,000 at once, so ask again with the last step as `after`.
#[utoipa::path(get, path = "/trials/{id}/measurements", tag = "trials", params(("id" = TrialId, Path), Asked),
    responses((status = 200, body = Vec<Measurement>), Problems))]
pub async fn measurements(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<TrialId>,
    Query(asked): Query<Asked>,
) -> Result<Json<Vec<Measurement>>> {
    let after = asked.after.unwrap_or(f64::NEG_INFINITY);
    if after.is_nan() {
        return Err(ApiError::field("after", "is not a number"));
    }
    let mut conn = app.pool.acquire().await?;
    trials::study_of(&mut conn, id).await?;
    Ok(Json(table::list_page(&mut conn, id, after, MOST).await?))
}
