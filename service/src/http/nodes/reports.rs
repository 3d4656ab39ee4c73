//! `POST /nodes/{id}/reports`: what an agent's processes did.

use axum::Json;
use axum::extract::State;
use elastune_api::agent::{ReportAnswer, ReportBatch};
use elastune_core::model::ids::NodeId;

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::http::auth::Agent;
use crate::http::extract::Numbers;
use crate::http::openapi::Problems;
use crate::reconcile::ingest;

const MOST: usize = 1000;

/// Takes a batch in one transaction, each report once. Late ones are answered as dropped, with the reason; that is no error.
#[utoipa::path(post, path = "/nodes/{id}/reports", tag = "agent", params(("id" = NodeId, Path)), request_body = ReportBatch,
    responses((status = 200, body = ReportAnswer), Problems))]
pub async fn reports(State(app): State<App>, Agent(node): Agent, Numbers(batch): Numbers<ReportBatch>) -> Result<Json<ReportAnswer>> {
    if batch.reports.len() > MOST {
        return Err(ApiError::field("reports", format!("there are {}; send at most {MOST} at once", batch.reports.len())));
    }
    if let Some(at) = batch.reports.iter().position(|report| report.seq == 0 || report.seq > i64::MAX as u64 || report.attempt == 0) {
        return Err(ApiError::field(&format!("reports[{at}]"), "its seq and attempt must be at least 1"));
    }
    if let Some(at) = batch.reports.windows(2).position(|pair| pair[0].seq >= pair[1].seq) {
        return Err(ApiError::field(&format!("reports[{}].seq", at + 1), "must be above the one before"));
    }
    let mut conn = app.pool.acquire().await?;
    Ok(Json(ingest::apply(&mut conn, node, &batch).await?))
}
