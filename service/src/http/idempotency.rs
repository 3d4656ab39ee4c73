//! `Idempotency-Key`: a request that is sent twice takes effect once, and is answered twice alike. Used by create, suggest and complete.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;

use super::extract::{NUMBERS_LIMIT_BYTES, read_body};
use crate::db::{self, idempotency};
use crate::error::{ApiError, Result};

/// Keys of one kind of caller: whoever may send one is the admin, or a browser that the admin logged in.
const SCOPE: &str = "admin";

/// The key and what it was sent with.
#[derive(Debug, Clone)]
pub struct Key {
    key: String,
    request: [u8; 32],
}

/// A body, and the key that came with it.
#[derive(Debug, Clone)]
pub struct Keyed<B> {
    pub body: B,
    pub key: Option<Key>,
}

impl<S: Send + Sync, B: FromRequest<S, Rejection = ApiError>> FromRequest<S> for Keyed<B> {
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &S) -> Result<Self> {
        let Some(value) = request.headers().get("idempotency-key") else {
            return Ok(Keyed { body: B::from_request(request, state).await?, key: None });
        };
        let key = value.to_str().ok().filter(|key| (1..=255).contains(&key.len())).map(str::to_string);
        let key = key.ok_or_else(|| ApiError::field("Idempotency-Key", "must have 1 to 255 ASCII characters"))?;
        let (parts, body) = request.into_parts();
        let bytes = read_body(body, NUMBERS_LIMIT_BYTES).await?;
        let mut hash = Sha256::new();
        hash.update(parts.uri.path());
        hash.update([0]);
        hash.update(&bytes);
        let key = Key { key, request: hash.finalize().into() };
        let body = B::from_request(Request::from_parts(parts, Body::from(bytes)), state).await?;
        Ok(Keyed { body, key: Some(key) })
    }
}

/// The answer that was given before under this key, if any. Claims the key in the caller's transaction if not, so that the
/// work and the claim commit together or not at all.
pub async fn replay(conn: &mut PgConnection, key: Option<&Key>) -> Result<Option<Response>> {
    let Some(Key { key, request }) = key else { return Ok(None) };
    let now = db::now(conn).await?;
    let answer = match idempotency::claim(conn, SCOPE, key, request, now).await {
        Err(db::Error::Conflict { code: code @ "idempotency_key_reused", detail }) => {
            return Err(ApiError::invalid(code, detail, Vec::new()));
        }
        answer => answer?,
    };
    Ok(answer.map(|answer| {
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], answer.body).into_response();
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
        response
    }))
}

/// Keeps the answer under the key, in the same transaction.
pub async fn keep(conn: &mut PgConnection, key: Option<&Key>, status: StatusCode, answer: &impl Serialize) -> Result<Response> {
    let body = serde_json::to_string(answer)?;
    if let Some(Key { key, .. }) = key {
        idempotency::store(conn, SCOPE, key, &idempotency::Answer { status: status.as_u16(), body: body.clone() }).await?;
    }
    Ok((status, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}
