//! The line to the node's agent: JSON lines over its Unix socket, connected again whenever it breaks. Called from everywhere in
//! the worker; two threads of its own do the reading and writing.

mod outbox;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use c10d::Aborter;
use elastune_api::agent::{Control, Exit, ReportBody};
use elastune_api::worker::{Activity, ToAgent, ToWorker};
use elastune_core::model::ids::Incarnation;

use crate::pulse::Pulse;
use outbox::Outbox;

const ALIVE_EVERY: Duration = Duration::from_millis(250);
const CONNECT_EVERY: Duration = Duration::from_millis(200);
/// A longer line is no message.
const LONGEST_LINE: u64 = 4 << 20;
/// How long an exit waits for the agent to acknowledge: while it answers, and while it is away.
const PARTING: Duration = Duration::from_secs(10);
const PARTING_AWAY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Link(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    socket: PathBuf,
    incarnation: Incarnation,
    pulse: Pulse,
    out: Mutex<Out>,
    /// Something to send, or something acknowledged.
    out_changed: Condvar,
    control: Mutex<(u64, Option<Control>)>,
    control_changed: Condvar,
    /// Rank in the group plus one, for log lines.
    rank: AtomicU32,
    /// Of the group that trains.
    aborter: Mutex<Option<Aborter>>,
}

#[derive(Debug)]
struct Out {
    outbox: Outbox,
    stream: Option<UnixStream>,
    /// When the agent was last connected.
    away_since: Instant,
}

