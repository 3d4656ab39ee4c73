//! What happens to every request: an id, a log line, a duration, a time limit, an answer even to a panic. Used by the router.

use std::any::Any;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;
use uuid::Uuid;

use super::verbs;
use crate::app::App;
use crate::error::ApiError;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Above the longest poll (30 s) and the slowest body (30 s).
const TIME_LIMIT: Duration = Duration::from_secs(75);

/// Names the request in logs and answer, counts it, and gives up on it in time.
pub async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = request.headers().get(REQUEST_ID).filter(|id| sane(id)).cloned().unwrap_or_else(new_id);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none".into(), |path| verbs::to_public(path.as_str()));
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default(), %method, path = verbs::to_public(request.uri().path()));
    let started = Instant::now();
    // An upload may take its time: its own limit is that bytes keep coming.
    let limited = method != Method::PUT;
    let mut response = async {
        let answer = next.run(request);
        let response = if limited {
            match tokio::time::timeout(TIME_LIMIT, answer).await {
                Ok(response) => response,
                Err(_) => ApiError::unavailable("the service did not get done with this in time; ask again in a moment").into_response(),
            }
        } else {
            answer.await
        };
        let status = response.status().as_u16();
        if status >= 500 {
            tracing::warn!(status, took_ms = started.elapsed().as_millis() as u64, "answered");
        } else {
            tracing::debug!(status, took_ms = started.elapsed().as_millis() as u64, "answered");
        }
        response
    }
    .instrument(span)
    .await;
    app.metrics.observe(method_label(&method), &route, response.status().as_u16(), started.elapsed());
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn sane(id: &HeaderValue) -> bool {
    id.len() <= 64 && !id.is_empty() && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn new_id() -> HeaderValue {
    HeaderValue::from_str(&Uuid::now_v7().to_string()).unwrap_or(HeaderValue::from_static("none"))
}

/// Bounded, whatever a client calls its method.
fn method_label(method: &Method) -> &str {
    match *method {
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE | Method::OPTIONS => method.as_str(),
        _ => "other",
    }
}

/// Until the database is prepared, only what needs none is answered.
pub async fn wait_for_database(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !app.is_prepared() && (path.starts_with("/api/") || path == "/readyz" || path == "/login") {
        return ApiError::unavailable("the service has not reached its database yet; it keeps trying, so ask again in a moment")
            .into_response();
    }
    next.run(request).await
}

/// Respells verbs for the router.
pub async fn respell(mut request: Request, next: Next) -> Response {
    if let Some(uri) = verbs::to_router(request.uri()) {
        *request.uri_mut() = uri;
    }
    next.run(request).await
}

pub async fn method_not_allowed(method: Method, uri: axum::http::Uri) -> ApiError {
    let path = verbs::to_public(uri.path());
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{path} does not take {method}; the Allow header lists what it takes"),
    )
}

/// Nothing should get here: handlers answer problems.
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
    ApiError::internal(anyhow::anyhow!("a handler panicked: {}", text.unwrap_or_default())).into_response()
}
