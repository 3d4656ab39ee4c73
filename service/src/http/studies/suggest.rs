//! `POST /studies/{id}/trials:suggest` (also called ask): parameters for an outside worker to try.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use elastune_api::problem::FieldError;
use elastune_api::trial::{SuggestRequest, SuggestResponse};
use elastune_core::model::ids::StudyId;
use sqlx::Connection;
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::db::notify::{self, Wake};
use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::{Id, Json};
use crate::http::idempotency::{self, Key, Keyed};
use crate::http::openapi::Problems;
use crate::reconcile::outside;

const MAX_WAIT_S: u32 = 30;
/// Room for one more worker may come without a wake-up, when a lease runs out.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Hands out trials under leases: promoted and lost ones before new ones. Empty: there is nothing to try within `wait_s`.
#[utoipa::path(post, path = "/studies/{id}/trials:suggest", tag = "trials", request_body = SuggestRequest,
    params(("id" = StudyId, Path), ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key answers the same trials")),
    responses((status = 200, body = SuggestResponse), Problems))]
pub async fn suggest(
    State(app): State<App>,
    _: Admin,
    Id(id): Id<StudyId>,
    Keyed { body: Json(request), key }: Keyed<Json<SuggestRequest>>,
) -> Result<Response> {
    check(&request)?;
    let mut wakes = app.wakes.subscribe();
    let until = Instant::now() + Duration::from_secs(u64::from(request.wait_s));
    loop {
        let last = Instant::now() >= until || app.stop.is_cancelled();
        if let Some(response) = attempt(&app, id, &request, key.as_ref(), last).await? {
            return Ok(response);
        }
        let woken = async {
            while let Some(wake) = notify::next(&mut wakes).await {
                if wake == Wake::Study(id) || wake == Wake::All {
                    return;
                }
            }
            std::future::pending().await
        };
        let next_look = until.min(Instant::now() + LOOK_AGAIN);
        let _ = app.stop.run_until_cancelled(timeout_at(next_look, woken)).await;
    }
}

/// One try; None: nothing to hand out, and it is not the `last` one. An empty answer is not kept under the key.
async fn attempt(app: &App, id: StudyId, request: &SuggestRequest, key: Option<&Key>, last: bool) -> Result<Option<Response>> {
    let mut conn = app.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    if let Some(answer) = idempotency::replay(&mut tx, key).await? {
        return Ok(Some(answer));
    }
    let found = outside::suggest(&mut tx, id, &request.worker, request.count).await?;
    if found.trials.is_empty() && !found.exhausted {
        let answer = if last { Some(idempotency::keep(&mut tx, None, StatusCode::OK, &found).await?) } else { None };
        tx.rollback().await?;
        return Ok(answer);
    }
    let answer = idempotency::keep(&mut tx, key, StatusCode::OK, &found).await?;
    tx.commit().await?;
    Ok(Some(answer))
}

fn check(request: &SuggestRequest) -> Result<()> {
    let mut errors = Vec::new();
    let mut wrong = |path: &str, message: String| errors.push(FieldError { path: path.into(), message });
    if !(1..=outside::MAX_SUGGESTIONS).contains(&request.count) {
        wrong("count", format!("{} is not between 1 and {}", request.count, outside::MAX_SUGGESTIONS));
    }
    if !(1..=200).contains(&request.worker.len()) || request.worker.chars().any(char::is_control) {
        wrong("worker", "must have 1 to 200 printable characters".into());
    }
    if request.wait_s > MAX_WAIT_S {
        wrong("wait_s", format!("{} is more than {MAX_WAIT_S}", request.wait_s));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid("invalid_request", "`errors` says what is wrong with the request", errors))
    }
}
