//! `POST /nodes/{id}:drain`, `:cordon`, `:uncordon`. Asking twice is no error.

use axum::Json;
use axum::extract::State;
use elastune_api::cluster::Node;
use elastune_core::model::cluster::NodeState::{self, Cordoned, Draining, Ready};
use elastune_core::model::ids::NodeId;
use sqlx::Connection;

use crate::app::App;
use crate::db::nodes;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

/// The node gives up what it runs (trials save first) and gets nothing new.
#[utoipa::path(post, path = "/nodes/{id}/~drain", tag = "cluster", params(("id" = NodeId, Path)), responses((status = 200, body = Node), Problems))]
pub async fn drain(State(app): State<App>, _: Admin, Id(id): Id<NodeId>) -> Result<Json<Node>> {
    enter(&app, id, &[Ready, Cordoned], Draining).await
}

/// The node keeps what it runs and gets nothing new.
#[utoipa::path(post, path = "/nodes/{id}/~cordon", tag = "cluster", params(("id" = NodeId, Path)), responses((status = 200, body = Node), Problems))]
pub async fn cordon(State(app): State<App>, _: Admin, Id(id): Id<NodeId>) -> Result<Json<Node>> {
    enter(&app, id, &[Ready, Draining], Cordoned).await
}

/// The node gets work again.
#[utoipa::path(post, path = "/nodes/{id}/~uncordon", tag = "cluster", params(("id" = NodeId, Path)), responses((status = 200, body = Node), Problems))]
pub async fn uncordon(State(app): State<App>, _: Admin, Id(id): Id<NodeId>) -> Result<Json<Node>> {
    enter(&app, id, &[Cordoned, Draining], Ready).await
}

async fn enter(app: &App, id: NodeId, from: &[NodeState], to: NodeState) -> Result<Json<Node>> {
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    if nodes::get(&mut tx, id).await?.state != to {
        nodes::mark_state(&mut tx, id, from, to).await?;
    }
    let node = nodes::get(&mut tx, id).await?;
    tx.commit().await?;
    Ok(Json(node))
}
