//! How a browser logs in: an admin draws a link that works once and sets a cookie. Called by the router.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use elastune_api::cluster::LoginLink;
use elastune_core::time::Span;
use serde::Deserialize;
use sqlx::Connection;
use utoipa::IntoParams;

use super::auth::{self, Admin, COOKIE};
use super::extract::Query;
use super::openapi::Problems;
use crate::app::App;
use crate::db;
use crate::db::tokens::{self, Kind, Token};
use crate::error::{ApiError, Result};

const LINK_TIME: Span = Span::from_secs(15 * 60);
const SESSION_S: i64 = 30 * 24 * 3600;

/// An address that logs one browser in, once, within 15 minutes.
#[utoipa::path(post, path = "/login-links", tag = "service", responses((status = 200, body = LoginLink), Problems))]
pub async fn link(State(app): State<App>, _: Admin) -> Result<Json<LoginLink>> {
    let (secret, hash) = auth::new_secret("login").map_err(ApiError::internal)?;
    let mut conn = app.pool.acquire().await?;
    let now = db::now(&mut conn).await?;
    let expires = now + LINK_TIME;
    tokens::insert(&mut conn, &hash, &Token { kind: Kind::BrowserLink, node: None, expires: Some(expires) }, now).await?;
    Ok(Json(LoginLink { path: format!("/login?code={secret}"), expires }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Asked {
    code: String,
}

/// Takes a one-time code, sets the session's cookie and goes to the page.
#[utoipa::path(get, path = "/login", tag = "service", security(()), params(Asked), responses((status = 303), Problems))]
pub async fn login(State(app): State<App>, Query(Asked { code }): Query<Asked>, headers: HeaderMap) -> Result<Response> {
    let answer = enter(&app, &code, &headers).await;
    // A person sees the page, which lets in who is known already and says to others what the matter is.
    let for_person = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains("text/html"));
    match answer {
        Err(error) if for_person && error.status() == 401 => Ok(Redirect::to("/?login=used").into_response()),
        answer => answer,
    }
}

async fn enter(app: &App, code: &str, headers: &HeaderMap) -> Result<Response> {
    let (session, hash) = auth::new_secret("browser").map_err(ApiError::internal)?;
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    let now = db::now(&mut tx).await?;
    tokens::claim_link(&mut tx, &auth::hash(code), now).await.map_err(|error| match error {
        db::Error::NotFound { .. } => {
            auth::unauthorized("this link was used already, or is older than 15 minutes; `elastune login` prints a new one")
        }
        error => error.into(),
    })?;
    tokens::insert(&mut tx, &hash, &Token { kind: Kind::Browser, node: None, expires: Some(now + Span::from_secs(SESSION_S)) }, now)
        .await?;
    tx.commit().await?;
    let secure = if headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https") { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_S}{secure}");
    let mut response = Redirect::to("/").into_response();
    response
        .headers_mut()
        .insert(header::SET_COOKIE, HeaderValue::try_from(cookie).map_err(|error| ApiError::internal(anyhow::anyhow!(error)))?);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}
