//! `POST /nodes`: a token for one more agent.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use elastune_api::cluster::{JoinRequest, JoinToken};
use elastune_core::time::Span;

use crate::app::App;
use crate::db;
use crate::db::tokens::{self, Kind, Token};
use crate::error::{ApiError, Result};
use crate::http::auth::{self, Admin};
use crate::http::extract::OptionalJson;
use crate::http::openapi::Problems;

const DAY_S: u32 = 24 * 3600;

/// Draws a join token: agents register with it until it expires. It is shown once.
#[utoipa::path(post, path = "/nodes", tag = "cluster", request_body = JoinRequest, responses((status = 200, body = JoinToken), Problems))]
pub async fn join(
    State(app): State<App>,
    _: Admin,
    headers: HeaderMap,
    OptionalJson(asked): OptionalJson<JoinRequest>,
) -> Result<Json<JoinToken>> {
    let ttl_s = asked.ttl_s.unwrap_or(DAY_S);
    if !(60..=30 * DAY_S).contains(&ttl_s) {
        return Err(ApiError::field("ttl_s", format!("{ttl_s} is not between 60 s and 30 days")));
    }
    let (token, hash) = auth::new_secret("join").map_err(ApiError::internal)?;
    let mut conn = app.pool.acquire().await?;
    let now = db::now(&mut conn).await?;
    let expires = now + Span::from_secs(i64::from(ttl_s));
    tokens::insert(&mut conn, &hash, &Token { kind: Kind::Join, node: None, expires: Some(expires) }, now).await?;
    let command = format!("trial-agent --service {} --token {token}", own_address(&headers));
    Ok(Json(JoinToken { token, expires, command }))
}

/// As the caller reached us.
fn own_address(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:8080");
    let scheme = if headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https") { "https" } else { "http" };
    format!("{scheme}://{host}")
}
