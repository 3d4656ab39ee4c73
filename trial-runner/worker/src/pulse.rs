//! Signs of life: a counter that moves with the work, and what kind of work. Written everywhere, read by `ipc` every 250 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use elastune_api::worker::Activity;

#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<Beat>);

#[derive(Debug, Default)]
struct Beat {
    counter: AtomicU64,
    activity: AtomicU8,
}

const ACTIVITIES: [Activity; 5] = [Activity::Starting, Activity::Computing, Activity::InCollective, Activity::Saving, Activity::Waiting];

impl Pulse {
    pub fn tick(&self) {
        self.0.counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn set(&self, activity: Activity) {
        let code = ACTIVITIES.iter().position(|known| *known == activity).unwrap_or_default();
        self.0.activity.store(code as u8, Ordering::Relaxed);
        self.tick();
    }

    pub fn read(&self) -> (u64, Activity) {
        let code = usize::from(self.0.activity.load(Ordering::Relaxed));
        (self.0.counter.load(Ordering::Relaxed), ACTIVITIES.get(code).copied().unwrap_or(Activity::Starting))
    }
}
