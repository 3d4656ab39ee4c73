//! What `propose` and `judge` remember of a study: a fold over its events up to a cursor. Called by `reconcile::memory`.

use elastune_core::model::ids::StudyId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::{Result, word};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Propose,
    Judge,
}

/// The memory and the last event that is in it; the empty one at 0 where none is stored or it cannot be read any more,
/// since the events tell it all.
pub async fn get<M: DeserializeOwned + Default>(conn: &mut PgConnection, study: StudyId, kind: Kind) -> Result<(u64, M)> {
    let row = sqlx::query!(r#"select cursor, doc::text as "doc!" from memories where study = $1 and kind = $2"#, study.0, word(&kind))
        .fetch_optional(conn)
        .await?;
    let read = row.and_then(|row| Some((row.cursor as u64, serde_json::from_str(&row.doc).ok()?)));
    Ok(read.unwrap_or_default())
}

/// Never replaces a newer one.
pub async fn store(conn: &mut PgConnection, study: StudyId, kind: Kind, cursor: u64, memory: &(impl Serialize + Sync)) -> Result<()> {
    sqlx::query!(
        "insert into memories (study, kind, cursor, doc) values ($1, $2, $3, $4)
         on conflict (study, kind) do update set cursor = excluded.cursor, doc = excluded.doc where memories.cursor < excluded.cursor",
        study.0,
        word(&kind),
        cursor as i64,
        Json(memory) as _
    )
    .execute(conn)
    .await?;
    Ok(())
}
