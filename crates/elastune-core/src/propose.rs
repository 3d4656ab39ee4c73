//! Which trials a study tries next. Called by the service's reconciler, by suggest for outside workers, and by the simulator.

use serde::{Deserialize, Serialize};

use crate::early_stopping::rungs::Rungs;
use crate::model::event::{Event, StudyEvent};
use crate::model::ids::StudyId;
use crate::model::space::Params;
use crate::model::study::StudySpec;
use crate::model::trial::{Reason, TrialState};
use crate::rng::Seed;
use crate::search::{Learned, Learner, Searcher, size};

/// What never changes while a study runs, but for the limits that a user may set.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyContext {
    pub id: StudyId,
    pub spec: StudySpec,
    /// `Seed(spec.algorithm.seed())`: the same document proposes the same trials.
    pub seed: Seed,
}

impl StudyContext {
    pub fn new(id: StudyId, spec: StudySpec) -> Self {
        let seed = Seed(spec.algorithm.seed());
        StudyContext { id, spec, seed }
    }
}

/// A fold over the study's events, up to `seq`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProposeMemory {
    /// Of the last event folded in; 0 before the first.
    pub seq: u64,
    /// The number that the next trial gets.
    pub next: u32,
    /// Trials that count against `max_trials`: all but those that were never started.
    pub spent: u32,
    /// What an algorithm that learns has learned; the others keep none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Box<Learned>>,
}

/// A trial to try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    pub number: u32,
    pub parameters: Params,
    /// The first rung's resource, or the whole; infinite for an outside worker's trial that nothing stops.
    #[serde(with = "crate::model::unbounded")]
    pub run_until: f64,
}

/// Takes the events after `memory.seq`, in order; earlier ones are skipped. Space and algorithm are the document's, which no user
/// may change.
pub fn fold(spec: &StudySpec, mut memory: ProposeMemory, events: &[StudyEvent]) -> ProposeMemory {
    let learner = Learner::of(spec);
    for event in events {
        if event.seq > memory.seq {
            memory.seq = event.seq;
            memory.count(&event.event);
            if let Some(learner) = &learner {
                learner.learn(memory.learned.get_or_insert_default(), &event.event);
            }
        }
    }
    memory
}

impl ProposeMemory {
    /// Takes what an event says of numbers and of the budget.
    pub(crate) fn count(&mut self, event: &Event) {
        match *event {
            Event::Proposed { number, .. } => {
                self.next = self.next.max(number.saturating_add(1));
                self.spent += 1;
            }
            Event::Unproposed { number, .. } => {
                self.next = self.next.min(number);
                self.spent = self.spent.saturating_sub(1);
            }
            Event::Changed { state: TrialState::Cancelled, reason: Some(Reason::NotStarted), .. } => {
                self.spent = self.spent.saturating_sub(1);
            }
            _ => {}
        }
    }
}

/// Trials that the study may still propose: what is left of `max_trials` and of the space. Its state and `max_parallel` are
/// for the caller to look at.
pub fn unproposed(spec: &StudySpec, memory: &ProposeMemory) -> u32 {
    let budget = spec.budget.max_trials.saturating_sub(memory.spent);
    match size(spec) {
        Some(size) => budget.min(size.saturating_sub(memory.next)),
        None => budget,
    }
}

/// The next trials, at most `count`, fewer where the budget or the space ends. A proposal is a function of (document, seed, number,
/// memory): asked one at a time (each folded in before the next) or together, before or after a crash, it is the same to the byte.
pub fn propose(study: &StudyContext, memory: &ProposeMemory, count: u32) -> Vec<Proposal> {
    let left = study.spec.budget.max_trials.saturating_sub(memory.spent);
    let count = count.min(left);
    if count == 0 {
        return Vec::new();
    }
    let run_until = first_resource(&study.spec);
    let mut searcher = Searcher::new(&study.spec, study.seed, memory.learned.as_deref());
    let proposal = |number| searcher.suggest(number).map(|parameters| Proposal { number, parameters, run_until });
    (memory.next..memory.next.saturating_add(count)).map_while(proposal).collect()
}

fn first_resource(spec: &StudySpec) -> f64 {
    Rungs::of(&spec.early_stopping).map_or(spec.max_resource(), |rungs| rungs.resources()[0])
}
