//! What handlers take from a request: ids, queries and bodies. Whatever is wrong with them becomes a problem here.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Query as AxumQuery, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use elastune_api::problem::FieldError;
use elastune_core::model::ids::{NodeId, StudyId, TrialId};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::not_finite;
use crate::error::{ApiError, Result};

/// Bodies of everything but measurements, reports and checkpoints.
pub const BODY_LIMIT_BYTES: usize = 1 << 20;
/// Bodies that carry up to 1,000 measurements or reports.
pub const NUMBERS_LIMIT_BYTES: usize = 16 << 20;
const BODY_TIME: Duration = Duration::from_secs(30);

/// The `{id}` of the path.
#[derive(Debug, Clone, Copy)]
pub struct Id<T>(pub T);

/// Ids that stand in paths.
pub trait PathId: Send {
    /// What it is an id of, for messages.
    const WHAT: &'static str;
    fn of(id: Uuid) -> Self;
}

macro_rules! path_ids {
    ($($id:ident $what:literal),*) => {$(
        impl PathId for $id {
            const WHAT: &'static str = $what;
            fn of(id: Uuid) -> Self {
                $id(id)
            }
        }
    )*};
}
path_ids!(StudyId "study", TrialId "trial", NodeId "node");

impl<S: Send + Sync, T: PathId> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let text = path_part(parts, state, "id").await?;
        let id = text.parse().map_err(|_| {
            let what = T::WHAT;
            ApiError::bad_request(
                "invalid_id",
                format!("`{text}` is no id of a {what}: ids are UUIDs, as the list of {what} ids shows them"),
            )
        })?;
        Ok(Id(T::of(id)))
    }
}

/// A named part of the path, as text.
pub async fn path_part<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String> {
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| ApiError::bad_request("invalid_path", "the path is not UTF-8 once its percent signs are resolved"))?;
    let part = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
    part.ok_or_else(|| ApiError::internal(anyhow::anyhow!("no `{name}` in this route's path")))
}

/// The query string.
#[derive(Debug, Clone, Copy)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        match AxumQuery::<T>::from_request_parts(parts, state).await {
            Ok(AxumQuery(query)) => Ok(Query(query)),
            Err(rejection) => Err(ApiError::bad_request("invalid_query", format!("the query string: {}", rejection.body_text()))),
        }
    }
}

/// A JSON body.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self> {
        require_json(request.headers())?;
        let body = read_body(request.into_body(), BODY_LIMIT_BYTES).await?;
        from_json(&body).map(Json)
    }
}

/// A JSON body that may be left out.
#[derive(Debug, Clone, Copy)]
pub struct OptionalJson<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let headers = request.headers().clone();
        let body = read_body(request.into_body(), BODY_LIMIT_BYTES).await?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(OptionalJson(T::default()));
        }
        require_json(&headers)?;
        from_json(&body).map(OptionalJson)
    }
}

/// A JSON body that carries measurements: larger, and Python's bare `NaN` and `Infinity` are understood.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Numbers<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self> {
        require_json(request.headers())?;
        let body = read_body(request.into_body(), NUMBERS_LIMIT_BYTES).await?;
        from_json(&not_finite::quote(&body)).map(Numbers)
    }
}

/// A document as a user wrote it, JSON or YAML.
#[derive(Debug, Clone)]
pub struct Document(pub serde_json::Value);

impl<S: Send + Sync> FromRequest<S> for Document {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let yaml = match media_type(request.headers()).as_deref() {
            None | Some("application/json") => false,
            Some("application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml") => true,
            Some(other) => return Err(unsupported(other, "application/json or application/yaml")),
        };
        let body = read_body(request.into_body(), BODY_LIMIT_BYTES).await?;
        let read = if yaml {
            serde_norway::from_slice(&body).map_err(|error| ("malformed_yaml", "YAML", error.to_string()))
        } else {
            serde_json::from_slice(&body).map_err(|error| ("malformed_json", "JSON", error.to_string()))
        };
        read.map(|elastune_core::search::Document(value)| Document(value)).map_err(|(code, format, message)| {
            let detail = format!("the document does not read as {format}: {message}");
            ApiError::invalid(code, detail, vec![FieldError { path: String::new(), message }]).with_status(StatusCode::BAD_REQUEST)
        })
    }
}

/// Media type of the body, lower case, without its parameters.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or("unreadable");
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

fn require_json(headers: &HeaderMap) -> Result<()> {
    match media_type(headers).as_deref() {
        None | Some("application/json") => Ok(()),
        Some(other) => Err(unsupported(other, "application/json")),
    }
}

fn unsupported(sent: &str, wanted: &str) -> ApiError {
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        format!("the body is `{sent}`; send it as Content-Type {wanted}"),
    )
}

/// Reads a body into memory, never more than `limit_bytes` of it.
pub async fn read_body(body: Body, limit_bytes: usize) -> Result<Bytes> {
    let mut stream = body.into_data_stream();
    let read = async {
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| ApiError::bad_request("broken_body", format!("the body broke off: {error}")))?;
            if bytes.len() + chunk.len() > limit_bytes {
                return Ok(None);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(Bytes::from(bytes)))
    };
    match tokio::time::timeout(BODY_TIME, read).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => {
            discard(stream).await;
            Err(ApiError::too_large(limit_bytes as u64))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive within 30 s; send it again")),
    }
}

/// Reads on a little and forgets it: a client that is still sending would otherwise see a reset connection, not the answer.
async fn discard(mut stream: axum::body::BodyDataStream) {
    const AT_MOST_BYTES: usize = 256 << 20;
    let drain = async {
        let mut seen = 0;
        while let Some(Ok(chunk)) = stream.next().await {
            seen += chunk.len();
            if seen > AT_MOST_BYTES {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(3), drain).await;
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            let message = inner.to_string();
            return ApiError::invalid("invalid_body", format!("{path}: {message}"), vec![FieldError { path, message }]);
        }
        malformed(&inner)
    })?;
    json.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

fn malformed(error: &serde_json::Error) -> ApiError {
    ApiError::bad_request("malformed_json", format!("the body does not read as JSON: {error}"))
}
