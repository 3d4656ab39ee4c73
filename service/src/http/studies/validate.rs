//! `POST /studies:validate`: what `POST /studies` would say, storing nothing.

use axum::Json;
use elastune_api::problem::FieldError;
use elastune_api::study::Validated;
use elastune_core::model::study::StudySpec;
use elastune_core::search;

use crate::error::{ApiError, Result};
use crate::http::auth::Admin;
use crate::http::extract::Document;
use crate::http::openapi::Problems;

/// The document as it would be stored, with every default filled in; or every error in it.
#[utoipa::path(post, path = "/studies:validate", tag = "studies", request_body(content((StudySpec = "application/json"), (String = "application/yaml"))),
    responses((status = 200, body = Validated), Problems))]
pub async fn validate(_: Admin, Document(document): Document) -> Result<Json<Validated>> {
    checked(&document).map(Json)
}

/// The study that a document describes, or a problem that lists every field at fault.
pub fn checked(document: &serde_json::Value) -> Result<Validated> {
    let wire = |errors: Vec<search::FieldError>| -> Vec<FieldError> {
        errors.into_iter().map(|error| FieldError { path: error.path, message: error.message }).collect()
    };
    match search::validate(document) {
        Ok(valid) => Ok(Validated { spec: valid.spec, warnings: wire(valid.warnings) }),
        Err(errors) => {
            let detail = match errors.as_slice() {
                [only] => format!("{}: {}", only.path, only.message),
                errors => format!("the study has {} errors; `errors` lists them all", errors.len()),
            };
            Err(ApiError::invalid("invalid_study", detail, wire(errors)))
        }
    }
}
