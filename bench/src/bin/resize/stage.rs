//! Plays service and agent for the workers of one trial: real processes, steered by the real `carry_out`. Called by `ours`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use elastune_api::agent::{Control, Exit, Launch};
use elastune_api::worker::{ToAgent, ToWorker, WorkerConfig, environment};
use elastune_core::elastic::{Attempt, Effect, Fact, Want, carry_out};
use elastune_core::model::cluster::Slot;
use elastune_core::model::group::Group;
use elastune_core::model::ids::{Incarnation, NodeId, TrialId};
use elastune_core::model::space::Params;
use elastune_core::model::study::{Reduction, Workload, WorkloadKind};
use elastune_core::rng::Seed;
use elastune_core::time::Time;

use crate::gaps::{Commit, Trace};

/// Nothing here takes longer on a machine that is fit to measure on.
const PATIENCE: Duration = Duration::from_secs(120);
/// As long as a service would hardly be faster.
const TURN: Duration = Duration::from_millis(20);

enum Heard {
    Connected(Incarnation, UnixStream),
    Said(Incarnation, ToAgent),
}

/// What is trained.
#[derive(Debug, Clone)]
pub struct Subject {
    pub worker: PathBuf,
    /// Holds `fashion-mnist`.
    pub data: PathBuf,
    pub batch_size: u32,
    /// Between a joiner's being ready and its saying so.
    pub delay: Duration,
}

pub struct Stage {
    subject: Subject,
    folder: PathBuf,
    want: Want,
    group: Option<Group>,
    processes: BTreeMap<Incarnation, Child>,
    streams: BTreeMap<Incarnation, UnixStream>,
    sent: BTreeMap<Incarnation, Control>,
    seen: BTreeSet<Incarnation>,
    facts: Vec<Fact>,
    goodbyes: BTreeMap<Incarnation, Exit>,
    heard: Receiver<Heard>,
    /// Rank 0's, which stays; made with it.
    trace: Option<Trace>,
    ended: bool,
}

fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
}

