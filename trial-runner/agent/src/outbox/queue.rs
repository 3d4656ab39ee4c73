//! What waits to be reported, as a fold over the journal's lines. Pure; the journal writes each line before it is folded.
//!
//! Reports get their `seq` when they are first sent, not when they come: what must stay behind a checkpoint's upload waits
//! without holding up other trials, and what was sent once is sent again under the same `seq`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use elastune_api::agent::{AgentReport, ReportBody};
use elastune_core::model::ids::{Incarnation, TrialId};
use elastune_core::time::Time;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Most reports in one batch; the service takes at most 1,000.
pub(super) const BATCH: usize = 500;
/// Most bytes of reports in one batch.
const BATCH_BYTES: u64 = 1 << 20;

/// A report without its `seq`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    pub at: Time,
    pub trial: TrialId,
    pub attempt: u32,
    pub incarnation: Incarnation,
    /// As the worker counts its reports; 0: the agent's own.
    pub number: u64,
    pub body: ReportBody,
    /// The checkpoint's file, if it must be in the store before this is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<PathBuf>,
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first: a new queue, or what is left after the acknowledged ones were cut off.
    Begin {
        spool: Uuid,
        next_seq: u64,
        next_id: u64,
        numbers: Vec<(Incarnation, u64)>,
    },
    Put {
        id: u64,
        draft: Box<Draft>,
    },
    /// The checkpoint is in the store.
    Uploaded {
        id: u64,
    },
    /// It can't be stored; the report is dropped.
    Abandoned {
        id: u64,
    },
    /// Written before the reports are sent for the first time, with `seq`s from `first_seq` on.
    Sent {
        first_seq: u64,
        ids: Vec<u64>,
    },
    /// The service has taken everything up to `seq`, or never will.
    Acked {
        seq: u64,
    },
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    draft: Draft,
    bytes: u64,
}

