//! `DELETE /nodes/{id}`.

use axum::extract::State;
use axum::http::StatusCode;
use elastune_core::model::cluster::NodeState;
use elastune_core::model::ids::NodeId;
use sqlx::Connection;

use crate::app::App;
use crate::db::{nodes, tokens};
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

/// Removes a node: its trials go on elsewhere from their newest checkpoints, its token holds no more. Drain it first to lose nothing.
#[utoipa::path(delete, path = "/nodes/{id}", tag = "cluster", params(("id" = NodeId, Path)), responses((status = 204), Problems))]
pub async fn remove(State(app): State<App>, _: Admin, Id(id): Id<NodeId>) -> Result<StatusCode> {
    use NodeState::{Cordoned, Draining, Lost, Ready, Removed};
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    if nodes::get(&mut tx, id).await?.state != Removed {
        nodes::mark_state(&mut tx, id, &[Ready, Cordoned, Draining, Lost], Removed).await?;
        tokens::delete_of_node(&mut tx, id).await?;
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
