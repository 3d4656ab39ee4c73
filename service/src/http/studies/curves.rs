//! `GET /studies/{id}/curves`: learning curves and the best value so far, down-sampled to what a screen can show.

use axum::Json;
use axum::extract::State;
use elastune_api::study::{Curve, Curves};
use elastune_core::model::ids::StudyId;
use elastune_core::model::study::{Goal, StudySpec};
use serde::Deserialize;
use utoipa::IntoParams;

use super::sample::{choose, evenly};
use crate::app::App;
use crate::db::{curves as table, studies};
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{Id, Query};
use crate::http::openapi::Problems;

const POINTS: usize = 200;
const HISTORY: usize = 500;
/// Trials looked at.
pub const TRIALS: i64 = 20_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The study's first metric if absent.
    metric: Option<String>,
    /// 1 to 1000; 200 if absent.
    max_curves: Option<u32>,
}

/// Learning curves of one metric: the best trials' and an even sample of the others'.
#[utoipa::path(get, path = "/studies/{id}/curves", tag = "studies", params(("id" = StudyId, Path), Asked),
    responses((status = 200, body = Curves), Problems))]
pub async fn curves(State(app): State<App>, _: Admin, Id(id): Id<StudyId>, Query(asked): Query<Asked>) -> Result<Json<Curves>> {
    let most = match asked.max_curves {
        None => 200,
        Some(most @ 1..=1000) => most as usize,
        Some(most) => return Err(ApiError::field("max_curves", format!("{most} is not between 1 and 1000"))),
    };
    let mut conn = app.pool.acquire().await?;
    let study = studies::get(&mut conn, id).await?;
    let (metric, goal) = metric_of(&study.spec, asked.metric);
    let lines = table::lines(&mut conn, id, 0, TRIALS).await?;
    let values: Vec<_> = lines.iter().map(|line| line.value.filter(|_| !line.excluded)).collect();
    let chosen = choose(&values, goal, most);
    let omitted = (lines.len() - chosen.len()) as u32;
    let ids: Vec<_> = chosen.iter().map(|index| lines[*index].id).collect();
    let mut points = table::points(&mut conn, &ids, &metric).await?;
    let history = table::best_so_far(&mut conn, id, &metric, goal).await?;
    let curve = |index: usize| {
        let line = &lines[index];
        let all = points.remove(&line.id)?;
        let points = evenly(all.len(), POINTS).map(|at| all[at]).collect();
        Some(Curve { trial: line.id, number: line.number, state: line.state, points })
    };
    let curves = chosen.into_iter().filter_map(curve).collect();
    let best_so_far = evenly(history.len(), HISTORY).map(|at| history[at].clone()).collect();
    Ok(Json(Curves { metric, curves, best_so_far, omitted }))
}

/// The metric asked for, or the study's first; one that the study does not name is recorded too, and taken as to be minimised.
pub fn metric_of(spec: &StudySpec, asked: Option<String>) -> (String, Goal) {
    let name = asked.or_else(|| spec.metrics.first().map(|metric| metric.name.clone())).unwrap_or_default();
    let goal = spec.metrics.iter().find(|metric| metric.name == name).map_or(Goal::Minimize, |metric| metric.goal);
    (name, goal)
}
