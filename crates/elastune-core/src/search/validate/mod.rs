//! From a document to a study, or to every error in it at once. Called by the service on POST, by the CLI before it sends, by tests.

mod algorithm;
mod fields;
mod space;
mod study;
#[cfg(test)]
mod tests;
mod units;
mod workload;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::study::StudySpec;
use fields::{Field, Notes};

/// Most errors in one answer.
pub const MAX_ERRORS: usize = 100;

/// One field at fault, or one to look at again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// Where, as in `search_space.lr.min`; empty: the document as a whole.
    pub path: String,
    pub message: String,
}

/// A study that may be created, and what its user should know.
#[derive(Debug, Clone, PartialEq)]
pub struct Validated {
    pub spec: StudySpec,
    pub warnings: Vec<FieldError>,
}

/// Reads a study's document: the form that people write (`deadline: 30m`, `memory: 1GiB`) or a stored [`StudySpec`], which
/// reads back as itself. Duplicate keys are gone by the time there is a `Value`: read text as a [`super::Document`].
///
/// Errors: every field at fault, in the document's order of sections, `MAX_ERRORS` at most.
pub fn validate(document: &Value) -> Result<Validated, Vec<FieldError>> {
    let notes = Notes::default();
    let spec = study::study(Field::root(document, &notes));
    let (mut errors, warnings) = notes.into_inner();
    errors.truncate(MAX_ERRORS);
    match spec {
        Some(spec) if errors.is_empty() => Ok(Validated { spec, warnings }),
        _ => Err(errors),
    }
}
