//! `DELETE /studies/{id}`: with all that is known of it.

use axum::extract::State;
use axum::http::StatusCode;
use elastune_core::model::ids::StudyId;

use crate::app::App;
use crate::db::studies;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

/// Deletes a study that has ended, its trials, measurements and logs.
#[utoipa::path(delete, path = "/studies/{id}", tag = "studies", params(("id" = StudyId, Path)), responses((status = 204), Problems))]
pub async fn delete(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<StatusCode> {
    let mut conn = app.pool.acquire().await?;
    studies::delete(&mut conn, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
