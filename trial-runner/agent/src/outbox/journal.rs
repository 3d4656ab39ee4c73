//! The queue's file: JSON lines, appended before they count, cut to what is left when it has grown. Called by `outbox`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use uuid::Uuid;

use super::queue::{Line, Queue};
use crate::state;

/// The file is cut when it is longer than this and than four times what is left.
const CUT_BYTES: u64 = 256 << 10;

#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Arc<File>,
    /// Length of the file.
    length: u64,
    pub queue: Queue,
}

impl Journal {
    /// Reads what an earlier agent left; a half-written last line is dropped.
    pub fn open(path: &Path) -> Result<Self> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let mut queue = Queue::new(Uuid::new_v4());
        let mut lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
        while let Some((number, line)) = lines.next() {
            match serde_json::from_slice::<Line>(line) {
                Ok(parsed) if line.ends_with(b"\n") => queue.apply(&parsed, line.len() as u64),
                _ => {
                    tracing::warn!(line = number + 1, "the outbox has a damaged line; what follows it is dropped");
                    if lines.next().is_some() {
                        // The lost lines may have given out `seq`s: under a new name none can be taken for a repetition.
                        queue.spool = Uuid::new_v4();
                    }
                    break;
                }
            }
        }
        let (file, length) = write_all(path, &queue)?;
        Ok(Journal { path: path.to_owned(), file, length, queue })
    }

    /// Appends the line and folds it. Not yet on disk: see `file`. Errors leave both as they were.
    pub fn append(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        if let Err(error) = (&*self.file).write_all(&text) {
            // Half a line would spoil those after it.
            self.file.set_len(self.length)?;
            return Err(error).with_context(|| format!("cannot write {}", self.path.display()));
        }
        self.length += text.len() as u64;
        self.queue.apply(line, text.len() as u64);
        Ok(())
    }

    /// Cuts off what is acknowledged if that is most of the file.
    pub fn tidy(&mut self) -> Result<()> {
        if self.length > CUT_BYTES && self.length > 4 * self.queue.bytes() {
            (self.file, self.length) = write_all(&self.path, &self.queue)?;
        }
        Ok(())
    }

    /// To be flushed by whoever needs to know that the lines are on disk.
    pub fn file(&self) -> Arc<File> {
        self.file.clone()
    }
}

fn write_all(path: &Path, queue: &Queue) -> Result<(Arc<File>, u64)> {
    let mut length = 0;
    state::replace(path, |file| {
        for line in queue.lines() {
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            file.write_all(&text)?;
            length += text.len() as u64;
        }
        Ok(())
    })
    .with_context(|| format!("cannot write {}", path.display()))?;
    let file = OpenOptions::new().append(true).mode(0o600).open(path)?;
    Ok((Arc::new(file), length))
}
