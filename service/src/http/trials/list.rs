//! `GET /studies/{id}/trials`.

use axum::Json;
use axum::extract::State;
use elastune_api::study::Page;
use elastune_api::trial::Trial;
use elastune_core::model::ids::StudyId;
use elastune_core::model::trial::TrialState;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::app::App;
use crate::db::{studies, trials};
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{Id, Query};
use crate::http::openapi::Problems;
use crate::http::page;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// States, comma-separated, as in `running,paused`; all if absent.
    state: Option<String>,
    /// `number` (the default), `-number`, `value` or `-value`; trials without a value come last.
    order_by: Option<String>,
    /// 1 to 1000; 100 if absent.
    limit: Option<u32>,
    page_token: Option<String>,
}

/// Where a page ended, and of which listing.
#[derive(Serialize, Deserialize)]
struct Token {
    order: String,
    number: u32,
    value: Option<f64>,
}

/// Lists a study's trials.
#[utoipa::path(get, path = "/studies/{id}/trials", tag = "trials", params(("id" = StudyId, Path), Asked),
    responses((status = 200, body = Page<Trial>), Problems))]
pub async fn list(State(app): State<App>, _: Admin, Id(id): Id<StudyId>, Query(asked): Query<Asked>) -> Result<Json<Page<Trial>>> {
    let limit = page::limit(asked.limit)?;
    let by = asked.order_by.unwrap_or_else(|| "number".into());
    let order = order(&by)?;
    let states = states(asked.state.as_deref())?;
    let token: Option<Token> = page::key(asked.page_token.as_deref())?;
    if token.as_ref().is_some_and(|token| token.order != by) {
        return Err(ApiError::field("page_token", "is of a listing in another order; start again without one"));
    }
    let after = token.map(|token| trials::Cursor { number: token.number, value: token.value });
    let mut conn = app.pool.acquire().await?;
    let max_resource = studies::get(&mut conn, id).await?.spec.max_resource();
    let found = trials::list_page(&mut conn, id, &states, order, after, limit + 1).await?;
    let key = |trial: &trials::Trial| Token { order: by.clone(), number: trial.number, value: trial.value };
    let (found, next_page_token) = page::cut(found, limit, key)?;
    let items = found.iter().map(|trial| trial.to_api(max_resource)).collect();
    Ok(Json(Page { items, next_page_token }))
}

fn order(by: &str) -> Result<trials::Order> {
    let (descending, key) = by.strip_prefix('-').map_or((false, by), |key| (true, key));
    match key {
        "number" => Ok(trials::Order::Number { descending }),
        "value" => Ok(trials::Order::Value { descending }),
        _ => Err(ApiError::field("order_by", "is none of number, -number, value, -value")),
    }
}

fn states(list: Option<&str>) -> Result<Vec<TrialState>> {
    let words = list.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let known = serde_json::from_value(serde_json::Value::String(word.into()));
            known.map_err(|_| {
                ApiError::field("state", format!("`{word}` is no state of a trial, such as waiting, running, paused, completed"))
            })
        })
        .collect()
}
