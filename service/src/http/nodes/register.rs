//! `POST /nodes/register`: an agent becomes a node, or is back after a restart.

use std::net::IpAddr;

use axum::Json;
use axum::extract::State;
use elastune_api::agent::{RegisterRequest, RegisterResponse};
use elastune_api::problem::FieldError;
use elastune_core::model::ids::NodeId;
use sqlx::Connection;
use uuid::Uuid;

use crate::app::App;
use crate::db::tokens::{self, Kind, Token};
use crate::db::{self, cluster, nodes};
use crate::error::{ApiError, Result};
use crate::http::auth::{self, Caller};
use crate::http::extract;
use crate::http::openapi::Problems;

pub const HEARTBEAT_MS: u64 = 10_000;
const MAX_DEVICES: usize = 1024;

/// With a join token: a new node, whose own token is answered once. With a node's token: the same node, with what it has now.
#[utoipa::path(post, path = "/nodes/register", tag = "agent", request_body = RegisterRequest, responses((status = 200, body = RegisterResponse), Problems))]
pub async fn register(
    State(app): State<App>,
    caller: Caller,
    extract::Json(request): extract::Json<RegisterRequest>,
) -> Result<Json<RegisterResponse>> {
    let errors = faults(&request);
    if !errors.is_empty() {
        return Err(ApiError::invalid("invalid_node", "the node cannot be registered like this; `errors` says why", errors));
    }
    let RegisterRequest { name, devices, advertise } = request;
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    let now = db::now(&mut tx).await?;
    let (node, token) = match caller {
        Caller::Node(node) => {
            nodes::mark_back(&mut tx, node, &name, &devices, &advertise, now).await?;
            (node, None)
        }
        Caller::Join => {
            let node = NodeId(Uuid::now_v7());
            let (token, hash) = auth::new_secret("node").map_err(ApiError::internal)?;
            nodes::insert(&mut tx, node, &name, &devices, &advertise, now).await?;
            tokens::insert(&mut tx, &hash, &Token { kind: Kind::Node, node: Some(node), expires: None }, now).await?;
            (node, Some(token))
        }
        Caller::Admin | Caller::Browser => {
            return Err(auth::forbidden("agents register with a join token; `elastune node join` or POST /nodes draws one"));
        }
    };
    let epoch = cluster::get(&mut tx).await?.epoch;
    tx.commit().await?;
    Ok(Json(RegisterResponse { node, token, epoch, heartbeat_ms: HEARTBEAT_MS }))
}

fn faults(request: &RegisterRequest) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut wrong = |path: String, message: &str| errors.push(FieldError { path, message: message.into() });
    if !plain(&request.name, 253) {
        wrong("name".into(), "must have 1 to 253 printable characters");
    }
    if request.advertise.parse::<IpAddr>().is_err() && !is_host(&request.advertise) {
        wrong("advertise".into(), "must be an IP address or a host name, without a port");
    }
    if request.devices.is_empty() || request.devices.len() > MAX_DEVICES {
        wrong("devices".into(), "there must be 1 to 1024 of them");
    }
    for (at, device) in request.devices.iter().enumerate() {
        if usize::from(device.index) != at {
            wrong(format!("devices[{at}].index"), "must count from 0");
        }
        if device.max_sharers == 0 {
            wrong(format!("devices[{at}].max_sharers"), "must be at least 1");
        }
        if !plain(&device.name, 200) {
            wrong(format!("devices[{at}].name"), "must have 1 to 200 printable characters");
        }
        if device.memory_bytes > i64::MAX as u64 {
            wrong(format!("devices[{at}].memory_bytes"), "is more than any device has");
        }
        if device.kind == elastune_core::model::study::DeviceKind::Any {
            wrong(format!("devices[{at}].kind"), "must be cpu or gpu");
        }
    }
    errors.truncate(100);
    errors
}

fn plain(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn is_host(text: &str) -> bool {
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    text.len() <= 253 && text.trim_end_matches('.').split('.').all(label)
}
