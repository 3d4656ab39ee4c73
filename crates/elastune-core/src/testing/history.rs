//! What every searcher promises of a study that has gone on for a while: trials that end well, badly, early, late, twice or never.
//! Run by `search_suite!`.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use uuid::Uuid;

use super::suite::fits;
use crate::model::event::{Event, MetricValue, StudyEvent};
use crate::model::ids::{StudyId, TrialId};
use crate::model::study::StudySpec;
use crate::model::trial::{Reason, TrialState};
use crate::propose::{Proposal, ProposeMemory, StudyContext, fold, propose};
use crate::rng::Seed;
use crate::time::Time;

/// Trials of a study at the least: more than any algorithm's random start.
const TRIALS: u32 = 70;

struct World {
    study: StudyContext,
    memory: ProposeMemory,
    events: Vec<StudyEvent>,
    rng: ChaCha8Rng,
}

/// Panics where a promise is broken. `fate`: a seed for what becomes of the trials.
pub fn check(spec: &StudySpec, fate: u64) {
    let mut spec = spec.clone();
    spec.budget.max_trials = TRIALS;
    let study = StudyContext::new(StudyId(Uuid::nil()), spec);
    let mut world = World { study, memory: ProposeMemory::default(), events: Vec::new(), rng: Seed(fate).rng() };
    let mut live: Vec<TrialId> = Vec::new();
    while world.memory.spent < TRIALS {
        let count = 1 + world.below(5);
        let proposals = world.batch(count);
        if proposals.is_empty() {
            break;
        }
        for proposal in proposals {
            fits(&world.study.spec, &proposal.parameters);
            live.push(world.begin(proposal));
        }
        while !live.is_empty() && world.below(5) > 0 {
            let index = world.below(live.len() as u32) as usize;
            let trial = live.swap_remove(index);
            world.end(trial);
        }
        // The last one may be taken back.
        let last = world.memory.next - 1;
        if world.below(10) == 0
            && let Some(index) = live.iter().position(|trial| *trial == named(last))
        {
            live.swap_remove(index);
            world.record(Event::Unproposed { trial: named(last), number: last });
        }
    }
    world.remembers();
}

fn named(number: u32) -> TrialId {
    TrialId(Uuid::from_u128(u128::from(number) + 1))
}

impl World {
    fn below(&mut self, bound: u32) -> u32 {
        self.rng.next_u32() % bound
    }

    fn record(&mut self, event: Event) {
        let event = StudyEvent { seq: self.memory.seq + 1, at: Time(0), event };
        self.memory = fold(&self.study.spec, std::mem::take(&mut self.memory), std::slice::from_ref(&event));
        self.events.push(event);
    }

    fn begin(&mut self, proposal: Proposal) -> TrialId {
        let Proposal { number, parameters, run_until } = proposal;
        self.record(Event::Proposed { trial: named(number), number, parameters, run_until });
        named(number)
    }

    /// What is proposed together is what is proposed one by one, each folded in before the next.
    fn batch(&self, count: u32) -> Vec<Proposal> {
        let together = propose(&self.study, &self.memory, count);
        let mut memory = self.memory.clone();
        let mut apart = Vec::new();
        for _ in 0..count {
            let Some(proposal) = propose(&self.study, &memory, 1).pop() else { break };
            let Proposal { number, parameters, run_until } = proposal.clone();
            let event = Event::Proposed { trial: named(number), number, parameters, run_until };
            memory = fold(&self.study.spec, memory.clone(), &[StudyEvent { seq: memory.seq + 1, at: Time(0), event }]);
            apart.push(proposal);
        }
        assert_eq!(bytes(&together), bytes(&apart));
        together
    }

    fn end(&mut self, trial: TrialId) {
        let names: Vec<String> = self.study.spec.metrics.iter().map(|metric| metric.name.clone()).collect();
        let metrics = names.into_iter().map(|name| (name, MetricValue::new(self.value()))).collect();
        let resource = f64::from(1 + self.below(3));
        if self.below(10) > 0 {
            self.record(Event::Measured { trial, resource, metrics, elapsed_s: 1.0 });
        }
        let (state, reason) = match self.below(12) {
            0 => (TrialState::Failed, Some(Reason::NoMetric)),
            1 => (TrialState::Failed, Some(Reason::WorkerLost)),
            2 => (TrialState::Pruned, Some(Reason::EarlyStopped)),
            3 => (TrialState::Cancelled, Some(Reason::User)),
            4 => (TrialState::Cancelled, Some(Reason::NotStarted)),
            _ => (TrialState::Completed, None),
        };
        self.record(Event::Changed { trial, state, reason, attempt: 1 });
        match self.below(12) {
            0 => self.record(Event::Excluded { trial, excluded: true }),
            1 => {
                self.record(Event::Changed { trial, state: TrialState::Waiting, reason: None, attempt: 2 });
                self.record(Event::Changed { trial, state: TrialState::Completed, reason: None, attempt: 2 });
            }
            _ => {}
        }
    }

    fn value(&mut self) -> f64 {
        match self.below(8) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -f64::MAX,
            3 => 0.0,
            4 => -0.0,
            _ => f64::from(self.below(1000)) - 500.0,
        }
    }

    /// The memory is what the events make of it, however it was stored on the way.
    fn remembers(&self) {
        let whole = fold(&self.study.spec, ProposeMemory::default(), &self.events);
        assert_eq!(bytes(&whole), bytes(&self.memory));
        let stored: ProposeMemory = serde_json::from_slice(&bytes(&whole)).expect("a memory reads back");
        assert_eq!(stored, whole);
        let (first, last) = self.events.split_at(self.events.len() / 2);
        let half: ProposeMemory =
            serde_json::from_slice(&bytes(&fold(&self.study.spec, ProposeMemory::default(), first))).expect("a memory reads back");
        assert_eq!(bytes(&fold(&self.study.spec, half, last)), bytes(&whole));
        assert_eq!(bytes(&propose(&self.study, &whole, 3)), bytes(&propose(&self.study, &stored, 3)));
    }
}

fn bytes(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it is plain")
}
