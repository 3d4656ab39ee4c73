//! Who asks: admins by bearer token, browsers by cookie, agents by their node's token or a join token. A handler's signature says
//! whom it serves. Secrets are kept as SHA-256 only: they are long and random, so no salt is wanted, and what is looked up is the hash,
//! so that the time of a look-up tells nothing of a secret.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use elastune_core::model::ids::NodeId;
use sha2::{Digest, Sha256};

use super::extract::Id;
use crate::app::App;
use crate::db;
use crate::db::tokens::{self, Kind};
use crate::error::{ApiError, Result};

pub const COOKIE: &str = "elastune_session";

/// A new secret and its hash. `kind` stands in front, so that a person sees what it is for.
///
/// # Errors
/// The system gives no random bytes.
pub fn new_secret(kind: &str) -> anyhow::Result<(String, [u8; 32])> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random bytes from the system: {error}"))?;
    let secret = format!("elastune_{kind}_{}", URL_SAFE_NO_PAD.encode(bytes));
    let hash = hash(&secret);
    Ok((secret, hash))
}

pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Whoever has shown a token that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    Admin,
    Browser,
    Node(NodeId),
    Join,
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        if let Some(caller) = parts.extensions.get::<Caller>() {
            return Ok(*caller);
        }
        let (secret, from_cookie) = presented(parts)?;
        let hash = hash(&secret);
        let mut conn = app.pool.acquire().await?;
        let now = db::now(&mut conn).await?;
        let token = tokens::get(&mut conn, &hash, now).await?;
        let caller = match token.map(|token| (token.kind, token.node)) {
            Some((Kind::Admin, _)) if !from_cookie => Caller::Admin,
            Some((Kind::Browser, _)) if from_cookie => Caller::Browser,
            Some((Kind::Node, Some(node))) if !from_cookie => Caller::Node(node),
            Some((Kind::Join, _)) if !from_cookie => Caller::Join,
            _ if from_cookie => {
                return Err(unauthorized("this browser's login has expired; `elastune login` prints a new link"));
            }
            _ => {
                return Err(unauthorized(
                    "the token is wrong or has expired; the admin's is in the file that `serve --admin-token-file` names",
                ));
            }
        };
        parts.extensions.insert(caller);
        Ok(caller)
    }
}

fn presented(parts: &Parts) -> Result<(String, bool)> {
    if let Some(value) = parts.headers.get(header::AUTHORIZATION) {
        let bearer = value.to_str().ok().and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        return match bearer {
            Some((_, secret)) => Ok((secret.trim().to_string(), false)),
            None => Err(unauthorized("the Authorization header must read `Bearer TOKEN`")),
        };
    }
    let cookies = parts.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let session = cookies.flat_map(|text| text.split(';')).find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
    let Some(secret) = session else {
        return Err(unauthorized("send `Authorization: Bearer TOKEN`, or log this browser in by the link that `elastune login` prints"));
    };
    // SameSite keeps other sites out, but not other ports of this host.
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let site = parts.headers.get("sec-fetch-site").map(|value| value.as_bytes());
    if !reads && site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return Err(forbidden("a browser may change things only from the service's own page"));
    }
    Ok((secret.to_string(), true))
}

pub fn unauthorized(detail: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

pub fn forbidden(detail: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "forbidden", detail)
}

/// A person: the admin's token, or a browser that was logged in by it.
#[derive(Debug, Clone, Copy)]
pub struct Admin;

impl FromRequestParts<App> for Admin {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        match Caller::from_request_parts(parts, app).await? {
            Caller::Admin | Caller::Browser => Ok(Admin),
            Caller::Node(_) => {
                Err(forbidden("a node's token serves its own node's routes and checkpoints only; use the admin's token here"))
            }
            Caller::Join => Err(forbidden("a join token registers nodes and nothing else; use the admin's token here")),
        }
    }
}

/// The agent of the node that the path names.
#[derive(Debug, Clone, Copy)]
pub struct Agent(pub NodeId);

impl FromRequestParts<App> for Agent {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let Id(node) = Id::<NodeId>::from_request_parts(parts, app).await?;
        match caller {
            Caller::Node(own) if own == node => Ok(Agent(node)),
            Caller::Node(own) => Err(forbidden(&format!("this token is node {own}'s; it cannot speak for node {node}"))),
            _ => Err(forbidden("only the node's own agent may do this, with the token that it got when it registered")),
        }
    }
}

/// Whoever may move checkpoints: people and agents.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointUser;

impl FromRequestParts<App> for CheckpointUser {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        match Caller::from_request_parts(parts, app).await? {
            Caller::Admin | Caller::Browser | Caller::Node(_) => Ok(CheckpointUser),
            Caller::Join => Err(forbidden("a join token registers nodes and nothing else; use the node's own token here")),
        }
    }
}
