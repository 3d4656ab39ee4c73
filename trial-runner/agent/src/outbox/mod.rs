//! Reports on their way to the service: kept on disk from the moment a worker is told so until the service has them, through
//! any absence of the service and any death of the agent. Workers' connections and `agent` put reports in; `send` takes them out.

mod journal;
pub mod queue;
mod send;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use anyhow::Result;
use elastune_api::agent::ReportBody;
use elastune_core::model::ids::{Incarnation, TrialId};
use tokio::sync::Notify;

use journal::Journal;
pub use queue::Draft;
use queue::Line;

#[derive(Debug)]
pub struct Outbox {
    inner: Mutex<Inner>,
    /// Lines that are on disk. Held while flushing, so that those who wait meanwhile share the next flush.
    flushed: tokio::sync::Mutex<u64>,
    changed: Notify,
    most_bytes: u64,
}

#[derive(Debug)]
struct Inner {
    journal: Journal,
    /// Lines appended since the start.
    lines: u64,
}

impl Outbox {
    /// Progress is dropped while `most_bytes` wait, log lines while half of that does; nothing else ever is.
    pub fn open(path: &Path, most_bytes: u64) -> Result<Self> {
        let journal = Journal::open(path)?;
        Ok(Outbox {
            inner: Mutex::new(Inner { journal, lines: 0 }),
            flushed: tokio::sync::Mutex::new(0),
            changed: Notify::new(),
            most_bytes,
        })
    }

    /// Takes the report unless it is a resend. Answers a position for `durable`. Errors: the disk is full or broken, nothing was taken.
    pub fn put(&self, draft: Draft) -> Result<u64> {
        let mut inner = self.lock();
        let limit = match draft.body {
            ReportBody::Log { .. } => self.most_bytes / 2,
            ReportBody::Progress { .. } => self.most_bytes,
            _ => u64::MAX,
        };
        if inner.journal.queue.bytes() >= limit {
            inner.journal.queue.note_number(draft.incarnation, draft.number);
        } else if let Some(line) = inner.journal.queue.put(draft) {
            inner.append(&line)?;
            self.changed.notify_waiters();
        }
        Ok(inner.lines)
    }

    /// Returns once everything up to the position is on disk.
    pub async fn durable(&self, position: u64) -> Result<()> {
        let mut flushed = self.flushed.lock().await;
        if *flushed < position {
            let (file, lines) = {
                let inner = self.lock();
                (inner.journal.file(), inner.lines)
            };
            tokio::task::spawn_blocking(move || file.sync_data()).await??;
            *flushed = lines;
        }
        Ok(())
    }

    /// Highest number taken of a worker's reports.
    pub fn number(&self, incarnation: Incarnation) -> u64 {
        self.lock().journal.queue.number(incarnation)
    }

    /// Its exit is still to be reported.
    pub fn exit_waits(&self, incarnation: Incarnation) -> bool {
        self.lock().journal.queue.exit_waits(incarnation)
    }

    /// A checkpoint of the trial is still to be uploaded from its folder.
    pub fn upload_waits(&self, trial: TrialId) -> bool {
        self.lock().journal.queue.uploads().iter().any(|upload| upload.trial == trial)
    }

    /// The file is still to be uploaded.
    pub fn upload_waits_for(&self, path: &Path) -> bool {
        self.lock().journal.queue.uploads().iter().any(|upload| upload.path == path)
    }

    pub fn is_empty(&self) -> bool {
        self.lock().journal.queue.is_empty()
    }

    fn append(&self, line: &Line) -> Result<u64> {
        let mut inner = self.lock();
        inner.append(line)?;
        self.changed.notify_waiters();
        Ok(inner.lines)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inner {
    fn append(&mut self, line: &Line) -> Result<()> {
        self.journal.append(line)?;
        self.lines += 1;
        self.journal.tidy()
    }
}
