//! `/healthz` and `/readyz`. Called by whoever watches the process.

use axum::extract::State;
use axum::http::StatusCode;

use super::openapi::Problems;
use crate::app::App;
use crate::error::Result;

/// The process runs.
#[utoipa::path(get, path = "/healthz", tag = "service", security(()), responses((status = 204), Problems))]
pub async fn healthz() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// It reaches its database too.
#[utoipa::path(get, path = "/readyz", tag = "service", security(()), responses((status = 204), Problems))]
pub async fn readyz(State(app): State<App>) -> Result<StatusCode> {
    sqlx::query("select 1").execute(&app.pool).await?;
    Ok(StatusCode::NO_CONTENT)
}
