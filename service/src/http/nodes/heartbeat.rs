//! `POST /nodes/{id}/heartbeat`.

use axum::extract::State;
use axum::http::StatusCode;
use elastune_api::agent::NodeHeartbeat;
use elastune_core::model::ids::NodeId;

use crate::app::App;
use crate::db::{self, nodes};
use crate::error::Result;
use crate::http::auth::Agent;
use crate::http::extract::Json;
use crate::http::openapi::Problems;

/// The node is alive. Three missed ones and it is lost.
#[utoipa::path(post, path = "/nodes/{id}/heartbeat", tag = "agent", params(("id" = NodeId, Path)), request_body = NodeHeartbeat,
    responses((status = 204), Problems))]
pub async fn heartbeat(State(app): State<App>, Agent(node): Agent, Json(_): Json<NodeHeartbeat>) -> Result<StatusCode> {
    let mut conn = app.pool.acquire().await?;
    let now = db::now(&mut conn).await?;
    nodes::mark_seen(&mut conn, node, now).await?;
    Ok(StatusCode::NO_CONTENT)
}
