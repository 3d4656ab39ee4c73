//! `/studies`: one file an operation. Called by the router.

mod create;
mod curves;
mod delete;
mod events;
mod export;
mod get;
mod list;
mod optimal;
mod parallel;
mod patch;
mod sample;
mod suggest;
mod validate;
mod verbs;
mod widths;

use sqlx::PgConnection;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::db::{self, studies};
use crate::error::Result;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list::list, create::create))
        .routes(routes!(validate::validate))
        .routes(routes!(get::get, patch::patch, delete::delete))
        .routes(routes!(verbs::pause))
        .routes(routes!(verbs::resume))
        .routes(routes!(verbs::stop))
        .routes(routes!(verbs::cancel))
        .routes(routes!(verbs::archive))
        .routes(routes!(verbs::unarchive))
        .routes(routes!(suggest::suggest))
        .routes(routes!(parallel::parallel))
        .routes(routes!(curves::curves))
        .routes(routes!(widths::widths))
        .routes(routes!(optimal::optimal))
        .routes(routes!(events::events))
        .routes(routes!(export::csv))
        .routes(routes!(export::json))
}

/// The wire form of a stored study, with its counts and its best trial.
async fn to_api(conn: &mut PgConnection, study: studies::Study, with_spec: bool) -> db::Result<elastune_api::study::Study> {
    Ok(elastune_api::study::Study {
        counts: studies::counts(conn, study.id).await?,
        best: studies::best(conn, &study).await?,
        id: study.id,
        name: study.spec.name.clone(),
        metric: study.spec.metrics.first().cloned().ok_or(db::Error::Stored { what: "study", error: "it names no metric".into() })?,
        state: study.state,
        reason: study.reason,
        archived: study.archived,
        created: study.created,
        ended: study.ended,
        max_trials: study.spec.budget.max_trials,
        device_seconds: study.device_seconds,
        seq: study.event_seq,
        spec: with_spec.then_some(study.spec),
    })
}

/// The study as it is now.
async fn read(conn: &mut PgConnection, id: elastune_core::model::ids::StudyId) -> Result<elastune_api::study::Study> {
    let study = studies::get(conn, id).await?;
    Ok(to_api(conn, study, true).await?)
}
