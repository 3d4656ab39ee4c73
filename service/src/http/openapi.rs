//! The OpenAPI document, derived from the handlers; and which routes there are. Called by the router and by `elastune-service openapi`.

use elastune_api::problem::Problem;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{PathItem, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{auth, checkpoints, cluster, health, login, metrics, nodes, studies, trials, verbs};
use crate::app::App;

#[derive(OpenApi)]
#[openapi(
    info(title = "elastune", description = "Elastic hyperparameter tuning. Times are milliseconds since 1970-01-01 UTC; every error is RFC 9457 problem+json.", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    modifiers(&Schemes),
    components(schemas(Problem, elastune_api::study::StudyEventLine)),
    security(("bearer" = []), ("browser" = [])),
    tags(
        (name = "studies", description = "Submit, watch, change and end studies"),
        (name = "trials", description = "Look at trials, or run them from an outside worker"),
        (name = "cluster", description = "Nodes, plans and who is where"),
        (name = "agent", description = "What trial agents say"),
        (name = "checkpoints", description = "Bytes under their hash"),
        (name = "service", description = "The service itself"),
    )
)]
struct Document;

struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()));
        components.add_security_scheme("browser", SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(auth::COOKIE))));
    }
}

/// Every operation answers its errors alike.
pub struct Problems;

impl IntoResponses for Problems {
    fn responses() -> std::collections::BTreeMap<String, RefOr<Response>> {
        let content = utoipa::openapi::ContentBuilder::new().schema(Some(utoipa::openapi::Ref::from_schema_name(Problem::name()))).build();
        let response =
            ResponseBuilder::new().description("What went wrong, and what to do about it").content("application/problem+json", content);
        [("default".to_string(), RefOr::T(response.build()))].into()
    }
}

pub fn routes() -> OpenApiRouter<App> {
    let api = OpenApiRouter::new()
        .merge(studies::routes())
        .merge(trials::routes())
        .merge(nodes::routes())
        .merge(cluster::routes())
        .merge(checkpoints::routes());
    OpenApiRouter::with_openapi(Document::openapi())
        .nest("/api/v1", api.routes(routes!(login::link)))
        .routes(routes!(login::login))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
}

/// Paths as users write them, and a name for each operation by its method and path.
pub fn finish(mut document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    let paths = std::mem::take(&mut document.paths.paths);
    for (path, mut item) in paths {
        let path = verbs::to_public(&path);
        let PathItem { get, put, post, delete, patch, .. } = &mut item;
        for (method, operation) in [("get", get), ("put", put), ("post", post), ("delete", delete), ("patch", patch)] {
            if let Some(operation) = operation {
                operation.operation_id = Some(operation_id(method, &path));
            }
        }
        document.paths.paths.insert(path, item);
    }
    document
}

/// `post`, `/api/v1/studies/{id}/trials:suggest` -> `post_studies_id_trials_suggest`.
fn operation_id(method: &str, path: &str) -> String {
    let path = path.trim_start_matches("/api/v1");
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// The document, as `/openapi.json` answers it.
pub fn document() -> utoipa::openapi::OpenApi {
    finish(routes().into_openapi())
}
