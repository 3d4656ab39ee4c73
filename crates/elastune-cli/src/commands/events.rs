//! A study's events as lines of text, as they happen. Called by `study watch` and `study create --wait`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use elastune_api::client::Client;
use elastune_api::study::StudyEventLine;
use elastune_core::model::event::Event;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::trial::TrialState;

use crate::args::Format;
use crate::output::{clock, line, metric, number, parameters, word};

/// Prints every event of the study from its first, until its end. Connects again when the stream breaks.
pub async fn follow(client: &Client, study: StudyId, format: Format) -> Result<()> {
    let mut seen = 0;
    let mut words = Words::default();
    loop {
        match client.events(study, seen).await {
            Ok(mut stream) => {
                while let Some(Ok(event)) = stream.next_json::<StudyEventLine>().await {
                    seen = seen.max(event.seq);
                    print(&mut words, &event, format)?;
                    if ends_study(&event) {
                        return Ok(());
                    }
                }
            }
            Err(error) if error.is_transient() => eprintln!("elastune: {error}; trying again"),
            Err(error) => return Err(error.into()),
        }
        if client.study(study).await.is_ok_and(|study| study.state.is_final() && study.seq <= seen) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn ends_study(line: &StudyEventLine) -> bool {
    matches!(serde_json::from_value(line.event.clone()), Ok(Event::StudyState { state, .. }) if state.is_final())
}

fn print(words: &mut Words, event: &StudyEventLine, format: Format) -> Result<()> {
    match format {
        Format::Json => line(serde_json::to_string(event)?),
        Format::Yaml => line(format!("---\n{}", serde_norway::to_string(event)?.trim_end())),
        Format::Table | Format::Csv => match words.say(event) {
            Some(text) => line(format!("{}  {text}", clock(event.at))),
            None => Ok(()),
        },
    }
}

/// Turns events into sentences; remembers the trials' numbers.
#[derive(Debug, Default)]
pub struct Words {
    numbers: BTreeMap<TrialId, u32>,
}

impl Words {
    /// None for what nobody watches for.
    pub fn say(&mut self, line: &StudyEventLine) -> Option<String> {
        let Ok(event) = serde_json::from_value::<Event>(line.event.clone()) else {
            // Of a newer service: its kind says something at least.
            return Some(line.kind.clone());
        };
        let name = |numbers: &BTreeMap<TrialId, u32>, trial: &TrialId| match numbers.get(trial) {
            Some(number) => format!("trial {number}"),
            None => format!("trial {trial}"),
        };
        Some(match event {
            Event::StudyCreated { spec } => format!("study {} created", spec.name),
            Event::StudyChanged { .. } => "study changed".into(),
            Event::StudyState { state, reason } => {
                format!("study {}{}", word(&state), reason.map_or_else(String::new, |reason| format!(": {reason}")))
            }
            Event::Proposed { trial, number, parameters: values, .. } => {
                self.numbers.insert(trial, number);
                format!("trial {number} proposed: {}", parameters(&values))
            }
            Event::Unproposed { number, .. } => format!("trial {number} withdrawn before it started"),
            Event::Judged { trial, text, .. } => format!("{}: {text}", name(&self.numbers, &trial)),
            Event::Changed { trial, state, reason, .. } => {
                if matches!(state, TrialState::Resizing | TrialState::Stopping) {
                    return None;
                }
                let reason = reason.map_or_else(String::new, |reason| format!(" ({})", word(&reason)));
                format!("{} {}{reason}", name(&self.numbers, &trial), word(&state))
            }
            Event::Excluded { trial, excluded } => {
                format!("{} {} the algorithm", name(&self.numbers, &trial), if excluded { "hidden from" } else { "shown again to" })
            }
            Event::Measured { trial, resource, metrics, .. } => {
                let metrics: Vec<_> = metrics.iter().map(|(name, value)| format!("{name} {}", metric(value))).collect();
                format!("{} epoch {}: {}", name(&self.numbers, &trial), number(resource), metrics.join(", "))
            }
            Event::Checkpointed { .. } => return None,
            Event::Resized { trial, width, step, .. } => {
                format!("{} has width {} from step {step}", name(&self.numbers, &trial), number(width.devices()))
            }
            Event::Noted { trial, text } => match trial {
                Some(trial) => format!("{}: {text}", name(&self.numbers, &trial)),
                None => text,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elastune_core::model::width::Width;
    use elastune_core::time::Time;

    fn event(seq: u64, event: &Event) -> StudyEventLine {
        let event = serde_json::to_value(event).expect("events are plain");
        StudyEventLine { seq, at: Time(0), kind: "x".into(), trial: None, event }
    }

    #[test]
    fn trials_are_named_by_number_once_it_is_known() {
        let mut words = Words::default();
        let trial = TrialId(uuid::Uuid::nil());
        let resized = Event::Resized { trial, attempt: 1, generation: 2, width: Width::Devices(2), step: 40 };
        assert!(words.say(&event(1, &resized)).expect("it speaks").contains(&trial.to_string()));
        let proposed = Event::Proposed { trial, number: 3, parameters: BTreeMap::new(), run_until: 1.0 };
        words.say(&event(2, &proposed));
        assert_eq!(words.say(&event(3, &resized)).as_deref(), Some("trial 3 has width 2 from step 40"));
        let unknown = StudyEventLine { event: serde_json::json!({"kind": "later"}), ..event(4, &proposed) };
        assert_eq!(words.say(&unknown).as_deref(), Some("x"));
    }
}
