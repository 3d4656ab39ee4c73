//! What a handler may fail with: always an RFC 9457 problem that says what to do. Faults of ours are logged once, here.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use elastune_api::problem::{FieldError, Problem};

pub type Result<T> = std::result::Result<T, ApiError>;

/// A refusal, or a fault with its cause.
#[derive(Debug)]
pub struct ApiError {
    problem: Box<Problem>,
    retry_after: Option<Duration>,
    cause: Option<anyhow::Error>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let problem = Problem {
            kind: "about:blank".into(),
            title: title(code),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.into(),
            errors: Vec::new(),
        };
        ApiError { problem: Box::new(problem), retry_after: None, cause: None }
    }

    pub fn bad_request(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub fn conflict(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    pub fn invalid(code: &str, detail: impl Into<String>, errors: Vec<FieldError>) -> Self {
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail);
        error.problem.errors = errors;
        error
    }

    /// One value of a body or a query at fault.
    pub fn field(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::invalid("invalid_value", format!("{path}: {message}"), vec![FieldError { path: path.into(), message }])
    }

    pub fn too_large(limit_bytes: u64) -> Self {
        let detail = format!("the body has more than the {limit_bytes} bytes that this address takes; send it in parts");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).retry_after(Duration::from_secs(2))
    }

    /// A fault of ours; `cause` is logged and not told.
    pub fn internal(cause: impl Into<anyhow::Error>) -> Self {
        let mut error = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the service failed at this request; its log has the cause under the request id of this answer",
        );
        error.cause = Some(cause.into());
        error
    }

    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.problem.status = status.as_u16();
        self
    }

    pub fn status(&self) -> u16 {
        self.problem.status
    }

    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// `trial_finished` -> "Trial finished".
fn title(code: &str) -> String {
    let words = code.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Some(cause) = &self.cause {
            tracing::error!(cause = format!("{cause:#}"), "request failed");
        }
        let status = StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(*self.problem)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The database is away, or on its way up or down: worth another try, and no fault of the request.
pub fn is_away(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Tls(_) | sqlx::Error::WorkerCrashed => true,
        // Classes: 08 connection, 53 resources, 57P0x shutdown and start-up; 40001 and 40P01: the race was lost.
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| ["08", "53", "57P0"].iter().any(|class| code.starts_with(class)) || code == "40001" || code == "40P01"),
        sqlx::Error::Protocol(text) => text.contains("closed") || text.contains("unexpected"),
        _ => false,
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        if is_away(&error) {
            tracing::warn!(cause = %error, "the database does not answer");
            return ApiError::unavailable("the database does not answer; the service keeps trying, so ask again in a moment");
        }
        ApiError::internal(error)
    }
}

impl From<crate::db::Error> for ApiError {
    fn from(error: crate::db::Error) -> Self {
        use crate::db::Error;
        match error {
            Error::NotFound { what } => ApiError::not_found(format!("there is no such {what}; it may have been deleted")),
            Error::Conflict { code, detail } => ApiError::conflict(code, detail),
            Error::Database(error) => error.into(),
            Error::Stored { .. } => ApiError::internal(error),
        }
    }
}

impl From<serde_json::Error> for ApiError {
    fn from(error: serde_json::Error) -> Self {
        ApiError::internal(error)
    }
}
