//! `GET /trials/{id}/logs`: a page of lines, or with `follow=1` a stream of them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use elastune_api::study::Page;
use elastune_api::trial::LogLine;
use elastune_core::model::ids::TrialId;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::db::notify::Wake;
use crate::db::{logs as table, trials};
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{Id, Query};
use crate::http::openapi::Problems;
use crate::http::page;
use crate::http::sse::{self, Batch, Source};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Lines with an id above this one.
    #[serde(default)]
    after: i64,
    /// 1 to 1000; 100 if absent.
    limit: Option<u32>,
    /// 1: answer server-sent events, and go on as lines come.
    #[serde(default)]
    follow: u8,
}

/// Lines of the trial's processes and its agent, oldest first. `next_page_token` is never set: ask again with the last id as `after`.
#[utoipa::path(get, path = "/trials/{id}/logs", tag = "trials", params(("id" = TrialId, Path), Asked),
    responses((status = 200, content((Page<LogLine> = "application/json"), (String = "text/event-stream"))), Problems))]
pub async fn logs(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<TrialId>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response> {
    let limit = page::limit(asked.limit)?;
    let mut conn = app.pool.acquire().await?;
    trials::study_of(&mut conn, id).await?;
    if asked.follow == 0 {
        let items = table::list_page(&mut conn, id, asked.after, limit).await?;
        return Ok(Json(Page { items, next_page_token: None }).into_response());
    }
    drop(conn);
    let seen = headers.get("last-event-id").map(|value| value.to_str().ok().and_then(|text| text.trim().parse().ok()));
    let after = match seen {
        Some(id) => id.ok_or_else(|| ApiError::field("Last-Event-ID", "must be the id of a line: a whole number"))?,
        None => asked.after,
    };
    Ok(sse::stream(app, TrialLog(id), after).into_response())
}

struct TrialLog(TrialId);

impl Source for TrialLog {
    fn read<'a>(&'a self, app: &'a App, after: i64) -> BoxFuture<'a, Result<Batch>> {
        async move {
            let mut conn = app.pool.acquire().await?;
            let lines = table::list_page(&mut conn, self.0, after, 500).await?;
            if lines.is_empty() {
                trials::study_of(&mut conn, self.0).await?;
            }
            let last = lines.last().map_or(after, |line| line.id);
            let event = |line: &LogLine| Ok(Event::default().id(line.id.to_string()).event("log").data(serde_json::to_string(line)?));
            Ok((lines.iter().map(event).collect::<Result<_>>()?, last))
        }
        .boxed()
    }

    // Lines wake nobody: there are too many of them.
    fn concerns(&self, wake: Wake) -> bool {
        wake == Wake::All
    }

    fn poll(&self) -> Duration {
        Duration::from_millis(700)
    }
}
