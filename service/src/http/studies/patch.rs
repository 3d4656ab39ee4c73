//! `PATCH /studies/{id}`: limits of a live study.

use axum::Json;
use axum::extract::State;
use elastune_api::study::{Study, StudyPatch};
use elastune_core::model::ids::StudyId;
use elastune_core::model::study::StudySpec;
use sqlx::Connection;

use super::validate::checked;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{self, Id};
use crate::http::openapi::Problems;
use crate::reconcile::verbs;

/// Changes limits while the study lives. What results is checked like a new document, and takes effect at the next decision.
#[utoipa::path(patch, path = "/studies/{id}", tag = "studies", params(("id" = StudyId, Path)), request_body = StudyPatch,
    responses((status = 200, body = Study), Problems))]
pub async fn patch(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<StudyId>,
    extract::Json(patch): extract::Json<StudyPatch>,
) -> Result<Json<Study>> {
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    verbs::change_study(&mut tx, id, |spec| edit(spec, &patch)).await??;
    let study = super::read(&mut tx, id).await?;
    tx.commit().await?;
    Ok(Json(study))
}

fn edit(spec: &StudySpec, patch: &StudyPatch) -> Result<StudySpec> {
    let mut spec = spec.clone();
    let StudyPatch { max_trials, max_parallel, priority, weight, min_width, max_width } = patch;
    fn set<T: Copy>(value: &mut T, new: &Option<T>) {
        if let Some(new) = new {
            *value = *new;
        }
    }
    set(&mut spec.budget.max_trials, max_trials);
    set(&mut spec.budget.max_parallel, max_parallel);
    set(&mut spec.scheduling.priority, priority);
    set(&mut spec.scheduling.weight, weight);
    set(&mut spec.resources.min_width, min_width);
    set(&mut spec.resources.max_width, max_width);
    let document = serde_json::to_value(&spec).map_err(ApiError::internal)?;
    Ok(checked(&document)?.spec)
}
