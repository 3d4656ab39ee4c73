//! A thread on which old groups and stores are dropped, so that a training loop doesn't wait for it (about 20 ms a group).
//! Called by whoever replaces groups.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

type Old = Box<dyn Send>;

/// Dropping it waits until everything it was given is gone.
#[derive(Debug)]
pub struct Reaper {
    /// None only while it is being dropped.
    thread: Option<(Sender<Old>, JoinHandle<()>)>,
}

impl Reaper {
    /// Errors: the system has no thread to give.
    pub fn start() -> std::io::Result<Reaper> {
        let (sender, receiver) = channel::<Old>();
        let thread = std::thread::Builder::new().name("c10d-reaper".into()).spawn(move || receiver.into_iter().for_each(drop))?;
        Ok(Reaper { thread: Some((sender, thread)) })
    }

    /// Drops it, later and elsewhere.
    pub fn reap(&self, old: impl Send + 'static) {
        if let Some((sender, _)) = &self.thread {
            // A dead reaper gives it back, and it is dropped here.
            let _ = sender.send(Box::new(old));
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
