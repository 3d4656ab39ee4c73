//! How long an epoch takes at the current width: a moving average of committed steps, switches left out. Called by the session.

use std::time::Instant;

use elastune_core::model::group::Member;
use elastune_core::model::trial::RateSample;
use elastune_core::model::width::Width;

/// Weight of the newest step.
const NEW: f64 = 0.1;

#[derive(Debug, Default)]
pub struct Rates {
    last: Option<Instant>,
    step_s: Option<f64>,
    validation_s: f64,
}

impl Rates {
    /// A committed step. The first after `pause` only starts the clock.
    pub fn step(&mut self) {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            let took = (now - last).as_secs_f64();
            self.step_s = Some(self.step_s.map_or(took, |average| average + NEW * (took - average)));
        }
    }

    /// What comes next is no part of a step.
    pub fn pause(&mut self) {
        self.last = None;
    }

    pub fn validated(&mut self, seconds: f64) {
        self.validation_s = seconds;
        self.pause();
    }

    /// Another group: the old speed says nothing.
    pub fn restart(&mut self) {
        *self = Rates::default();
    }

    pub fn sample(&self, members: &[Member], steps_per_epoch: u64) -> Option<RateSample> {
        let width = match members {
            [only] if only.slot.parts > 1 => Width::Fraction(only.slot.parts),
            members => Width::Devices(members.len() as u16),
        };
        let mut nodes: Vec<_> = members.iter().map(|member| member.slot.node).collect();
        nodes.sort();
        nodes.dedup();
        let seconds_per_unit = self.step_s? * steps_per_epoch as f64 + self.validation_s;
        Some(RateSample { width, nodes: nodes.len() as u16, seconds_per_unit })
    }
}
