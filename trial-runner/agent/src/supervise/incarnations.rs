//! Which processes this node ever started: written before each start, so that none is started twice, and read after a restart,
//! so that those that live are taken over. JSON lines, appended and flushed. Used by `agent`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use elastune_api::agent::Exit;
use elastune_core::model::cluster::Slot;
use elastune_core::model::ids::{Incarnation, TrialId};
use serde::{Deserialize, Serialize};

use crate::state;

/// Processes that are gone are remembered up to this many; the service forgets them much earlier.
const REMEMBERED: usize = 100_000;

/// One process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub incarnation: Incarnation,
    pub trial: TrialId,
    pub attempt: u32,
    pub slot: Slot,
    /// Of the desired state that asked for it.
    pub epoch: u64,
    /// None until it runs: an agent that died in between can't know whether it does.
    pub pid: Option<Pid>,
    pub exit: Option<Exit>,
    /// Counts records in the order of their starts.
    #[serde(default)]
    pub number: u64,
}

/// A process id that can't be mistaken for a later process of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pid {
    pub pid: i32,
    /// Field 22 of /proc/pid/stat: clock ticks from the machine's start to the process's.
    pub start_ticks: u64,
}

#[derive(Debug)]
pub struct Incarnations {
    file: File,
    records: BTreeMap<Incarnation, Record>,
    next: u64,
}

impl Incarnations {
    /// Reads what an earlier agent wrote, the last line of an incarnation being what holds.
    pub fn open(path: &Path) -> Result<Self> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let mut records = BTreeMap::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // A half-written line is the last of an agent that died before it acted on it.
            let Ok(record) = serde_json::from_slice::<Record>(line) else { continue };
            records.insert(record.incarnation, record);
        }
        forget_oldest(&mut records);
        state::replace(path, |file| {
            for record in records.values() {
                serde_json::to_writer(&mut *file, record)?;
                file.write_all(b"\n")?;
            }
            Ok(())
        })
        .with_context(|| format!("cannot write {}", path.display()))?;
        let file = OpenOptions::new().append(true).mode(0o600).open(path)?;
        let next = records.values().map(|record| record.number + 1).max().unwrap_or(0);
        Ok(Incarnations { file, records, next })
    }

    pub fn get(&self, incarnation: Incarnation) -> Option<&Record> {
        self.records.get(&incarnation)
    }

    /// Those that were started and are not known to be gone.
    pub fn alive(&self) -> Vec<Record> {
        self.records.values().filter(|record| record.exit.is_none()).cloned().collect()
    }

    /// Replaces what is known of the incarnation; on disk when it returns.
    pub fn write(&mut self, mut record: Record) -> Result<()> {
        record.number = match self.records.get(&record.incarnation) {
            Some(known) => known.number,
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        // The line break comes first, so that a torn line of a full disk does not swallow this one.
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, &record)?;
        line.push(b'\n');
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).context("cannot write down a process; is the disk full?")?;
        self.records.insert(record.incarnation, record);
        Ok(())
    }
}

fn forget_oldest(records: &mut BTreeMap<Incarnation, Record>) {
    let mut gone: Vec<u64> = records.values().filter(|record| record.exit.is_some()).map(|record| record.number).collect();
    if gone.len() > REMEMBERED {
        gone.sort_unstable();
        let first_kept = gone[gone.len() - REMEMBERED];
        records.retain(|_, record| record.exit.is_none() || record.number >= first_kept);
    }
}

#[cfg(test)]
mod tests {
    use elastune_core::model::ids::NodeId;
    use uuid::Uuid;

    use super::*;

    fn record(id: u128) -> Record {
        Record {
            incarnation: Incarnation(Uuid::from_u128(id)),
            trial: TrialId(Uuid::nil()),
            attempt: 1,
            slot: Slot { node: NodeId(Uuid::nil()), device: 0, parts: 1 },
            epoch: 1,
            pid: None,
            exit: None,
            number: 0,
        }
    }

    #[test]
    fn what_was_started_is_known_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("incarnations.jsonl");
        let mut incarnations = Incarnations::open(&path).expect("writable");
        incarnations.write(record(1)).expect("room");
        incarnations.write(record(2)).expect("room");
        incarnations.write(Record { pid: Some(Pid { pid: 5, start_ticks: 9 }), ..record(2) }).expect("room");
        incarnations.write(Record { exit: Some(Exit::Clean), ..record(1) }).expect("room");
        drop(incarnations);
        std::fs::OpenOptions::new().append(true).open(&path).expect("ours").write_all(b"{\"incarn").expect("ours");
        let mut incarnations = Incarnations::open(&path).expect("readable");
        let alive = incarnations.alive();
        assert_eq!(alive.len(), 1);
        assert_eq!((alive[0].pid, alive[0].number), (Some(Pid { pid: 5, start_ticks: 9 }), 1));
        assert_eq!(incarnations.get(record(1).incarnation).and_then(|known| known.exit.clone()), Some(Exit::Clean));
        incarnations.write(record(3)).expect("room");
        assert_eq!(incarnations.get(record(3).incarnation).map(|known| known.number), Some(2));
    }
}
