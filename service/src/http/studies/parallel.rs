//! `GET /studies/{id}/trials:parallel`: a line a trial for parallel coordinates.

use axum::Json;
use axum::extract::State;
use elastune_api::study::{Parallel, ParallelLine};
use elastune_core::model::ids::StudyId;

use super::curves::{TRIALS, metric_of};
use super::sample::choose;
use crate::app::App;
use crate::db::{curves, studies};
use crate::error::Result;
use crate::http::auth::Admin;
use crate::http::extract::Id;
use crate::http::openapi::Problems;

const LINES: usize = 1000;

/// Parameters and value of trials, by number: the best and an even sample of the others.
#[utoipa::path(get, path = "/studies/{id}/trials:parallel", tag = "studies", params(("id" = StudyId, Path)),
    responses((status = 200, body = Parallel), Problems))]
pub async fn parallel(State(app): State<App>, _: Admin, Id(id): Id<StudyId>) -> Result<Json<Parallel>> {
    let mut conn = app.pool.acquire().await?;
    let study = studies::get(&mut conn, id).await?;
    let (metric, goal) = metric_of(&study.spec, None);
    let trials: Vec<_> = curves::lines(&mut conn, id, 0, TRIALS).await?.into_iter().filter(|line| !line.excluded).collect();
    let values: Vec<_> = trials.iter().map(|line| line.value).collect();
    let chosen = choose(&values, goal, LINES);
    let omitted = (trials.len() - chosen.len()) as u32;
    let line = |index: usize| {
        let line = &trials[index];
        ParallelLine { trial: line.id, number: line.number, parameters: line.parameters.clone(), value: line.value }
    };
    Ok(Json(Parallel { metric, lines: chosen.into_iter().map(line).collect(), omitted }))
}
