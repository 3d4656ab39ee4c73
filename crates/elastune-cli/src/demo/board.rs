//! What the demo shows: its studies with their trials, as the service tells them. Read by the demo's loop.

use elastune_api::client::Client;
use elastune_api::study::Study;
use elastune_api::trial::Trial;
use elastune_core::model::ids::StudyId;

use anyhow::Result;

/// Part of a trial's epochs after which it is too late to wait for it to be wide.
const NEARLY: f64 = 0.6;

#[derive(Debug)]
pub struct Board {
    pub studies: Vec<Shown>,
}

#[derive(Debug)]
pub struct Shown {
    pub study: Study,
    pub trials: Vec<Trial>,
}

impl Board {
    pub async fn read(client: &Client, studies: &[StudyId]) -> Result<Board> {
        let mut shown = Vec::new();
        for id in studies {
            // The study first: once it is final its trials no longer change.
            let study = client.study(*id).await?;
            shown.push(Shown { study, trials: client.all_trials(*id).await? });
        }
        Ok(Board { studies: shown })
    }
}

impl Shown {
    /// Everything was proposed, a single trial is live, and most of it is done.
    pub fn nearly_done(&self) -> bool {
        let counts = &self.study.counts;
        let mut live = self.trials.iter().filter(|t| t.state.is_live());
        counts.total() >= self.study.max_trials && counts.live() <= 1 && live.all(|t| t.done > NEARLY * t.max_resource)
    }
}
