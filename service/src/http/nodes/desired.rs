//! `GET /nodes/{id}/desired`: what an agent should run.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use elastune_api::agent::Desired;
use elastune_core::model::ids::NodeId;
use serde::Deserialize;
use sqlx::Connection;
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use crate::app::App;
use crate::db::desired as table;
use crate::db::notify::{self, Wake};
use crate::error::{ApiError, Result};
use crate::http::auth::Agent;
use crate::http::extract::Query;
use crate::http::openapi::Problems;

const MAX_WAIT_S: u64 = 30;
/// Wake-ups are for speed only: without any, changes are seen this late.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The `version` that the agent has; absent: answer at once.
    after: Option<String>,
    /// Hold on this long for another one, in seconds; at most 30.
    #[serde(default)]
    wait_s: u64,
}

/// The processes that the node should have; 204 if that is still version `after` once `wait_s` are over.
#[utoipa::path(get, path = "/nodes/{id}/desired", tag = "agent", params(("id" = NodeId, Path), Asked),
    responses((status = 200, body = Desired), (status = 204, description = "Nothing changed"), Problems))]
pub async fn desired(State(app): State<App>, Agent(node): Agent, Query(asked): Query<Asked>) -> Result<Response> {
    if asked.wait_s > MAX_WAIT_S {
        return Err(ApiError::field("wait_s", format!("{} is more than {MAX_WAIT_S}", asked.wait_s)));
    }
    let mut wakes = app.wakes.subscribe();
    let until = Instant::now() + Duration::from_secs(asked.wait_s);
    loop {
        let desired = read(&app, node).await?;
        if asked.after.as_ref() != Some(&desired.version) {
            return Ok(Json(desired).into_response());
        }
        if Instant::now() >= until || app.stop.is_cancelled() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        let woken = async {
            while let Some(wake) = notify::next(&mut wakes).await {
                if matches!(wake, Wake::Cluster | Wake::All) || wake == Wake::Node(node) {
                    return;
                }
            }
            std::future::pending().await
        };
        let next_look = until.min(Instant::now() + LOOK_AGAIN);
        let _ = app.stop.run_until_cancelled(timeout_at(next_look, woken)).await;
    }
}

/// Of one moment, so that the plan's number and the processes belong together.
async fn read(app: &App, node: NodeId) -> Result<Desired> {
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin_with("begin isolation level repeatable read read only").await?;
    let desired = table::get(&mut tx, node).await?;
    tx.commit().await?;
    Ok(desired)
}
