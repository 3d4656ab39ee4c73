//! `POST /studies/{id}:pause`, `:resume`, `:stop`, `:cancel`, `:archive`. Asking twice is no error.

use axum::Json;
use axum::extract::State;
use elastune_api::study::Study;
use elastune_core::model::ids::StudyId;
use elastune_core::model::study::StudyState;

use crate::app::App;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;
use crate::reconcile::verbs;

/// Running trials save and give up their slots; `:resume` goes on from there.
#[utoipa::path(post, path = "/studies/{id}/~pause", tag = "studies", params(("id" = StudyId, Path)), responses((status = 200, body = Study), Problems))]
pub async fn pause(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Study>> {
    let mut conn = app.pool.acquire().await?;
    verbs::pause_study(&mut conn, id).await?;
    super::read(&mut conn, id).await.map(Json)
}

/// A paused study goes on.
#[utoipa::path(post, path = "/studies/{id}/~resume", tag = "studies", params(("id" = StudyId, Path)), responses((status = 200, body = Study), Problems))]
pub async fn resume(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Study>> {
    let mut conn = app.pool.acquire().await?;
    verbs::resume_study(&mut conn, id).await?;
    super::read(&mut conn, id).await.map(Json)
}

/// Ends the study early and keeps it as a result.
#[utoipa::path(post, path = "/studies/{id}/~stop", tag = "studies", params(("id" = StudyId, Path)), responses((status = 200, body = Study), Problems))]
pub async fn stop(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Study>> {
    let mut conn = app.pool.acquire().await?;
    verbs::end_study(&mut conn, id, StudyState::Completed).await?;
    super::read(&mut conn, id).await.map(Json)
}

/// Gives the study up.
#[utoipa::path(post, path = "/studies/{id}/~cancel", tag = "studies", params(("id" = StudyId, Path)), responses((status = 200, body = Study), Problems))]
pub async fn cancel(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Study>> {
    let mut conn = app.pool.acquire().await?;
    verbs::end_study(&mut conn, id, StudyState::Cancelled).await?;
    super::read(&mut conn, id).await.map(Json)
}

/// Hides the study from lists; `?archived=true` lists it still.
#[utoipa::path(post, path = "/studies/{id}/~archive", tag = "studies", params(("id" = StudyId, Path)), responses((status = 200, body = Study), Problems))]
pub async fn archive(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Study>> {
    let mut conn = app.pool.acquire().await?;
    verbs::archive_study(&mut conn, id, true).await?;
    super::read(&mut conn, id).await.map(Json)
}

/// Shows an archived study in lists again.
#[utoipa::path(post, path = "/studies/{id}/~unarchive", tag = "studies", params(("id" = StudyId, Path)), responses((status = 200, body = Study), Problems))]
pub async fn unarchive(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Study>> {
    let mut conn = app.pool.acquire().await?;
    verbs::archive_study(&mut conn, id, false).await?;
    super::read(&mut conn, id).await.map(Json)
}
