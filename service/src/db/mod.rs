//! Storage: plain functions on a Postgres connection, one file per table. Called by `reconcile` and `http`.
//!
//! Whoever changes a trial, or anything else of a study, holds the lock of the study's row (`studies::lock`); several studies
//! are locked in id order, the cluster's row last. Every change of state names the state that it expects to find.

pub mod checkpoints;
pub mod cluster;
pub mod curves;
pub mod desired;
pub mod events;
pub mod groups;
pub mod idempotency;
pub mod logs;
pub mod measurements;
pub mod memories;
pub mod nodes;
pub mod notify;
pub mod plans;
pub mod proposals;
pub mod studies;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod totals;
pub mod trials;
pub mod verdicts;

use elastune_core::model::width::Width;
use elastune_core::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{PgConnection, Postgres, Transaction};

/// A connection lent by the pool.
pub type Conn = sqlx::pool::PoolConnection<sqlx::Postgres>;

/// Every file of `migrations/`, in the binary.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// Brings the schema up to date. Replicas that start at once wait for each other.
pub async fn migrate(conn: &mut PgConnection) -> std::result::Result<(), MigrateError> {
    MIGRATIONS.run(conn).await
}

/// Why a call did nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no such {what}")]
    NotFound { what: &'static str },
    /// The caller's picture is out of date, or the rules forbid it now.
    #[error("{detail}")]
    Conflict { code: &'static str, detail: String },
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
    #[error("a stored {what} cannot be read: {error}")]
    Stored { what: &'static str, error: String },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Error::Conflict { code, detail: detail.into() }
    }
}

/// Commits what succeeded and rolls back what did not, at once: a transaction that is only dropped keeps its locks until its
/// connection is used again.
pub async fn end<T>(tx: Transaction<'_, Postgres>, done: Result<T>) -> Result<T> {
    match done {
        Ok(value) => {
            tx.commit().await?;
            Ok(value)
        }
        Err(error) => {
            tx.rollback().await?;
            Err(error)
        }
    }
}

/// The database's clock, which all replicas share.
pub async fn now(conn: &mut PgConnection) -> Result<Time> {
    let ms = sqlx::query_scalar!(r#"select (extract(epoch from clock_timestamp()) * 1000)::bigint as "ms!""#).fetch_one(conn).await?;
    Ok(Time(ms))
}

/// An enum as the word that its JSON has.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => unreachable!("states and reasons are words, not {other:?}"),
    }
}

fn from_word<T: DeserializeOwned>(what: &'static str, word: &str) -> Result<T> {
    T::deserialize(StrDeserializer::<WordError>::new(word)).map_err(|error| Error::Stored { what, error: error.to_string() })
}

fn from_words<T: DeserializeOwned>(what: &'static str, word: Option<&str>) -> Result<Option<T>> {
    word.map(|word| from_word(what, word)).transpose()
}

fn width(devices: f64) -> Result<Width> {
    Width::from_devices(devices).ok_or_else(|| Error::Stored { what: "width", error: format!("{devices} devices") })
}

/// Exactly one row, as the guard of a change of state wants it.
fn expect_one(rows: u64, code: &'static str, detail: impl FnOnce() -> String) -> Result<()> {
    if rows == 1 { Ok(()) } else { Err(Error::Conflict { code, detail: detail() }) }
}

/// Numbers that the schema keeps at or above zero.
fn unsigned(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX })
}
