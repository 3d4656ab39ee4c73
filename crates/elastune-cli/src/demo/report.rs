//! What a demo came to, from the service's events: trials, resizes, promotions, every trial's widths over time. Made by the demo.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use elastune_api::client::Client;
use elastune_api::study::{Study, StudyEventLine};
use elastune_core::judge::Verdict;
use elastune_core::model::event::Event;
use elastune_core::model::ids::TrialId;
use elastune_core::model::space::Params;
use elastune_core::model::trial::TrialState;
use elastune_core::time::Time;
use serde::Serialize;

use super::board::Board;

#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Report {
    pub trials: Trials,
    pub resizes: Resizes,
    pub promotions: u32,
    pub best: Option<Best>,
    pub wall_s: f64,
    /// By "study/trial": [seconds since the first study was created, devices held], a point at each change.
    pub width_history: BTreeMap<String, Vec<(f64, f64)>>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trials {
    pub completed: u32,
    pub pruned: u32,
    pub failed: u32,
}

/// Changes of a running trial's width; starts and ends are none.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resizes {
    pub grow: u32,
    pub shrink: u32,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Best {
    pub number: u32,
    pub val_accuracy: f64,
    pub parameters: Params,
}

impl Report {
    /// Of studies that are final; the best trial is the first study's.
    pub async fn of(client: &Client, board: &Board, wall: Duration) -> Result<Report> {
        let mut report = Report { wall_s: (wall.as_secs_f64() * 10.0).round() / 10.0, ..Report::default() };
        let first = board.studies.first().context("a demo has a study")?;
        for shown in &board.studies {
            let counts = &shown.study.counts;
            report.trials.completed += counts.completed;
            report.trials.pruned += counts.pruned;
            report.trials.failed += counts.failed;
            report.add(&shown.study.name, first.study.created, &events(client, &shown.study).await?)?;
        }
        let best = first.study.best.as_ref();
        report.best = best.map(|b| Best { number: b.number, val_accuracy: b.value, parameters: b.parameters.clone() });
        Ok(report)
    }

    fn add(&mut self, study: &str, start: Time, events: &[StudyEventLine]) -> Result<()> {
        let mut names = BTreeMap::new();
        // The width that a trial holds now, while it holds one.
        let mut widths: BTreeMap<TrialId, f64> = BTreeMap::new();
        for line in events {
            let event: Event =
                serde_json::from_value(line.event.clone()).with_context(|| format!("event {} of {study} is not as expected", line.seq))?;
            let at = (line.at - start).as_secs_f64();
            match event {
                Event::Proposed { trial, number, .. } => {
                    names.insert(trial, format!("{study}/{number}"));
                }
                Event::Judged { verdict: Verdict::Promote { .. }, .. } => self.promotions += 1,
                Event::Resized { trial, width, .. } => {
                    let width = width.devices();
                    match widths.insert(trial, width) {
                        Some(before) if width > before => self.resizes.grow += 1,
                        Some(before) if width < before => self.resizes.shrink += 1,
                        Some(_) => continue,
                        None => {}
                    }
                    self.point(names.get(&trial), at, width);
                }
                // Its processes are gone or going: what it gets later is a start, not a resize.
                Event::Changed { trial, state, .. } if holds_nothing(state) && widths.remove(&trial).is_some() => {
                    self.point(names.get(&trial), at, 0.0);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn point(&mut self, name: Option<&String>, at: f64, width: f64) {
        if let Some(name) = name {
            self.width_history.entry(name.clone()).or_default().push((at, width));
        }
    }
}

fn holds_nothing(state: TrialState) -> bool {
    state.is_final() || matches!(state, TrialState::Paused | TrialState::Waiting)
}

/// Every event that the study had when it was read.
async fn events(client: &Client, study: &Study) -> Result<Vec<StudyEventLine>> {
    let mut events: Vec<StudyEventLine> = Vec::new();
    let mut stream = client.events(study.id, 0).await?;
    while events.last().is_none_or(|last| last.seq < study.seq) {
        let event = stream.next_json().await.with_context(|| format!("the events of {} end early", study.name))??;
        events.push(event);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elastune_core::model::width::Width;

    #[test]
    fn only_changes_of_a_running_trial_count_as_resizes() {
        let trial = TrialId(uuid::Uuid::nil());
        let resized = |width| Event::Resized { trial, attempt: 1, generation: 1, width: Width::Devices(width), step: 1 };
        let changed = |state| Event::Changed { trial, state, reason: None, attempt: 1 };
        let happened = [
            Event::Proposed { trial, number: 4, parameters: Params::new(), run_until: 1.0 },
            resized(1),
            resized(2),
            resized(2),
            resized(1),
            changed(TrialState::Paused),
            Event::Judged { trial, verdict: Verdict::Promote { run_until: 4.0 }, text: String::new() },
            changed(TrialState::Waiting),
            resized(2),
            changed(TrialState::Completed),
        ];
        let lines: Vec<_> = happened
            .iter()
            .enumerate()
            .map(|(index, event)| StudyEventLine {
                seq: index as u64 + 1,
                at: Time(1000 + 500 * index as i64),
                kind: String::new(),
                trial: None,
                event: serde_json::to_value(event).expect("events are plain"),
            })
            .collect();
        let mut report = Report::default();
        report.add("fashion", Time(1000), &lines).expect("they are events");
        assert_eq!(report.resizes, Resizes { grow: 1, shrink: 1 });
        assert_eq!(report.promotions, 1);
        let expected = vec![(0.5, 1.0), (1.0, 2.0), (2.0, 1.0), (2.5, 0.0), (4.0, 2.0), (4.5, 0.0)];
        assert_eq!(report.width_history, BTreeMap::from([("fashion/4".to_string(), expected)]));
    }
}
