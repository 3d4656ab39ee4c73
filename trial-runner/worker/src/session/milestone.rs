//! What happens beside the steps: measuring, telling, saving, and waiting at a milestone.

use std::time::{Duration, Instant};

use elastune_api::agent::ReportBody;
use elastune_api::worker::Activity;
use elastune_core::model::event::MetricValue;

use super::{Membership, Session};
use crate::control::Agreed;
use crate::exchange::{Broken, total};

/// Pause between two rounds of words at a milestone: how late an order is taken up there.
const ROUND: Duration = Duration::from_millis(25);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

impl Session {
    /// The epoch that has just ended, on the whole test set.
    pub(super) fn measure(&mut self, membership: &mut Membership) -> Result<(), Broken> {
        let start = Instant::now();
        let scores = membership.exchange.scores(&mut self.trainer)?;
        self.trainer.measured(total(&scores));
        self.rates.validated(start.elapsed().as_secs_f64());
        if membership.leads() {
            self.tell_measured();
            self.tell_progress(membership, true);
            if self.saver.is_idle() {
                let loss = self.objective();
                let snapshot = self.snapshot(false, loss);
                self.saver.begin(snapshot);
            }
        }
        Ok(())
    }

    /// The study's objective after the epoch just measured, less being better.
    fn objective(&self) -> Option<f64> {
        let name = self.config.launch.metrics.first().map_or("val_loss", String::as_str);
        let value = self.trainer.counters.metrics.get(name).and_then(MetricValue::number)?;
        Some(if name.ends_with("accuracy") { -value } else { value })
    }

    /// The last epoch measured, unless this process has told it. A new rank 0 tells it again, in case the one before could not.
    pub(super) fn tell_measured(&mut self) {
        let counters = &self.trainer.counters;
        if counters.measured > self.told_epoch {
            self.told_epoch = counters.measured;
            let (resource, metrics) = (counters.measured as f64, counters.metrics.clone());
            self.link.report(ReportBody::Measured { resource, metrics, elapsed_s: self.elapsed() });
        }
    }

    pub(super) fn tell_progress(&mut self, membership: &Membership, now: bool) {
        if !now && self.told.elapsed() < PROGRESS_EVERY {
            return;
        }
        self.told = Instant::now();
        let schedule = self.trainer.schedule;
        let step = self.trainer.counters.step;
        let rates = self.rates.sample(&membership.members, schedule.steps_per_epoch()).into_iter().collect();
        self.link.report(ReportBody::Progress { done: schedule.resource(step), step, rates });
    }

    pub(super) fn save_in_background(&mut self) {
        if let Some(durable) = self.saver.due() {
            let snapshot = self.snapshot(durable, None);
            self.saver.begin(snapshot);
        }
    }

    /// A round of words, so that more epochs, a finish or a switch reach all ranks alike. Before the first, rank 0 saves and
    /// tells that the milestone is reached.
    pub(super) fn hold(&mut self, membership: &mut Membership) -> Result<Agreed, Broken> {
        let step = self.trainer.counters.step;
        if membership.leads() && step > 0 && membership.milestone != Some(step) && self.saver.is_rested() {
            match self.save(true) {
                Ok(()) => {
                    membership.milestone = Some(step);
                    self.link.report(ReportBody::Milestone { resource: self.trainer.schedule.resource(step) });
                }
                // Tried again soon: without a checkpoint the milestone isn't reached.
                Err(error) => tracing::error!("{error:#}"),
            }
        }
        self.pulse.set(Activity::Waiting);
        self.rates.pause();
        self.link.wait(self.link.news(), ROUND);
        let agreed = membership.exchange.control(self.words())?;
        self.tell_committed(membership);
        self.pulse.set(Activity::Computing);
        Ok(agreed)
    }
}
