//! RFC 9457 problem details: every error that the service answers.

pub use elastune_core::search::FieldError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank`, or a path of the documentation.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// What went wrong and what to do about it.
    pub detail: String,
    /// A stable machine-readable word, for instance `invalid_study`, `trial_finished`, `stale_attempt`.
    pub code: String,
    /// Every field at fault, all at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.title, self.detail)?;
        for error in &self.errors {
            write!(f, "\n  {}: {}", error.path, error.message)?;
        }
        Ok(())
    }
}
