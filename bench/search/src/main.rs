//! A study's `propose`, driven by lines of JSON: `{"study": document}`, `{"ask": count}`, `{"tell": {number: [losses]}}`, each answered
//! by one line. Run by `bench/search/run.py`.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use elastune_core::model::event::{Event, MetricValue, StudyEvent};
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::trial::TrialState;
use elastune_core::propose::{ProposeMemory, StudyContext, fold, propose};
use elastune_core::search::validate;
use elastune_core::time::Time;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Study(Value),
    Ask(u32),
    Tell(BTreeMap<u32, Vec<f64>>),
}

struct Study {
    context: StudyContext,
    memory: ProposeMemory,
}

fn main() -> Result<()> {
    let mut study = None;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?).context("a request is one JSON object")? {
            Request::Study(document) => {
                let spec = validate(&document).map_err(|errors| anyhow!("{errors:?}"))?.spec;
                study = Some(Study { context: StudyContext::new(StudyId(Uuid::nil()), spec), memory: ProposeMemory::default() });
                json!({})
            }
            Request::Ask(count) => study.as_mut().context("there is no study yet")?.ask(count),
            Request::Tell(losses) => study.as_mut().context("there is no study yet")?.tell(losses),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

impl Study {
    /// The trials, and the milliseconds that the proposal and its fold took.
    fn ask(&mut self, count: u32) -> Value {
        let begun = Instant::now();
        let proposals = propose(&self.context, &self.memory, count);
        for proposal in &proposals {
            let (number, parameters, run_until) = (proposal.number, proposal.parameters.clone(), proposal.run_until);
            self.record(Event::Proposed { trial: trial(number), number, parameters, run_until });
        }
        let ms = begun.elapsed().as_secs_f64() * 1000.0;
        let trials: Vec<Value> = proposals.iter().map(|p| json!({"number": p.number, "parameters": p.parameters})).collect();
        json!({"trials": trials, "ms": ms})
    }

    fn tell(&mut self, losses: BTreeMap<u32, Vec<f64>>) -> Value {
        let begun = Instant::now();
        for (number, losses) in losses {
            let names = self.context.spec.metrics.iter().map(|metric| metric.name.clone());
            let metrics = names.zip(losses.into_iter().map(MetricValue::new)).collect();
            self.record(Event::Measured { trial: trial(number), resource: 1.0, metrics, elapsed_s: 0.0 });
            self.record(Event::Changed { trial: trial(number), state: TrialState::Completed, reason: None, attempt: 1 });
        }
        json!({"ms": begun.elapsed().as_secs_f64() * 1000.0})
    }

    fn record(&mut self, event: Event) {
        let event = StudyEvent { seq: self.memory.seq + 1, at: Time(0), event };
        self.memory = fold(&self.context.spec, std::mem::take(&mut self.memory), &[event]);
    }
}

fn trial(number: u32) -> TrialId {
    TrialId(Uuid::from_u128(u128::from(number)))
}