/// A panicking thread leaves nothing half done in these.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Errors: no thread to be had. An agent that isn't there is waited for.
    pub fn start(socket: PathBuf, incarnation: Incarnation, pulse: Pulse) -> std::io::Result<Link> {
        let link = Link(Arc::new(Shared {
            socket,
            incarnation,
            pulse,
            out: Mutex::new(Out { outbox: Outbox::default(), stream: None, away_since: Instant::now() }),
            out_changed: Condvar::new(),
            control: Mutex::new((0, None)),
            control_changed: Condvar::new(),
            rank: AtomicU32::new(0),
            aborter: Mutex::new(None),
        }));
        let (reader, writer) = (link.clone(), link.clone());
        std::thread::Builder::new().name("agent-reader".into()).spawn(move || reader.read())?;
        std::thread::Builder::new().name("agent-writer".into()).spawn(move || writer.write())?;
        Ok(link)
    }

    pub fn report(&self, body: ReportBody) {
        lock(&self.0.out).outbox.report(body);
        self.0.out_changed.notify_all();
    }

    /// `message` gets the number of a durable checkpoint's message, or 0.
    pub fn saved(&self, durable: bool, message: impl FnOnce(u64) -> ToAgent) {
        let mut out = lock(&self.0.out);
        if durable {
            out.outbox.push(message);
        } else {
            out.outbox.push_unnumbered(message(0));
        }
        drop(out);
        self.0.out_changed.notify_all();
    }

    pub fn log(&self, line: String) {
        let source = match self.0.rank.load(Ordering::Relaxed) {
            0 => "joining".into(),
            rank => format!("rank {}", rank - 1),
        };
        self.report(ReportBody::Log { source, line });
    }

    /// Of the group that this rank is in now; `aborter` is None at width 1.
    pub fn set_group(&self, rank: u32, aborter: Option<Aborter>) {
        self.0.rank.store(rank + 1, Ordering::Relaxed);
        *lock(&self.0.aborter) = aborter;
    }

    /// The agent sees all ranks wait, and maybe late: not for a rank that has moved on since.
    fn abort(&self, counter: u64) {
        if self.0.pulse.read() != (counter, Activity::InCollective) {
            return;
        }
        if let Some(aborter) = lock(&self.0.aborter).take()
            && let Err(error) = aborter.abort()
        {
            self.log(format!("the group cannot be aborted: {error}"));
        }
    }

    /// What the agent wants, if it has said anything yet.
    pub fn control(&self) -> Option<Control> {
        lock(&self.0.control).1.clone()
    }

    /// Counts what the agent has said, so that a loop can tell news cheaply.
    pub fn news(&self) -> u64 {
        lock(&self.0.control).0
    }

    /// Returns when the agent has said more than `seen` things, or after `timeout`.
    pub fn wait(&self, seen: u64, timeout: Duration) {
        let unchanged = |control: &mut (u64, Option<Control>)| control.0 == seen;
        let _ = self.0.control_changed.wait_timeout_while(lock(&self.0.control), timeout, unchanged);
    }

    /// For how long there has been no agent.
    pub fn away(&self) -> Duration {
        let out = lock(&self.0.out);
        if out.stream.is_some() { Duration::ZERO } else { out.away_since.elapsed() }
    }

    /// Says why the process exits, once the agent has acknowledged what came before.
    pub fn part(&self, exit: Exit) {
        let start = Instant::now();
        let mut out = lock(&self.0.out);
        loop {
            let patience = if out.stream.is_some() { PARTING } else { PARTING_AWAY };
            if (out.outbox.is_empty() && out.stream.is_some()) || start.elapsed() >= patience {
                break;
            }
            out = self.0.out_changed.wait_timeout(out, ALIVE_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(stream) = &mut out.stream {
            let _ = send(stream, &ToAgent::Goodbye { exit });
        }
    }

    fn read(&self) {
        loop {
            if let Ok(stream) = UnixStream::connect(&self.0.socket) {
                let _ = self.serve(stream);
                let mut out = lock(&self.0.out);
                if out.stream.take().is_some() {
                    out.away_since = Instant::now();
                }
            }
            std::thread::sleep(CONNECT_EVERY);
        }
    }

    fn serve(&self, stream: UnixStream) -> std::io::Result<()> {
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        let mut writer = stream.try_clone()?;
        send(&mut writer, &ToAgent::Hello { incarnation: self.0.incarnation, pid: std::process::id() })?;
        let mut out = lock(&self.0.out);
        out.outbox.rewind();
        out.stream = Some(writer);
        drop(out);
        self.0.out_changed.notify_all();
        let mut lines = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            if lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            match serde_json::from_slice(&line) {
                Ok(ToWorker::Control { control }) => {
                    let mut held = lock(&self.0.control);
                    *held = (held.0 + 1, Some(control));
                    drop(held);
                    self.0.control_changed.notify_all();
                }
                Ok(ToWorker::Abort { counter }) => self.abort(counter),
                Ok(ToWorker::Ack { count }) => {
                    lock(&self.0.out).outbox.acknowledge(count);
                    self.0.out_changed.notify_all();
                }
                Err(error) => self.log(format!("the agent sent what is no message: {error}")),
            }
        }
    }

    fn write(&self) {
        let mut last_alive = Instant::now();
        let mut out = lock(&self.0.out);
        loop {
            let idle = |out: &mut Out| out.stream.is_none() || !out.outbox.has_unsent();
            let until_alive = ALIVE_EVERY.saturating_sub(last_alive.elapsed());
            out = self.0.out_changed.wait_timeout_while(out, until_alive, idle).unwrap_or_else(PoisonError::into_inner).0;
            let alive = (last_alive.elapsed() >= ALIVE_EVERY).then(|| self.0.pulse.read());
            if alive.is_some() {
                last_alive = Instant::now();
            }
            let Out { outbox, stream: Some(stream), .. } = &mut *out else { continue };
            let alive = alive.map(|(counter, activity)| ToAgent::Alive { counter, activity });
            let messages = alive.into_iter().chain(std::iter::from_fn(|| outbox.next()));
            if messages.map(|message| send(stream, &message)).any(|sent| sent.is_err()) {
                // The reader sees the end of the stream and connects again.
                let _ = stream.shutdown(std::net::Shutdown::Both);
                outbox.rewind();
                out.stream = None;
                out.away_since = Instant::now();
            }
        }
    }
}

fn send(stream: &mut UnixStream, message: &ToAgent) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}