/// A checkpoint to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    pub id: u64,
    pub trial: TrialId,
    pub path: PathBuf,
    pub sha256: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    pub spool: Uuid,
    next_seq: u64,
    next_id: u64,
    /// Highest number seen of each incarnation that has not exited.
    numbers: BTreeMap<Incarnation, u64>,
    entries: BTreeMap<u64, Entry>,
    /// Those of `entries` whose checkpoint is not in the store.
    uploading: BTreeSet<u64>,
    /// Sent and not acknowledged: seq and id, by seq.
    sent: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl Queue {
    pub fn new(spool: Uuid) -> Self {
        Queue {
            spool,
            next_seq: 1,
            next_id: 1,
            numbers: BTreeMap::new(),
            entries: BTreeMap::new(),
            uploading: BTreeSet::new(),
            sent: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Folds one line, `bytes` long.
    pub fn apply(&mut self, line: &Line, bytes: u64) {
        match line {
            Line::Begin { spool, next_seq, next_id, numbers } => {
                *self = Queue::new(*spool);
                self.next_seq = *next_seq;
                self.next_id = *next_id;
                self.numbers = numbers.iter().copied().collect();
            }
            Line::Put { id, draft } => {
                self.next_id = self.next_id.max(id + 1);
                self.note_number(draft.incarnation, draft.number);
                if matches!(draft.body, ReportBody::Exited { .. }) {
                    self.numbers.remove(&draft.incarnation);
                }
                if draft.upload.is_some() {
                    self.uploading.insert(*id);
                }
                self.bytes += bytes;
                self.entries.insert(*id, Entry { draft: (**draft).clone(), bytes });
            }
            Line::Uploaded { id } => {
                self.uploading.remove(id);
                if let Some(entry) = self.entries.get_mut(id) {
                    entry.draft.upload = None;
                }
            }
            Line::Abandoned { id } => self.remove(*id),
            Line::Sent { first_seq, ids } => {
                for (seq, id) in (*first_seq..).zip(ids) {
                    self.sent.push_back((seq, *id));
                    self.next_seq = self.next_seq.max(seq + 1);
                }
            }
            Line::Acked { seq } => {
                while let Some((_, id)) = self.sent.pop_front_if(|(sent, _)| *sent <= *seq) {
                    self.remove(id);
                }
            }
        }
    }

    fn remove(&mut self, id: u64) {
        self.uploading.remove(&id);
        if let Some(entry) = self.entries.remove(&id) {
            self.bytes -= entry.bytes;
        }
    }

    /// Lines that rebuild this queue.
    pub fn lines(&self) -> Vec<Line> {
        let numbers = self.numbers.iter().map(|(incarnation, number)| (*incarnation, *number)).collect();
        let next_seq = self.sent.front().map_or(self.next_seq, |(seq, _)| *seq);
        let mut lines = vec![Line::Begin { spool: self.spool, next_seq, next_id: self.next_id, numbers }];
        lines.extend(self.entries.iter().map(|(id, entry)| Line::Put { id: *id, draft: Box::new(entry.draft.clone()) }));
        if let Some((first_seq, _)) = self.sent.front() {
            lines.push(Line::Sent { first_seq: *first_seq, ids: self.sent.iter().map(|(_, id)| *id).collect() });
        }
        lines
    }

    /// The line that puts the draft in; None if it is a resend.
    pub fn put(&self, draft: Draft) -> Option<Line> {
        let new = draft.number == 0 || draft.number > self.number(draft.incarnation);
        new.then(|| Line::Put { id: self.next_id, draft: Box::new(draft) })
    }

    /// Counts a worker's report that is not kept.
    pub fn note_number(&mut self, incarnation: Incarnation, number: u64) {
        if number > 0 {
            let highest = self.numbers.entry(incarnation).or_default();
            *highest = number.max(*highest);
        }
    }

    pub fn number(&self, incarnation: Incarnation) -> u64 {
        self.numbers.get(&incarnation).copied().unwrap_or(0)
    }

    /// The line that sends what may go for the first time; None if something is on its way already or nothing may go.
    pub fn send(&self) -> Option<Line> {
        if !self.sent.is_empty() {
            return None;
        }
        let mut uploading: BTreeSet<Incarnation> = BTreeSet::new();
        let mut ids = Vec::new();
        let mut bytes = 0;
        for (id, entry) in &self.entries {
            let draft = &entry.draft;
            if draft.upload.is_some() {
                uploading.insert(draft.incarnation);
            }
            if keeps_order_with_checkpoints(&draft.body) && uploading.contains(&draft.incarnation) {
                continue;
            }
            if ids.len() == BATCH || (bytes + entry.bytes > BATCH_BYTES && !ids.is_empty()) {
                break;
            }
            ids.push(*id);
            bytes += entry.bytes;
        }
        (!ids.is_empty()).then_some(Line::Sent { first_seq: self.next_seq, ids })
    }

    /// At most `most` reports that are on their way, the same at every call until they are acknowledged.
    pub fn batch(&self, most: usize) -> Vec<AgentReport> {
        self.sent.iter().filter_map(|(seq, id)| self.entries.get(id).map(|entry| report(*seq, &entry.draft))).take(most).collect()
    }

    pub fn uploads(&self) -> Vec<Upload> {
        let pending = |id: &u64| {
            let draft = &self.entries.get(id)?.draft;
            match (&draft.body, &draft.upload) {
                (ReportBody::Checkpointed { checkpoint }, Some(path)) => {
                    Some(Upload { id: *id, trial: draft.trial, path: path.clone(), sha256: checkpoint.sha256.clone() })
                }
                _ => None,
            }
        };
        self.uploading.iter().filter_map(pending).collect()
    }

    pub fn exit_waits(&self, incarnation: Incarnation) -> bool {
        let is_exit = |entry: &Entry| entry.draft.incarnation == incarnation && matches!(entry.draft.body, ReportBody::Exited { .. });
        self.entries.values().any(is_exit)
    }

    /// Bytes of what is not acknowledged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// What follows a checkpoint of its process must not be told before it; the rest may pass.
fn keeps_order_with_checkpoints(body: &ReportBody) -> bool {
    matches!(body, ReportBody::Checkpointed { .. } | ReportBody::Measured { .. } | ReportBody::Milestone { .. } | ReportBody::Exited { .. })
}

fn report(seq: u64, draft: &Draft) -> AgentReport {
    AgentReport { seq, at: draft.at, trial: draft.trial, attempt: draft.attempt, incarnation: draft.incarnation, body: draft.body.clone() }
}
