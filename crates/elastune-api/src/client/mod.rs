//! A typed client of the REST API, one method an operation. Used by the CLI, the agent's tests, end-to-end tests and benches.

mod cluster;
mod sse;
mod studies;
mod trials;

pub use sse::{SseError, SseEvent, SseStream};
pub use studies::{StudyQuery, TrialQuery};

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The service refused, and said why.
    #[error("{problem}")]
    Refused { problem: Box<Problem>, retry_after: Option<Duration> },
    /// Nobody answered, or the connection broke.
    #[error("cannot reach the service at {url}: {}", chain(.source))]
    Unreachable { url: String, source: reqwest::Error },
    /// Something answered, but not this API.
    #[error("unexpected answer {status} from {url}: {text}")]
    Unexpected { url: String, status: u16, text: String },
    #[error("{0}")]
    Invalid(String),
}

impl ClientError {
    /// The same call may succeed later without a change by the caller.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Refused { problem, .. } => matches!(problem.status, 408 | 429 | 502 | 503 | 504),
            ClientError::Unreachable { .. } => true,
            ClientError::Unexpected { status, .. } => *status >= 502,
            ClientError::Invalid(_) => false,
        }
    }

    /// The status that the service answered, if it did.
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Refused { problem, .. } => Some(problem.status),
            ClientError::Unexpected { status, .. } => Some(*status),
            ClientError::Unreachable { .. } | ClientError::Invalid(_) => None,
        }
    }

    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Refused { problem, .. } => Some(problem),
            _ => None,
        }
    }
}

/// reqwest's own text stops at "error sending request"; the cause says what happened.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

pub type Result<T> = std::result::Result<T, ClientError>;

/// Speaks to one service. Cheap to clone; keeps its connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// `server` as in `http://127.0.0.1:8080`; `token` is sent as bearer.
    pub fn new(server: &str, token: Option<&str>) -> Result<Client> {
        let base = server.trim_end_matches('/').to_string();
        let parsed = reqwest::Url::parse(&base).map_err(|error| {
            ClientError::Invalid(format!("`{server}` is no address of a service ({error}); it looks like http://127.0.0.1:8080"))
        })?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(ClientError::Invalid(format!("`{server}` must start with http:// or https://")));
        }
        let authorization = token
            .map(|token| {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
                    .map_err(|_| ClientError::Invalid("the token has characters that no token has".into()))?;
                value.set_sensitive(true);
                Ok(value)
            })
            .transpose()?;
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .build()
            .map_err(|source| ClientError::Unreachable { url: base.clone(), source })?;
        Ok(Client { http, base, authorization })
    }

    /// The same service, asked with another token.
    pub fn with_token(&self, token: &str) -> Result<Client> {
        let other = Client::new(&self.base, Some(token))?;
        Ok(Client { http: self.http.clone(), ..other })
    }

    pub fn server(&self) -> &str {
        &self.base
    }

    /// A request of `path` under `/api/v1`, for what has no method of its own.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.absolute(method, &format!("/api/v1{path}"))
    }

    fn absolute(&self, method: Method, path: &str) -> RequestBuilder {
        let request =
            self.http.request(method, format!("{}{path}", self.base)).header(ACCEPT, "application/json, application/problem+json");
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(self.request(Method::GET, path).timeout(QUICK)).await
    }

    async fn get_query<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Result<T> {
        self.json(self.request(Method::GET, path).query(query).timeout(QUICK)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.json(self.request(Method::POST, path).json(body).timeout(QUICK)).await
    }

    async fn verb<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(self.request(Method::POST, path).timeout(QUICK)).await
    }

    /// Sends, and reads the JSON answer.
    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let response = self.send(request).await?;
        let (url, status) = (response.url().to_string(), response.status().as_u16());
        let bytes = response.bytes().await.map_err(|source| ClientError::Unreachable { url: url.clone(), source })?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Unexpected {
            url,
            status,
            text: format!("not the JSON expected: {error}"),
        })
    }

    /// Sends; an answer that is no success becomes an error with the service's problem in it.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|source| ClientError::Unreachable { url: self.base.clone(), source })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (url, status) = (response.url().to_string(), response.status());
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok()).map(Duration::from_secs);
        let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/problem+json"));
        let text = response.text().await.unwrap_or_default();
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) if is_problem => Err(ClientError::Refused { problem: Box::new(problem), retry_after }),
            _ => Err(ClientError::Unexpected { url, status: status.as_u16(), text: text.chars().take(200).collect() }),
        }
    }

    /// `GET /healthz`: the process answers.
    pub async fn health(&self) -> Result<()> {
        self.send(self.absolute(Method::GET, "/healthz").timeout(QUICK)).await.map(drop)
    }

    /// `GET /readyz`: it reaches its database too.
    pub async fn ready(&self) -> Result<()> {
        self.send(self.absolute(Method::GET, "/readyz").timeout(QUICK)).await.map(drop)
    }

    /// `GET /metrics`, as text.
    pub async fn metrics(&self) -> Result<String> {
        let response = self.send(self.absolute(Method::GET, "/metrics").timeout(QUICK)).await?;
        response.text().await.map_err(|source| ClientError::Unreachable { url: self.base.clone(), source })
    }
}

/// For calls that wait for nothing.
const QUICK: Duration = Duration::from_secs(30);
/// For calls that may hold on for 30 s.
const LONG_POLL: Duration = Duration::from_secs(45);

fn is_no_content(response: &Response) -> bool {
    response.status() == StatusCode::NO_CONTENT
}
