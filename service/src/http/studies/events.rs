//! `GET /studies/{id}/events`: what happens in a study, as server-sent events; resumed from the last id seen.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::Event;
use elastune_core::model::ids::StudyId;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::db::notify::Wake;
use crate::db::{events as table, studies};
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{Id, Query};
use crate::http::openapi::Problems;
use crate::http::sse::{self, Batch, Source};

const BATCH: i64 = 500;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Events after this number; the Last-Event-ID header goes before it. From the first one if both are absent.
    after: Option<u64>,
}

/// The study's events in order, then as they happen. An event's SSE id is its `seq`, its data a `StudyEventLine`.
#[utoipa::path(get, path = "/studies/{id}/events", tag = "studies", params(("id" = StudyId, Path), Asked,
        ("Last-Event-ID" = Option<u64>, Header, description = "Go on after this event")),
    responses((status = 200, body = String, content_type = "text/event-stream"), Problems))]
pub async fn events(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<StudyId>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<impl IntoResponse> {
    let last = match headers.get("last-event-id") {
        None => asked.after.unwrap_or(0),
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .ok_or_else(|| ApiError::field("Last-Event-ID", "must be the id of an event: a whole number"))?,
    };
    let after = i64::try_from(last).map_err(|_| ApiError::field("after", "is beyond any event"))?;
    studies::get(&mut *app.pool.acquire().await?, id).await?;
    Ok(sse::stream(app, StudyEvents(id), after))
}

struct StudyEvents(StudyId);

impl Source for StudyEvents {
    fn read<'a>(&'a self, app: &'a App, after: i64) -> BoxFuture<'a, Result<Batch>> {
        async move {
            let mut conn = app.pool.acquire().await?;
            let lines = table::list_page(&mut conn, self.0, after as u64, BATCH).await?;
            if lines.is_empty() {
                studies::get(&mut conn, self.0).await?;
            }
            let last = lines.last().map_or(after, |line| line.seq as i64);
            let event = |line: &elastune_api::study::StudyEventLine| {
                Ok(Event::default().id(line.seq.to_string()).event(&line.kind).data(serde_json::to_string(line)?))
            };
            Ok((lines.iter().map(event).collect::<Result<_>>()?, last))
        }
        .boxed()
    }

    fn concerns(&self, wake: Wake) -> bool {
        wake == Wake::Study(self.0) || wake == Wake::All
    }

    fn poll(&self) -> Duration {
        Duration::from_secs(15)
    }
}
