//! `GET /nodes`.

use axum::Json;
use axum::extract::State;
use elastune_api::cluster::Node;

use crate::app::App;
use crate::db::nodes;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::openapi::Problems;

/// Every node but those that were removed.
#[utoipa::path(get, path = "/nodes", tag = "cluster", responses((status = 200, body = Vec<Node>), Problems))]
pub async fn list(State(app): State<App>, _: Admin) -> Result<Json<Vec<Node>>> {
    let mut conn = app.pool.acquire().await?;
    Ok(Json(nodes::all(&mut conn).await?))
}
