//! `GET /studies`: newest first.

use axum::Json;
use axum::extract::State;
use elastune_api::study::{Page, Study};
use elastune_core::model::ids::StudyId;
use elastune_core::model::study::StudyState;
use elastune_core::time::Time;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::db::studies;
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Query;
use crate::http::openapi::Problems;
use crate::http::page;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    state: Option<StudyState>,
    /// Exactly this name.
    name: Option<String>,
    /// Only the archived ones; otherwise only those that are not.
    #[serde(default)]
    archived: bool,
    /// 1 to 1000; 100 if absent.
    limit: Option<u32>,
    page_token: Option<String>,
}

/// Lists studies, newest first, without their documents.
#[utoipa::path(get, path = "/studies", tag = "studies", params(Asked), responses((status = 200, body = Page<Study>), Problems))]
pub async fn list(State(app): State<App>, _: Admin, Query(asked): Query<Asked>) -> Result<Json<Page<Study>>> {
    let limit = page::limit(asked.limit)?;
    let after: Option<(Time, StudyId)> = page::key(asked.page_token.as_deref())?;
    let mut conn = app.pool.acquire().await?;
    let found = studies::list_page(&mut conn, after, asked.archived, asked.state, asked.name.as_deref(), limit + 1).await?;
    let (found, next_page_token) = page::cut(found, limit, |study| (study.created, study.id))?;
    let mut items = Vec::with_capacity(found.len());
    for study in found {
        items.push(super::to_api(&mut conn, study, false).await?);
    }
    Ok(Json(Page { items, next_page_token }))
}
