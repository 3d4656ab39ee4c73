//! `GET /studies/{id}/export.csv` and `.json`: the whole table, streamed. No times, ids or widths in it: two runs that tried and
//! measured the same export the same bytes.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use elastune_api::study::{Export, ExportedMeasurement, ExportedTrial};
use elastune_core::model::event::MetricValue;
use elastune_core::model::ids::StudyId;
use elastune_core::model::space::ParamValue;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::app::App;
use crate::db::{curves, studies};
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

const PAGE: i64 = 200;

/// A line a measurement: number, state, reason, parameters (`param.*`), step, metrics (`metric.*`). A trial without measurements has one line.
#[utoipa::path(get, path = "/studies/{id}/export.csv", tag = "studies", params(("id" = StudyId, Path)),
    responses((status = 200, body = String, content_type = "text/csv"), Problems))]
pub async fn csv(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Response> {
    let mut conn = app.pool.acquire().await?;
    let study = studies::get(&mut conn, id).await?;
    let params: Vec<String> = study.spec.search_space.keys().cloned().collect();
    let mut metrics: Vec<String> = study.spec.metrics.iter().map(|metric| metric.name.clone()).collect();
    let others = curves::metric_names(&mut conn, id).await?;
    metrics.extend(others.into_iter().filter(|name| !study.spec.metrics.iter().any(|metric| metric.name == *name)));
    drop(conn);
    let names = params.iter().map(|name| format!("param.{name}"));
    let header = ["number", "state", "reason"].map(String::from).into_iter().chain(names).chain(["step".to_string()]);
    let header: Vec<String> = header.chain(metrics.iter().map(|name| format!("metric.{name}"))).collect();
    let head = stream::iter([csv_lines(&[header]).map(Bytes::from)]);
    let rows = pages(app, id).map(move |page| {
        let lines: Vec<Vec<String>> =
            page?.iter().map(|trial| trial_lines(trial, &params, &metrics)).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        csv_lines(&lines).map(Bytes::from)
    });
    Ok(attachment(&study.spec.name, "csv", "text/csv; charset=utf-8", head.chain(rows)))
}

/// The same as one JSON document.
#[utoipa::path(get, path = "/studies/{id}/export.json", tag = "studies", params(("id" = StudyId, Path)),
    responses((status = 200, body = Export), Problems))]
pub async fn json(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Response> {
    let study = studies::get(&mut *app.pool.acquire().await?, id).await?;
    let head =
        format!("{{\"name\":{},\"spec\":{},\"trials\":[\n", serde_json::to_string(&study.spec.name)?, serde_json::to_string(&study.spec)?);
    let mut first = true;
    let rows = pages(app, id).map(move |page| {
        let mut text = String::new();
        for trial in page? {
            text.push_str(if std::mem::take(&mut first) { "" } else { ",\n" });
            text.push_str(&serde_json::to_string(&trial)?);
        }
        Ok(Bytes::from(text))
    });
    let ends = |text: String| stream::iter([Ok(Bytes::from(text))]);
    Ok(attachment(&study.spec.name, "json", "application/json", ends(head).chain(rows).chain(ends("\n]}\n".into()))))
}

/// The study's trials with their measurements, by number, a page at a time.
fn pages(app: App, id: StudyId) -> impl Stream<Item = Result<Vec<ExportedTrial>>> + Send + 'static {
    stream::try_unfold((app, Some(0)), move |(app, from)| async move {
        let Some(from) = from else { return Ok(None) };
        let mut conn = app.pool.acquire().await?;
        let lines = curves::lines(&mut conn, id, from, PAGE).await?;
        let ids: Vec<_> = lines.iter().map(|line| line.id).collect();
        let mut measured = curves::measurements(&mut conn, &ids).await?;
        drop(conn);
        let next = lines.last().filter(|_| lines.len() as i64 == PAGE).map(|last| last.number + 1);
        let trials = lines.into_iter().map(|line| {
            let measurements = measured.remove(&line.id).unwrap_or_default();
            let measurements = measurements.into_iter().map(|m| ExportedMeasurement { step: m.step, metrics: m.metrics }).collect();
            let curves::Line { number, state, reason, parameters, .. } = line;
            ExportedTrial { number, state, reason, parameters, measurements }
        });
        Ok::<_, ApiError>(Some((trials.collect(), (app, next))))
    })
}

fn trial_lines(trial: &ExportedTrial, params: &[String], metrics: &[String]) -> Result<Vec<Vec<String>>> {
    let mut start = vec![trial.number.to_string(), word(&trial.state)?, trial.reason.as_ref().map(word).transpose()?.unwrap_or_default()];
    for name in params {
        start.push(trial.parameters.get(name).map(word::<ParamValue>).transpose()?.unwrap_or_default());
    }
    if trial.measurements.is_empty() {
        start.resize(start.len() + 1 + metrics.len(), String::new());
        return Ok(vec![start]);
    }
    let line = |measurement: &ExportedMeasurement| {
        let mut line = start.clone();
        line.push(word(&measurement.step)?);
        for name in metrics {
            line.push(measurement.metrics.get(name).map(word::<MetricValue>).transpose()?.unwrap_or_default());
        }
        Ok(line)
    };
    trial.measurements.iter().map(line).collect()
}

/// A value as JSON writes it, strings without their quotes.
fn word<T: Serialize>(value: &T) -> Result<String> {
    Ok(match serde_json::to_value(value)? {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    })
}

fn csv_lines(lines: &[Vec<String>]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in lines {
        writer.write_record(line).map_err(ApiError::internal)?;
    }
    writer.into_inner().map_err(|error| ApiError::internal(anyhow::anyhow!("{error}")))
}

fn attachment(name: &str, extension: &str, kind: &'static str, stream: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Response {
    let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect();
    // Once the head is out, a failure can only break the stream off; the client sees that it is cut.
    let body = Body::from_stream(stream.map_err(|error| std::io::Error::other(error.problem().detail.clone())));
    let disposition = format!("attachment; filename=\"{safe}.{extension}\"");
    ([(header::CONTENT_TYPE, kind.to_string()), (header::CONTENT_DISPOSITION, disposition)], body).into_response()
}
