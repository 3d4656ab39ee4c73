//! A simulated trial: how fast it really is, and how it trains between two events.

use std::f64::consts::TAU;

use elastune_core::model::cluster::Slot;
use elastune_core::model::ids::TrialId;
use elastune_core::model::space::Params;
use elastune_core::model::trial::{RateSample, TrialState, TrialView};
use elastune_core::model::width::Width;
use elastune_core::rng::Seed;
use elastune_core::time::{Span, Time};
use rand::Rng;

/// Below this much of a unit of resource nothing is left to do: what rounding to milliseconds leaves.
const DONE: f64 = 1e-9;
/// A rate counts if it was measured over this much of a unit: a worker times its steps since the last change.
const TELLING: f64 = 0.05;

/// What changes cost on the simulated machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// A trial does not train for this long when its ranks change or move.
    pub resize: Span,
    /// The same when only its part of a device changes.
    pub relabel: Span,
    /// The same at every start of an attempt.
    pub start: Span,
    /// Speed of each of 1, 2, .. trials that share a device; the last value holds for more.
    pub shared_speed: Vec<f64>,
}

/// Where trials' true speeds and scores come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Population {
    /// Seconds that one unit of resource takes at width 1: lognormal.
    pub median_s: f64,
    pub sigma: f64,
    /// Speed at width w is w to this power.
    pub alpha: f64,
}

/// One trial's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truth {
    pub seconds_per_unit: f64,
    pub alpha: f64,
    /// The metric that it reports at every unit; less is better.
    pub loss: f64,
}

impl Population {
    /// A function of seed and trial number alone: every policy meets the same trials.
    pub fn draw(&self, seed: Seed, number: u32) -> Truth {
        let mut rng = seed.child("trial", u64::from(number)).rng();
        // Box and Muller (1958); 1 - u is above 0.
        let (u, v): (f64, f64) = (rng.random(), rng.random());
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (TAU * v).cos();
        Truth { seconds_per_unit: self.median_s * (self.sigma * normal).exp(), alpha: self.alpha, loss: rng.random() }
    }
}

pub(crate) struct Trial {
    pub view: TrialView,
    pub truth: Truth,
    pub slots: Vec<Slot>,
    /// Resource done, parts of units included; `view.done` has whole ones.
    progress: f64,
    stalled_until: Time,
    /// Units of resource a second, now.
    speed: f64,
    /// Since when, and from which progress on, it has trained at this speed within the unit under way.
    steady: Option<(Time, f64)>,
}

impl Trial {
    pub fn new(id: TrialId, number: u32, parameters: Params, run_until: f64, costs: &Costs, truth: Truth) -> Trial {
        let view = TrialView {
            id,
            number,
            parameters,
            state: TrialState::Waiting,
            attempt: 1,
            run_until,
            done: 0.0,
            rates: Vec::new(),
            width: Width::ZERO,
            frozen: false,
            held: false,
            restart_cost: costs.resize,
            last_resize: None,
            results_since_resize: 0,
            checkpoint: None,
            alone: false,
        };
        Trial { view, truth, slots: Vec::new(), progress: 0.0, stalled_until: Time(0), speed: 0.0, steady: None }
    }

    /// Takes the slots that a plan gives; whether a running trial's ranks changed.
    pub fn place(&mut self, slots: Vec<Slot>, now: Time, costs: &Costs) -> bool {
        if slots == self.slots {
            return false;
        }
        let devices = |slots: &[Slot]| slots.iter().map(|slot| (slot.node, slot.device)).collect::<Vec<_>>();
        let (started, same) = (self.slots.is_empty(), devices(&self.slots) == devices(&slots));
        let stall = match (started, same) {
            (true, _) => costs.start,
            (false, true) => costs.relabel,
            (false, false) => costs.resize,
        };
        if slots.is_empty() {
            self.release();
        } else {
            self.view.width = match slots.as_slice() {
                [only] if only.parts > 1 => Width::Fraction(only.parts),
                slots => Width::Devices(slots.len() as u16),
            };
            self.view.state = if started { TrialState::Running } else { self.view.state };
            self.slots = slots;
            if stall > Span::ZERO {
                self.stalled_until = now + stall;
                (self.view.frozen, self.steady) = (true, None);
                self.view.state = if started { TrialState::Starting } else { TrialState::Resizing };
            }
        }
        if !started && stall > Span::ZERO && !self.slots.is_empty() {
            (self.view.last_resize, self.view.results_since_resize) = (Some(now), 0);
        }
        !started && !same && !self.slots.is_empty()
    }

    /// It saves and gives up its slots.
    pub fn release(&mut self) {
        if !self.slots.is_empty() {
            self.view.attempt += 1;
        }
        (self.slots, self.view.width) = (Vec::new(), Width::ZERO);
        (self.view.frozen, self.view.held, self.speed, self.steady) = (false, false, 0.0, None);
        self.view.state = TrialState::Waiting;
    }

    /// What it runs at from now on; `sharers`: trials on its device, itself included.
    pub fn set_speed(&mut self, sharers: usize, now: Time, costs: &Costs) {
        let relative = match self.slots.len() {
            0 => 0.0,
            1 => costs.shared_speed[(sharers.max(1) - 1).min(costs.shared_speed.len() - 1)],
            ranks => (ranks as f64).powf(self.truth.alpha),
        };
        let speed = relative / self.truth.seconds_per_unit;
        if speed != self.speed {
            self.speed = speed;
            self.steady = (!self.stalled(now)).then_some((now, self.progress));
        }
    }

    fn stalled(&self, now: Time) -> bool {
        self.stalled_until > now
    }

    fn trains(&self) -> bool {
        !self.slots.is_empty() && !self.view.held
    }

    fn next_stop(&self) -> f64 {
        (self.view.done + 1.0).min(self.view.run_until)
    }

    /// When something happens to it next.
    pub fn next_event(&self, now: Time) -> Option<Time> {
        if !self.trains() {
            return None;
        }
        if self.stalled(now) {
            return Some(self.stalled_until);
        }
        let seconds = ((self.next_stop() - self.progress) / self.speed).max(0.0);
        Some(now + Span((seconds * 1000.0).ceil() as i64))
    }

    /// Trains from `now` to `then`, which is no later than its next event. Whether it measured.
    pub fn advance(&mut self, now: Time, then: Time) -> bool {
        if !self.trains() {
            return false;
        }
        if self.stalled(now) {
            if !self.stalled(then) {
                self.view.frozen = false;
                self.view.state = TrialState::Running;
                self.steady = Some((then, self.progress));
            }
            return false;
        }
        self.progress += self.speed * (then - now).as_secs_f64();
        if self.progress < self.next_stop() - DONE {
            return false;
        }
        self.progress = self.next_stop();
        if let Some((since, from)) = self.steady.filter(|(_, from)| self.progress - from >= TELLING) {
            let seconds_per_unit = (then - since).as_secs_f64() / (self.progress - from);
            self.view.rates.push(RateSample { width: self.view.width, nodes: 1, seconds_per_unit });
        }
        self.view.done = self.progress;
        self.view.results_since_resize += 1;
        self.view.held = self.view.done >= self.view.run_until;
        self.steady = Some((then, self.progress));
        true
    }

    /// Goes on to a later milestone.
    pub fn promote(&mut self, run_until: f64, now: Time) {
        self.view.run_until = run_until;
        self.view.held = false;
        self.steady = (!self.slots.is_empty()).then_some((now, self.progress));
        if self.slots.is_empty() {
            self.view.state = TrialState::Waiting;
        }
    }
}
