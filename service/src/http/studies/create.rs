//! `POST /studies`: stores a valid document as an active study.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use elastune_api::study::Study;
use elastune_core::model::ids::StudyId;
use elastune_core::model::study::StudySpec;
use sqlx::Connection;
use uuid::Uuid;

use super::validate::checked;
use crate::app::App;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Document;
use crate::http::idempotency::{self, Keyed};
use crate::http::openapi::Problems;
use crate::reconcile::verbs;

/// Creates a study. The body is JSON or YAML; every error in it is answered at once.
#[utoipa::path(post, path = "/studies", tag = "studies", request_body(content((StudySpec = "application/json"), (String = "application/yaml"))),
    params(("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key answers the study made before")),
    responses((status = 201, body = Study, headers(("Location" = String))), Problems))]
pub async fn create(State(app): State<App>, _: Admin, Keyed { body: Document(document), key }: Keyed<Document>) -> Result<Response> {
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    if let Some(answer) = idempotency::replay(&mut tx, key.as_ref()).await? {
        return Ok(answer);
    }
    let id = StudyId(Uuid::now_v7());
    verbs::create_study(&mut tx, id, &checked(&document)?.spec).await?;
    let study = super::read(&mut tx, id).await?;
    let mut response = idempotency::keep(&mut tx, key.as_ref(), StatusCode::CREATED, &study).await?;
    tx.commit().await?;
    if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/studies/{id}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}