/// Of the monotonic clock, as in traces.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Stage {
    /// A trial without processes yet; `folder` is its own and empty.
    pub fn new(subject: Subject, folder: &Path) -> Result<Stage> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let listener = UnixListener::bind(folder.join("agent.sock")).context("the agent's socket")?;
        let (hears, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let hears = hears.clone();
                std::thread::spawn(move || attend(stream, &hears));
            }
        });
        Ok(Stage {
            subject,
            folder: folder.to_owned(),
            want: Want::Stop,
            group: None,
            processes: BTreeMap::new(),
            streams: BTreeMap::new(),
            sent: BTreeMap::new(),
            seen: BTreeSet::new(),
            facts: Vec::new(),
            goodbyes: BTreeMap::new(),
            heard,
            trace: None,
            ended: false,
        })
    }

    /// Gives the trial another width.
    pub fn ask(&mut self, width: u16) {
        let node = NodeId(uuid::Uuid::from_u128(1));
        let slots = (0..width).map(|device| Slot { node, device, parts: 1 }).collect();
        self.want = Want::Run { slots, run_until: 1e6, plan: 1 };
    }

    /// What rank 0 has committed.
    pub fn commits(&mut self) -> Result<&[Commit]> {
        self.trace.as_mut().map_or(Ok(&[]), Trace::refresh)
    }

    /// Turns until `done` of what rank 0 has committed.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&[Commit]) -> bool) -> Result<()> {
        let start = Instant::now();
        loop {
            self.turn()?;
            if done(self.commits()?) {
                return Ok(());
            }
            if self.ended || start.elapsed() > PATIENCE {
                bail!("{what} did not come about: exits {:?}, group {:?}", self.goodbyes, self.group);
            }
        }
    }

    /// Lets it train on for a while.
    pub fn rest(&mut self, span: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < span {
            self.turn()?;
        }
        Ok(())
    }

    /// Ends the trial and waits for its processes.
    pub fn stop(mut self) -> Result<()> {
        self.want = Want::Stop;
        let start = Instant::now();
        while !self.processes.is_empty() {
            self.turn()?;
            if start.elapsed() > PATIENCE {
                bail!("the workers don't stop");
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<()> {
        let mut heard = self.heard.recv_timeout(TURN).ok();
        while let Some(news) = heard {
            self.hear(news);
            heard = self.heard.try_recv().ok();
        }
        let mut gone = Vec::new();
        for (incarnation, child) in &mut self.processes {
            if child.try_wait()?.is_some() {
                gone.push(*incarnation);
            }
        }
        for incarnation in gone {
            self.processes.remove(&incarnation);
            let exit = self.goodbyes.get(&incarnation).cloned().unwrap_or(Exit::Lost { message: "it is gone".into() });
            self.facts.push(Fact::Exited { incarnation, exit });
        }
        self.steer()
    }

    fn hear(&mut self, heard: Heard) {
        let (incarnation, message) = match heard {
            Heard::Connected(incarnation, stream) => {
                self.sent.remove(&incarnation);
                self.streams.insert(incarnation, stream);
                return;
            }
            Heard::Said(incarnation, message) => (incarnation, message),
        };
        match message {
            ToAgent::Goodbye { exit } => {
                self.goodbyes.insert(incarnation, exit);
            }
            ToAgent::Saved { number, .. } if number > 0 => self.say(incarnation, &ToWorker::Ack { count: number }),
            ToAgent::Report { number, body } => {
                self.say(incarnation, &ToWorker::Ack { count: number });
                self.facts.extend(body.fact(incarnation));
            }
            _ => {}
        }
    }

    fn steer(&mut self) -> Result<()> {
        let attempt = Attempt { trial: trial(), attempt: 1 };
        let facts = std::mem::take(&mut self.facts);
        if self.ended {
            return Ok(());
        }
        let step = carry_out(attempt, self.group.take(), &self.want, &facts, now());
        self.ended = step.effects.iter().any(|effect| matches!(effect, Effect::Ended { .. }));
        self.group = step.group;
        let Some(group) = self.group.clone() else { return Ok(()) };
        let next = group.next.iter().flat_map(|next| &next.members);
        let wanted: BTreeMap<Incarnation, Slot> =
            group.members.iter().chain(next).chain(&group.leavers).map(|member| (member.incarnation, member.slot)).collect();
        for (incarnation, slot) in &wanted {
            if self.seen.insert(*incarnation) {
                self.start(*incarnation, *slot)?;
            }
        }
        for (incarnation, child) in &mut self.processes {
            if !wanted.contains_key(incarnation) {
                child.kill()?;
            }
        }
        let control = Control { generation: group.generation, order: group.next.clone(), run_until: group.run_until, finish: group.finish };
        for incarnation in self.streams.keys().copied().collect::<Vec<_>>() {
            if wanted.contains_key(&incarnation) && self.sent.get(&incarnation) != Some(&control) {
                self.say(incarnation, &ToWorker::Control { control: control.clone() });
                self.sent.insert(incarnation, control.clone());
            }
        }
        Ok(())
    }

    fn say(&mut self, incarnation: Incarnation, message: &ToWorker) {
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        if self.streams.get_mut(&incarnation).is_some_and(|stream| stream.write_all(&line).is_err()) {
            self.streams.remove(&incarnation);
        }
    }

    fn start(&mut self, incarnation: Incarnation, slot: Slot) -> Result<()> {
        let trace = self.folder.join(format!("trace-{incarnation}.csv"));
        let first = self.trace.is_none();
        if first {
            self.trace = Some(Trace::at(trace.clone()));
        }
        let config = WorkerConfig {
            trial: trial(),
            attempt: 1,
            incarnation,
            slot,
            launch: Launch {
                study_name: "resize".into(),
                trial_number: 0,
                workload: Workload {
                    kind: WorkloadKind::Builtin,
                    name: "fashion-mnist-cnn".into(),
                    batch_size: self.subject.batch_size,
                    shards: Workload::default_shards(),
                    reduction: Reduction::Exact,
                    epochs: None,
                },
                parameters: Params::new(),
                seed: Seed(1),
                metrics: vec!["val_accuracy".into()],
                max_resource: 1e6,
                checkpoint: None,
            },
            socket: self.folder.join("agent.sock"),
            folder: self.folder.join("trial"),
            data: self.subject.data.clone(),
            checkpoint: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            threads: 1,
            device: "cpu".into(),
            ready_delay_ms: if first { 0 } else { self.subject.delay.as_millis() as u64 },
            trace: Some(trace),
        };
        let path = self.folder.join(format!("{incarnation}.json"));
        std::fs::write(&path, serde_json::to_vec(&config)?)?;
        let log = std::fs::File::create(self.folder.join(format!("{incarnation}.log")))?;
        let child = Command::new(&self.subject.worker)
            .arg(&path)
            .envs(environment(1))
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} does not start: run `make build`", self.subject.worker.display()))?;
        self.processes.insert(incarnation, child);
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn trial() -> TrialId {
    TrialId(uuid::Uuid::from_u128(7))
}

fn attend(stream: UnixStream, hears: &Sender<Heard>) {
    let Ok(writer) = stream.try_clone() else { return };
    let mut writer = Some(writer);
    let mut name = None;
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str(&line) else { return };
        let heard = match (message, name) {
            (ToAgent::Hello { incarnation, .. }, _) => {
                name = Some(incarnation);
                writer.take().map(|writer| Heard::Connected(incarnation, writer))
            }
            (message, Some(name)) => Some(Heard::Said(name, message)),
            (_, None) => return,
        };
        if heard.is_some_and(|heard| hears.send(heard).is_err()) {
            return;
        }
    }
}
