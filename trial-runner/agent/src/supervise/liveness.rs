//! When a worker counts as dead though its process lives. Pure; called by `agent` twice a second for every worker.

use std::time::{Duration, Instant};

use elastune_api::worker::Activity;

use crate::cli::Limits;

/// What was heard of a worker, and when.
#[derive(Debug, Clone, Copy)]
pub struct Pulse {
    /// Before the first word: when it must have come.
    due: Instant,
    heard: Option<Instant>,
    counter: u64,
    /// When the counter or the activity last changed.
    moved: Instant,
    activity: Activity,
}

impl Pulse {
    /// Of a process that must say hello within `due_in`.
    pub fn new(now: Instant, due_in: Duration) -> Self {
        Pulse { due: now + due_in, heard: None, counter: 0, moved: now, activity: Activity::Starting }
    }

    /// It connected, or said anything else.
    pub fn hear(&mut self, now: Instant) {
        if self.heard.is_none() {
            self.moved = now;
        }
        self.heard = Some(now);
    }

    pub fn beat(&mut self, now: Instant, counter: u64, activity: Activity) {
        self.hear(now);
        if counter != self.counter || activity != self.activity {
            (self.counter, self.activity, self.moved) = (counter, activity, now);
        }
    }

    /// The agent itself was held up for `span`: nobody is to blame for the silence.
    pub fn excuse(&mut self, span: Duration) {
        self.due += span;
        self.moved += span;
        self.heard = self.heard.map(|heard| heard + span);
    }

    pub fn counter(&self) -> u64 {
        self.counter
    }

    pub fn is_starting(&self) -> bool {
        self.activity == Activity::Starting
    }

    /// For how long it has stood still in a collective.
    pub fn waits_in_collective(&self, now: Instant) -> Option<Duration> {
        (self.activity == Activity::InCollective).then(|| now.saturating_duration_since(self.moved))
    }

    pub fn connected_once(&self) -> bool {
        self.heard.is_some()
    }

    /// Why it must be killed, if so. Waiting in a collective is not held against it: whoever keeps it waiting stalls itself.
    pub fn verdict(&self, now: Instant, limits: &Limits) -> Option<String> {
        let Some(heard) = self.heard else {
            return (now > self.due).then(|| "it did not connect to its agent in time".to_owned());
        };
        let silent = now.saturating_duration_since(heard);
        if silent > limits.silence {
            return Some(format!("nothing was heard of it for {:.0} s", silent.as_secs_f64()));
        }
        let limit = match self.activity {
            Activity::Starting => limits.start,
            Activity::Computing | Activity::Saving => limits.stall,
            Activity::InCollective | Activity::Waiting => return None,
        };
        let still = now.saturating_duration_since(self.moved);
        (still > limit).then(|| format!("it made no progress for {:.0} s ({:?})", still.as_secs_f64(), self.activity).to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let seconds = Duration::from_secs;
        Limits {
            silence: seconds(10),
            stall: seconds(60),
            collective: seconds(25),
            start: seconds(120),
            grace: seconds(5),
            save: seconds(60),
            adopt: seconds(15),
        }
    }

    /// Beats every second up to `until_s` with a counter that stands still, then asks.
    fn stuck(activity: Activity, until_s: u64) -> Option<String> {
        let start = Instant::now();
        let mut pulse = Pulse::new(start, Duration::from_secs(120));
        for second in 0..=until_s {
            pulse.beat(start + Duration::from_secs(second), 7, activity);
        }
        pulse.verdict(start + Duration::from_secs(until_s), &limits())
    }

    #[test]
    fn silence_kills_whatever_it_does() {
        let start = Instant::now();
        for activity in [Activity::Starting, Activity::Computing, Activity::InCollective, Activity::Saving, Activity::Waiting] {
            let mut pulse = Pulse::new(start, Duration::from_secs(120));
            pulse.beat(start, 1, activity);
            assert_eq!(pulse.verdict(start + Duration::from_secs(10), &limits()), None);
            assert!(pulse.verdict(start + Duration::from_secs(11), &limits()).is_some(), "{activity:?}");
            pulse.excuse(Duration::from_secs(5));
            assert_eq!(pulse.verdict(start + Duration::from_secs(11), &limits()), None);
        }
    }

    #[test]
    fn a_counter_may_stand_still_only_where_others_are_waited_for() {
        assert_eq!(stuck(Activity::Computing, 60), None);
        assert!(stuck(Activity::Computing, 61).is_some());
        assert!(stuck(Activity::Saving, 61).is_some());
        assert_eq!(stuck(Activity::Starting, 120), None);
        assert!(stuck(Activity::Starting, 121).is_some());
        assert_eq!(stuck(Activity::InCollective, 10_000), None);
        assert_eq!(stuck(Activity::Waiting, 10_000), None);
    }

    #[test]
    fn who_never_connects_is_due() {
        let start = Instant::now();
        let pulse = Pulse::new(start, Duration::from_secs(15));
        assert_eq!(pulse.verdict(start + Duration::from_secs(15), &limits()), None);
        assert!(pulse.verdict(start + Duration::from_secs(16), &limits()).is_some());
    }
}
