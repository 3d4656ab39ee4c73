//! Saves states in the background, on a thread of its own, tells the agent, and keeps the folder small. Called by the session
//! on rank 0, and by any rank that exits in need.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use elastune_api::worker::{ToAgent, WorkerConfig};
use elastune_core::model::ids::Incarnation;
use tch::Tensor;

use crate::checkpoint::{self, Header};
use crate::ipc::Link;
use crate::models::Layout;
use crate::pulse::Pulse;
use crate::state;

const EVERY: Duration = Duration::from_secs(20);
const DURABLE_EVERY: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_secs(2);
/// Newest files that stay beside the best; of durable ones one more, which the agent may still be reading.
const KEEP: usize = 2;
const KEEP_DURABLE: usize = 3;

/// A state to save.
#[derive(Debug)]
pub struct Snapshot {
    pub header: Header,
    pub resource: f64,
    /// A copy: training goes on.
    pub flat: Tensor,
    pub durable: bool,
    /// Less is better; None when no epoch has just been measured.
    pub loss: Option<f64>,
}

#[derive(Debug)]
pub struct Saver {
    queue: SyncSender<(Snapshot, SyncSender<anyhow::Result<()>>)>,
    /// Of the save under way.
    under_way: Option<Receiver<anyhow::Result<()>>>,
    last: Instant,
    last_durable: Instant,
    /// The last `save` did.
    failed: bool,
}

impl Saver {
    /// Errors: no thread to be had, or no folder.
    pub fn start(config: &WorkerConfig, layout: Layout, link: Link, pulse: Pulse) -> anyhow::Result<Saver> {
        let (folder, writer, resumed_from) = (config.folder.clone(), config.incarnation, config.checkpoint.clone());
        std::fs::create_dir_all(&folder)?;
        let (queue, snapshots) = sync_channel::<(Snapshot, SyncSender<anyhow::Result<()>>)>(1);
        let mut shelf = Shelf { folder, writer, count: 0, best: None, durable: Vec::new(), resumed_from };
        std::thread::Builder::new().name("saver".into()).spawn(move || {
            for (snapshot, done) in snapshots {
                let _ = done.send(shelf.save(&snapshot, &layout, &link, &pulse));
            }
        })?;
        let now = Instant::now();
        Ok(Saver { queue, under_way: None, last: now, last_durable: now, failed: false })
    }

    /// Whether a save is due now: None, or Some(durable).
    pub fn due(&mut self) -> Option<bool> {
        if !self.is_idle() || self.last.elapsed() < EVERY {
            return None;
        }
        Some(self.last_durable.elapsed() >= DURABLE_EVERY)
    }

    pub fn is_idle(&mut self) -> bool {
        let Some(under_way) = &self.under_way else { return true };
        match under_way.try_recv() {
            Err(std::sync::mpsc::TryRecvError::Empty) => false,
            outcome => {
                if let Ok(Err(error)) = outcome {
                    tracing::warn!("{error:#}");
                }
                self.under_way = None;
                true
            }
        }
    }

    /// Starts a save; returns at once if none is under way.
    pub fn begin(&mut self, snapshot: Snapshot) {
        let (done, outcome) = sync_channel(1);
        self.last = Instant::now();
        if snapshot.durable {
            self.last_durable = self.last;
        }
        if self.queue.send((snapshot, done)).is_ok() {
            self.under_way = Some(outcome);
        }
    }

    /// Saves and waits for it. Errors: the disk's.
    pub fn save(&mut self, snapshot: Snapshot) -> anyhow::Result<()> {
        self.begin(snapshot);
        let outcome = match self.under_way.take().map(|outcome| outcome.recv()) {
            Some(Ok(outcome)) => outcome,
            _ => Err(anyhow::anyhow!("the saving thread is gone")),
        };
        self.failed = outcome.is_err();
        outcome
    }

    /// Whether another `save` may be tried: not at once after one that failed.
    pub fn is_rested(&self) -> bool {
        !self.failed || self.last.elapsed() >= RETRY
    }
}

/// The files of this process.
struct Shelf {
    folder: PathBuf,
    writer: Incarnation,
    count: u64,
    best: Option<(f64, PathBuf)>,
    /// Oldest first.
    durable: Vec<PathBuf>,
    resumed_from: Option<PathBuf>,
}

impl Shelf {
    fn save(&mut self, snapshot: &Snapshot, layout: &Layout, link: &Link, pulse: &Pulse) -> anyhow::Result<()> {
        let step = snapshot.header.counters.step;
        self.count += 1;
        // Sorts by step, and is never written again: the agent may read it at any time.
        let path = self.folder.join(format!("checkpoint-{step:010}-{}-{}.safetensors", self.writer, self.count));
        let written = checkpoint::write(&path, &snapshot.header, layout, &state::bytes(&snapshot.flat), pulse)?;
        if let Some(loss) = snapshot.loss.filter(|loss| loss.is_finite())
            && self.best.as_ref().is_none_or(|(best, _)| loss < *best)
        {
            self.best = Some((loss, path.clone()));
        }
        if snapshot.durable {
            self.durable.push(path);
            let surplus = self.durable.len().saturating_sub(KEEP_DURABLE);
            self.durable.drain(..surplus);
        }
        self.clear();
        let durable = snapshot.durable;
        link.saved(durable, |number| ToAgent::Saved {
            number,
            path: written.path,
            sha256: written.sha256,
            bytes: written.bytes,
            resource: snapshot.resource,
            step,
            durable,
        });
        Ok(())
    }

    /// Removes what is neither among the newest nor needed. A file that cannot be removed is left.
    fn clear(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let is_checkpoint = |path: &Path| path.extension().is_some_and(|extension| extension == "safetensors");
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_checkpoint(path)).collect();
        files.sort();
        files.truncate(files.len().saturating_sub(KEEP));
        let needed = |path: &PathBuf| {
            self.best.as_ref().is_some_and(|(_, best)| best == path)
                || self.durable.contains(path)
                || self.resumed_from.as_ref() == Some(path)
        };
        for path in files.iter().filter(|path| !needed(path)) {
            let _ = std::fs::remove_file(path);
        }
    }
}
