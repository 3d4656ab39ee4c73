//! A supervised process: started again with a growing delay when it dies, ended by its pid when asked. Called by the stack.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::state::State;

/// How to run it.
pub struct Child {
    pub name: &'static str,
    pub log: PathBuf,
    /// The signal that makes it end in good order, and how long that may take.
    pub end: Signal,
    pub grace: Duration,
    pub command: Box<dyn Fn() -> Command + Send + Sync>,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A process that a task keeps running until `stop`; killed if this is dropped with its runtime.
#[derive(Debug)]
pub struct Supervised {
    name: &'static str,
    log: PathBuf,
    stop: watch::Sender<bool>,
    /// True once a process has died by itself.
    died: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

const MAX_LOG_BYTES: u64 = 16 << 20;
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(15);
/// A process that ran this long was well: the delay starts over.
const WELL: Duration = Duration::from_secs(30);

impl Supervised {
    pub fn start(child: Child, state: Arc<State>) -> Result<Supervised> {
        let process = spawn(&child, &state)?;
        let (stop, stopped) = watch::channel(false);
        let (tell_died, died) = watch::channel(false);
        let (name, log) = (child.name, child.log.clone());
        let task = tokio::spawn(supervise(child, state, process, stopped, tell_died));
        Ok(Supervised { name, log, stop, died, task })
    }

    /// Waits until `ready` holds. An error, with the end of its log, if the process dies first or `limit` passes.
    pub async fn until_ready(&self, limit: Duration, mut ready: impl AsyncFnMut() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready().await {
            if *self.died.borrow() {
                bail!("the {} ended instead of starting; the end of {}:\n  {}", self.name, self.log.display(), tail(&self.log));
            }
            if start.elapsed() > limit {
                bail!(
                    "the {} is not ready after {} s; the end of {}:\n  {}",
                    self.name,
                    limit.as_secs(),
                    self.log.display(),
                    tail(&self.log)
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    pub async fn stop(self) {
        // The receiver is gone only if the task is.
        let _ = self.stop.send(true);
        if let Err(error) = self.task.await {
            eprintln!("elastune: the {}'s supervisor failed: {error}", self.name);
        }
    }
}

fn spawn(child: &Child, state: &State) -> Result<tokio::process::Child> {
    if fs::metadata(&child.log).is_ok_and(|m| m.len() > MAX_LOG_BYTES) {
        fs::rename(&child.log, child.log.with_extension("log.1")).with_context(|| format!("cannot rotate {}", child.log.display()))?;
    }
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&child.log);
    let log = log.with_context(|| format!("cannot write {}", child.log.display()))?;
    let mut command = tokio::process::Command::from((child.command)());
    // A group of its own: Ctrl-C in a terminal reaches only us, and we end the processes in order.
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0).kill_on_drop(true);
    let process = command.spawn().with_context(|| format!("cannot start the {}", child.name))?;
    if let Some(pid) = process.id() {
        state.note_process(child.name, pid)?;
    }
    Ok(process)
}

async fn supervise(
    child: Child,
    state: Arc<State>,
    first: tokio::process::Child,
    mut stopped: watch::Receiver<bool>,
    died: watch::Sender<bool>,
) {
    let mut process = Some(first);
    let mut delay = FIRST_DELAY;
    loop {
        let started = Instant::now();
        if let Some(mut running) = process.take() {
            let status = tokio::select! {
                status = running.wait() => status,
                () = asked(&mut stopped) => return end(&child, running).await,
            };
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            died.send_replace(true);
            if started.elapsed() >= WELL {
                delay = FIRST_DELAY;
            }
            eprintln!(
                "elastune: the {} ended ({how}); starting it again in {:.1} s; its log: {}",
                child.name,
                delay.as_secs_f64(),
                child.log.display()
            );
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = asked(&mut stopped) => return,
        }
        delay = (delay * 2).min(LONGEST_DELAY);
        match spawn(&child, &state) {
            Ok(running) => process = Some(running),
            Err(error) => eprintln!("elastune: {error:#}; trying again in {:.1} s", delay.as_secs_f64()),
        }
    }
}

/// Done once `stop` is called, or its handle is dropped.
async fn asked(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

async fn end(child: &Child, mut running: tokio::process::Child) {
    let pid = running.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, child.end)
    {
        eprintln!("elastune: cannot signal the {}: {error}", child.name);
    }
    if tokio::time::timeout(child.grace, running.wait()).await.is_err() {
        eprintln!("elastune: the {} does not end; killing it", child.name);
        if let Err(error) = running.kill().await {
            eprintln!("elastune: cannot kill the {}: {error}", child.name);
        }
    }
}

/// The last lines of a log, for an error that must explain itself.
fn tail(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &'static str, log: PathBuf, script: String) -> Child {
        let command = move || {
            let mut command = Command::new("sh");
            command.arg("-c").arg(&script);
            command
        };
        Child { name, log, end: Signal::TERM, grace: Duration::from_secs(5), command: Box::new(command) }
    }

    #[tokio::test]
    async fn what_dies_is_started_again_and_ends_when_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = Arc::new(State::open(folder.path()).expect("it opens"));
        let count = folder.path().join("count");
        // Dies twice, then stays until it is told to end, and says so.
        let script = format!(
            "echo started >> {0}; [ $(wc -l < {0}) -gt 2 ] || exit 3; trap 'echo ended >> {0}; exit 0' TERM; while :; do sleep 0.05; done",
            count.display()
        );
        let child = Supervised::start(shell("tester", state.log("tester"), script), state.clone()).expect("it starts");
        let text = || fs::read_to_string(&count).unwrap_or_default();
        assert!(super::super::poll(Duration::from_secs(20), async || text().lines().count() == 3).await, "{}", text());
        // The trap is set right after the third line; stop works before and after it, but only after it is the end told.
        tokio::time::sleep(Duration::from_millis(200)).await;
        child.stop().await;
        assert_eq!(text(), "started\nstarted\nstarted\nended\n");
    }

    #[tokio::test]
    async fn one_that_cannot_start_says_why() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = Arc::new(State::open(folder.path()).expect("it opens"));
        let child = Supervised::start(shell("tester", state.log("tester"), "echo no such database; exit 1".into()), state.clone())
            .expect("it starts");
        let error = child.until_ready(Duration::from_secs(20), async || false).await.expect_err("it never is ready");
        assert!(error.to_string().contains("no such database"), "{error}");
        child.stop().await;
    }
}
