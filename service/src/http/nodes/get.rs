//! `GET /nodes/{id}`.

use axum::Json;
use axum::extract::State;
use elastune_api::cluster::Node;
use elastune_core::model::ids::NodeId;

use crate::app::App;
use crate::db::nodes;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

/// One node.
#[utoipa::path(get, path = "/nodes/{id}", tag = "cluster", params(("id" = NodeId, Path)), responses((status = 200, body = Node), Problems))]
pub async fn get(State(app): State<App>, _: Admin, Id(id): Id<NodeId>) -> Result<Json<Node>> {
    let mut conn = app.pool.acquire().await?;
    Ok(Json(nodes::get(&mut conn, id).await?))
}
