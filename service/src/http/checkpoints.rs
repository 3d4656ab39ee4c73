//! `PUT` and `GET /checkpoints/{sha256}`: bytes under the hash of their content.

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use elastune_api::trial::StoredCheckpoint;
use futures::StreamExt;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth::CheckpointUser;
use super::extract::path_part;
use super::openapi::Problems;
use crate::app::App;
use crate::checkpoints::{MAX_CHECKPOINT_BYTES, PutError, Sha256Hex};
use crate::error::{ApiError, Result};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(put, get))
}

/// The `{sha256}` of the path.
pub struct Name(Sha256Hex);

impl axum::extract::FromRequestParts<App> for Name {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut axum::http::request::Parts, app: &App) -> Result<Self> {
        let text = path_part(parts, app, "sha256").await?;
        Sha256Hex::parse(&text).map(Name).ok_or_else(|| {
            ApiError::bad_request("invalid_sha256", "a checkpoint is named by the SHA-256 of its bytes: 64 lower-case hexadecimal digits")
        })
    }
}

/// Stores bytes under their SHA-256. They appear whole or not at all; bytes that are there already are left alone.
#[utoipa::path(put, path = "/checkpoints/{sha256}", tag = "checkpoints", params(("sha256" = String, Path)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "It was there", body = StoredCheckpoint), (status = 201, body = StoredCheckpoint), Problems))]
pub async fn put(
    State(app): State<App>,
    _: CheckpointUser,
    Name(name): Name,
    request: Request,
) -> Result<(StatusCode, Json<StoredCheckpoint>)> {
    if let Some(bytes) = app.checkpoints.size_bytes(&name).await.map_err(ApiError::internal)? {
        // Taken off the wire, so that the connection can be used again.
        let mut rest = request.into_body().into_data_stream();
        while let Some(Ok(_)) = rest.next().await {}
        return Ok((StatusCode::OK, Json(StoredCheckpoint { sha256: name.as_str().into(), bytes })));
    }
    match app.checkpoints.put(&name, request.into_body().into_data_stream()).await {
        Ok(bytes) => Ok((StatusCode::CREATED, Json(StoredCheckpoint { sha256: name.as_str().into(), bytes }))),
        Err(PutError::Mismatch { actual }) => Err(ApiError::invalid(
            "hash_mismatch",
            format!("the bytes hash to {actual}, not to the name they were sent under; nothing was stored, so send them again"),
            Vec::new(),
        )),
        Err(PutError::TooLarge) => Err(ApiError::too_large(MAX_CHECKPOINT_BYTES)),
        Err(PutError::Body(error)) => {
            Err(ApiError::bad_request("broken_body", format!("the upload broke off, nothing was stored: {error}")))
        }
        Err(error @ PutError::Write(_)) => Err(ApiError::internal(error)),
    }
}

/// The bytes of a checkpoint: safetensors.
#[utoipa::path(get, path = "/checkpoints/{sha256}", tag = "checkpoints", params(("sha256" = String, Path)),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), Problems))]
pub async fn get(State(app): State<App>, _: CheckpointUser, Name(name): Name) -> Result<Response> {
    let found = app.checkpoints.get(&name).await.map_err(ApiError::internal)?;
    let Some((bytes, stream)) = found else {
        return Err(ApiError::not_found("there is no such checkpoint in the store; /trials/{id}/checkpoints lists those of a trial"));
    };
    let headers: [(HeaderName, String); 4] = [
        (header::CONTENT_TYPE, "application/octet-stream".into()),
        (header::CONTENT_LENGTH, bytes.to_string()),
        (header::CACHE_CONTROL, "private, max-age=31536000, immutable".into()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}.safetensors\"", name.as_str())),
    ];
    Ok((headers, Body::from_stream(stream)).into_response())
}
