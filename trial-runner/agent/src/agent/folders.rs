//! Removes the folders of trials that this node has had nothing to do with for an hour. Used by `node`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use elastune_core::model::ids::TrialId;

use crate::outbox::Outbox;
use crate::state::Trials;

const KEEP: Duration = Duration::from_secs(3600);
const LOOK: Duration = Duration::from_secs(60);

pub(super) struct Folders {
    trials: Trials,
    /// When each trial was last needed, or first seen.
    needed: BTreeMap<TrialId, Instant>,
    looked: Option<Instant>,
}

impl Folders {
    pub fn new(trials: Trials) -> Self {
        Folders { trials, needed: BTreeMap::new(), looked: None }
    }

    /// Looks once a minute; `in_use`: trials that are desired or have processes.
    pub fn tidy(&mut self, now: Instant, in_use: impl Iterator<Item = TrialId>, outbox: &Outbox) {
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK) {
            return;
        }
        self.looked = Some(now);
        for trial in in_use {
            self.needed.insert(trial, now);
        }
        let Ok(entries) = std::fs::read_dir(self.trials.root()) else { return };
        for entry in entries.flatten() {
            let Some(trial) = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(TrialId) else { continue };
            let needed = *self.needed.entry(trial).or_insert(now);
            if now.duration_since(needed) > KEEP && !outbox.upload_waits(trial) {
                tracing::info!(%trial, "removes the folder of a trial that is over");
                if let Err(error) = std::fs::remove_dir_all(entry.path()) {
                    tracing::warn!(%trial, "cannot remove its folder: {error}");
                }
                self.needed.remove(&trial);
            }
        }
        self.needed.retain(|_, needed| now.duration_since(*needed) <= KEEP + 2 * LOOK);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::state::StateFolder;

    #[test]
    fn an_hour_after_its_last_use_a_folder_goes() {
        let temporary = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(temporary.path()).expect("free");
        let outbox = Outbox::open(&state.outbox(), 1 << 20).expect("writable");
        let trials = state.trials();
        let (used, over) = (TrialId(Uuid::from_u128(1)), TrialId(Uuid::from_u128(2)));
        for trial in [used, over] {
            std::fs::create_dir(trials.folder(trial)).expect("writable");
        }
        let mut folders = Folders::new(trials.clone());
        let start = Instant::now();
        for minute in 0..=61 {
            assert!(trials.folder(over).exists());
            folders.tidy(start + Duration::from_secs(60 * minute), [used].into_iter(), &outbox);
        }
        assert!(!trials.folder(over).exists());
        assert!(trials.folder(used).exists());
    }
}
