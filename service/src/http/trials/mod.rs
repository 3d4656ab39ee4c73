//! `/trials` and `/studies/{id}/trials`: one file an operation. Called by the router.

mod checkpoints;
mod complete;
mod explain;
mod get;
mod heartbeat;
mod list;
mod logs;
mod measurements;
mod report;
mod should_stop;
mod verbs;
pub(super) mod widths;

use std::collections::BTreeMap;

use elastune_api::problem::FieldError;
use elastune_core::model::event::MetricValue;
use elastune_core::model::ids::TrialId;
use sqlx::PgConnection;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::db::{studies, trials};
use crate::error::{ApiError, Result};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list::list))
        .routes(routes!(get::get))
        .routes(routes!(measurements::measurements, report::report))
        .routes(routes!(widths::widths))
        .routes(routes!(explain::explain))
        .routes(routes!(logs::logs))
        .routes(routes!(checkpoints::list))
        .routes(routes!(should_stop::should_stop))
        .routes(routes!(heartbeat::heartbeat))
        .routes(routes!(complete::complete))
        .routes(routes!(verbs::stop))
        .routes(routes!(verbs::cancel))
        .routes(routes!(verbs::retry))
        .routes(routes!(verbs::exclude))
}

/// The trial as it is now.
async fn read(conn: &mut PgConnection, id: TrialId) -> Result<elastune_api::trial::Trial> {
    let trial = trials::get(conn, id).await?;
    let study = studies::get(conn, trial.study).await?;
    Ok(trial.to_api(study.spec.max_resource()))
}

/// Values are numbers, or the words for those that are not finite.
fn check_metrics(path: &str, metrics: &BTreeMap<String, MetricValue>, errors: &mut Vec<FieldError>) {
    for (name, value) in metrics {
        if let MetricValue::NotFinite(word) = value
            && !matches!(word.as_str(), "nan" | "inf" | "-inf")
            && errors.len() < 100
        {
            let message = "is neither a number nor one of nan, inf, -inf".into();
            errors.push(FieldError { path: format!("{path}.{}", name.chars().take(200).collect::<String>()), message });
        }
    }
}

/// `field: reason`, as a problem.
fn refused(fault: &str) -> ApiError {
    let (path, message) = fault.split_once(": ").unwrap_or(("", fault));
    ApiError::invalid(
        "invalid_measurement",
        format!("nothing was stored: {fault}"),
        vec![FieldError { path: path.into(), message: message.into() }],
    )
}
