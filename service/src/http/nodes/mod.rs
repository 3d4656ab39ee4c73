//! `/nodes`: people look and steer, agents register, ask and report. One file an operation. Called by the router.

mod desired;
mod get;
mod heartbeat;
mod join;
mod list;
mod register;
mod remove;
mod reports;
mod verbs;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list::list, join::join))
        .routes(routes!(register::register))
        .routes(routes!(get::get, remove::remove))
        .routes(routes!(heartbeat::heartbeat))
        .routes(routes!(desired::desired))
        .routes(routes!(reports::reports))
        .routes(routes!(verbs::drain))
        .routes(routes!(verbs::cordon))
        .routes(routes!(verbs::uncordon))
}
