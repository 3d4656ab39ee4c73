//! What `propose` and `judge` remember of a study, brought up to its newest event. Called under the study's lock, or from one
//! snapshot of the database.

use elastune_core::judge::{self, JudgeMemory};
use elastune_core::model::event::StudyEvent;
use elastune_core::propose::{self, ProposeMemory};
use sqlx::PgConnection;

use crate::db::memories::{self, Kind};
use crate::db::studies::Study;
use crate::db::{Result, events};

/// A memory is stored again after this many events: catching up costs no more than that.
const STORE_EVERY: u64 = 64;
const EVENTS_AT_ONCE: i64 = 1000;

/// A memory and the event up to which it is stored.
#[derive(Debug)]
pub struct Remembered<M> {
    pub memory: M,
    stored: u64,
}

pub async fn of_propose(conn: &mut PgConnection, study: &Study) -> Result<Remembered<ProposeMemory>> {
    let (stored, mut memory) = memories::get::<ProposeMemory>(conn, study.id, Kind::Propose).await?;
    while let Some(events) = more(conn, study, memory.seq).await? {
        memory = propose::fold(&study.spec, memory, &events);
    }
    Ok(Remembered { memory, stored })
}

pub async fn of_judge(conn: &mut PgConnection, study: &Study) -> Result<Remembered<JudgeMemory>> {
    let (stored, mut memory) = memories::get::<JudgeMemory>(conn, study.id, Kind::Judge).await?;
    while let Some(events) = more(conn, study, memory.proposed.seq).await? {
        memory = judge::fold(&study.spec, memory, &events);
    }
    Ok(Remembered { memory, stored })
}

async fn more(conn: &mut PgConnection, study: &Study, seq: u64) -> Result<Option<Vec<StudyEvent>>> {
    let events = events::after(conn, study.id, seq, EVENTS_AT_ONCE).await?;
    Ok((!events.is_empty()).then_some(events))
}

impl Remembered<ProposeMemory> {
    pub async fn keep(&self, conn: &mut PgConnection, study: &Study) -> Result<()> {
        if self.memory.seq < self.stored + STORE_EVERY {
            return Ok(());
        }
        memories::store(conn, study.id, Kind::Propose, self.memory.seq, &self.memory).await
    }
}

impl Remembered<JudgeMemory> {
    pub async fn keep(&self, conn: &mut PgConnection, study: &Study) -> Result<()> {
        if self.memory.proposed.seq < self.stored + STORE_EVERY {
            return Ok(());
        }
        memories::store(conn, study.id, Kind::Judge, self.memory.proposed.seq, &self.memory).await
    }
}
