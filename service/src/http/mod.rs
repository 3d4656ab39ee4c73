//! The REST API: one folder a noun, one file an operation. Called by `main` and by tests.

pub mod auth;
mod checkpoints;
mod cluster;
mod extract;
mod health;
mod idempotency;
mod login;
pub mod metrics;
mod middleware;
mod nodes;
mod not_finite;
mod openapi;
mod page;
mod sse;
mod studies;
#[cfg(test)]
mod tests;
mod trials;
mod verbs;

pub use openapi::document;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};
use utoipa_swagger_ui::SwaggerUi;

use crate::app::App;
use crate::web;

/// A request's path as its client wrote it.
pub fn public_path(uri: &axum::http::Uri) -> String {
    verbs::to_public(uri.path())
}

/// Everything that the service answers.
pub fn router(app: App) -> Router {
    let (api, document) = openapi::routes().split_for_parts();
    let document = openapi::finish(document);
    let routed = api
        .merge(SwaggerUi::new("/docs").url("/openapi.json", document))
        .fallback(web::fallback)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(from_fn_with_state(app.clone(), middleware::wait_for_database))
        .layer(CatchPanicLayer::custom(middleware::panicked))
        .layer(from_fn_with_state(app.clone(), middleware::observe))
        .layer(CompressionLayer::new().compress_when(DefaultPredicate::new().and(NotForContentType::const_new("application/octet-stream"))))
        .with_state(app);
    // Outside of the router, since it changes what is routed.
    Router::new().fallback_service(routed).layer(from_fn(middleware::respell))
}
