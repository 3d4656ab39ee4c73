//! One trial's processes and what steers them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use elastune_api::agent::{Control, Exit, Launch, ReportBody};
use elastune_api::worker::{ToAgent, ToWorker, WorkerConfig, environment};
use elastune_core::elastic::{Attempt, Effect, Fact, Survivors, Want, carry_out};
use elastune_core::model::cluster::Slot;
use elastune_core::model::event::MetricValue;
use elastune_core::model::group::{Group, Member, Order};
use elastune_core::model::ids::{Incarnation, NodeId};
use elastune_core::model::study::{Reduction, Workload, WorkloadKind};
use elastune_core::model::width::Width;
use elastune_core::rng::Seed;
use elastune_core::time::Time;

use super::Trial;

/// Nothing here takes longer, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(150);

enum Heard {
    Connected(Incarnation, UnixStream),
    Said(Incarnation, ToAgent),
}

struct Process {
    child: Child,
    goodbye: Option<Exit>,
}

pub struct World {
    pub folder: tempfile::TempDir,
    pub trial: Trial,
    pub want: Want,
    pub group: Option<Group>,
    /// Every effect of carry-out, in order.
    pub effects: Vec<Effect>,
    pub measured: BTreeMap<u64, BTreeMap<String, MetricValue>>,
    /// Durable checkpoints by step.
    pub saved: BTreeMap<u64, (String, PathBuf)>,
    pub milestones: Vec<f64>,
    pub committed: Vec<(u32, u64)>,
    pub broken: Vec<String>,
    pub exits: BTreeMap<Incarnation, Exit>,
    pub log: Vec<String>,
    /// Delays READY of processes started from now on.
    pub ready_delay_ms: u64,
    /// While set, the service hears and says nothing.
    pub deaf: bool,
    processes: BTreeMap<Incarnation, Process>,
    streams: BTreeMap<Incarnation, UnixStream>,
    sent: BTreeMap<Incarnation, Control>,
    /// Numbers of messages already taken.
    taken: BTreeMap<Incarnation, u64>,
    heard: Receiver<Heard>,
    hears: Sender<Heard>,
    facts: Vec<Fact>,
    seen: BTreeSet<Incarnation>,
    survivors: Survivors,
    /// Given by the agent, until the service knows.
    own: Option<Order>,
}

fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set").as_millis() as i64)
}

pub fn slots(devices: impl IntoIterator<Item = u16>) -> Vec<Slot> {
    devices.into_iter().map(|device| Slot { node: node(), device, parts: 1 }).collect()
}

fn node() -> NodeId {
    NodeId(uuid::Uuid::from_u128(1))
}

impl World {
    pub fn new(trial: Trial) -> World {
        let folder = tempfile::tempdir().expect("a folder");
        super::data::write(folder.path());
        let (hears, heard) = channel();
        let mut world = World {
            folder,
            trial,
            want: Want::Stop,
            group: None,
            effects: Vec::new(),
            measured: BTreeMap::new(),
            saved: BTreeMap::new(),
            milestones: Vec::new(),
            committed: Vec::new(),
            broken: Vec::new(),
            exits: BTreeMap::new(),
            log: Vec::new(),
            ready_delay_ms: 0,
            deaf: false,
            processes: BTreeMap::new(),
            streams: BTreeMap::new(),
            sent: BTreeMap::new(),
            taken: BTreeMap::new(),
            heard,
            hears,
            facts: Vec::new(),
            seen: BTreeSet::new(),
            survivors: Survivors::default(),
            own: None,
        };
        world.listen();
        world
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// Also after `hang_up`, as an agent does that was restarted.
    pub fn listen(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket()).expect("a socket");
        let hears = self.hears.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let hears = hears.clone();
                std::thread::spawn(move || attend(stream, &hears));
            }
        });
    }

    /// The agent dies: connections break, nobody listens.
    pub fn hang_up(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        for stream in std::mem::take(&mut self.streams).into_values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        self.sent.clear();
    }

    pub fn run(&mut self, devices: impl IntoIterator<Item = u16>, run_until: f64) {
        self.want = Want::Run { slots: slots(devices), run_until, plan: 1 };
    }

    pub fn width(&self) -> usize {
        self.group.as_ref().map_or(0, |group| group.members.len())
    }

    pub fn generation(&self) -> u32 {
        self.group.as_ref().map_or(0, |group| group.generation)
    }

    pub fn members(&self) -> Vec<Incarnation> {
        self.group.iter().flat_map(|group| &group.members).map(|member| member.incarnation).collect()
    }

    pub fn stable(&self) -> Vec<(Width, u64)> {
        let stable = |effect: &Effect| if let Effect::Stable { width, step, .. } = effect { Some((*width, *step)) } else { None };
        self.effects.iter().filter_map(stable).collect()
    }

    pub fn ended(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Ended { .. })) && self.processes.is_empty()
    }

    pub fn alive(&self) -> usize {
        self.processes.len()
    }

    pub fn pid(&self, incarnation: Incarnation) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.processes[&incarnation].child)
    }

    pub fn signal(&self, incarnation: Incarnation, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(incarnation), signal).expect("it is alive");
    }

    /// Turns until `done`; the panic says where it was instead.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&World) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < PATIENCE, "not in time: {what}; group {:?}; exits {:?}; log {:#?}", self.group, self.exits, self.log);
            self.turn();
        }
    }

    /// Trains an epoch or two more, to a milestone, and ends with a save.
    pub fn conclude(&mut self, devices: impl IntoIterator<Item = u16>) {
        let devices: Vec<u16> = devices.into_iter().collect();
        // Reports may lag behind the ranks: asked to halt where they have already been, they halt within an epoch and go on.
        for _ in 0..5 {
            let before = self.milestones.len();
            self.run(devices.iter().copied(), self.measured.len() as f64 + 2.0);
            self.until("the milestone", |world| world.milestones.len() > before);
            if self.saved.keys().any(|step| step.is_multiple_of(self.steps_per_epoch())) {
                break;
            }
        }
        self.save();
    }

    fn steps_per_epoch(&self) -> u64 {
        (super::data::TRAIN as u64).div_ceil(u64::from(self.trial.batch_size))
    }

    /// Every saved state and measured epoch must equal those of a calm run at width 1.
    pub fn equals_a_calm_run(&self) {
        let trial = Trial { checkpoint: None, ..self.trial.clone() };
        let per_epoch = self.steps_per_epoch();
        let mut calm = World::new(trial);
        // A save at a request lies within an epoch, where the calm run doesn't halt.
        let at_milestones: Vec<u64> = self.saved.keys().copied().filter(|step| step.is_multiple_of(per_epoch)).collect();
        assert!(!at_milestones.is_empty(), "nothing to compare");
        for step in &at_milestones {
            calm.run(0..1, (step / per_epoch) as f64);
            calm.until("the calm run's milestone", |world| world.saved.contains_key(step));
        }
        calm.save();
        for step in &at_milestones {
            assert_eq!(self.saved[step].0, calm.saved[step].0, "the state after step {step}; log {:#?}", self.log);
        }
        for (epoch, metrics) in &self.measured {
            assert_eq!(*metrics, calm.measured[epoch], "epoch {epoch}");
        }
    }

    /// Lines of all ledgers: the samples that the latest generation of each step trained, in order of steps.
    pub fn ledger(&self) -> BTreeMap<u64, (u32, u64, u64)> {
        let mut steps: BTreeMap<u64, (u32, u64, u64)> = BTreeMap::new();
        for entry in std::fs::read_dir(self.folder.path().join("trial")).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "csv") {
                continue;
            }
            for line in std::fs::read_to_string(&path).expect("a ledger").lines().skip(1) {
                let fields: Vec<u64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
                let entry = (fields[1] as u32, fields[2], fields[3]);
                let latest = steps.entry(fields[0]).or_insert(entry);
                *latest = (*latest).max(entry);
            }
        }
        steps
    }

    /// No step is missing from the ledgers, and each epoch trained each sample once.
    pub fn trained_exactly_once(&self) {
        let mut next = 0;
        for (number, (step, (_, first, last))) in self.ledger().into_iter().enumerate() {
            assert_eq!((step, first), (number as u64, next), "a step is missing, or samples are");
            next = last + 1;
        }
        assert!(next > 0);
    }

    pub fn is_alive(&self, incarnation: Incarnation) -> bool {
        self.processes.contains_key(&incarnation)
    }

    /// Lets the trial come to its end with a save.
    pub fn save(&mut self) {
        self.want = Want::Save;
        self.until("the end of the attempt", World::ended);
    }

    fn turn(&mut self) {
        if let Ok(heard) = self.heard.recv_timeout(Duration::from_millis(20)) {
            self.hear(heard);
            while let Ok(heard) = self.heard.try_recv() {
                self.hear(heard);
            }
        }
        let gone: Vec<Incarnation> =
            self.processes.iter_mut().filter_map(|(name, process)| process.child.try_wait().ok().flatten().map(|_| *name)).collect();
        for incarnation in gone {
            // What it still said lies in the channel before the end of its stream is seen.
            std::thread::sleep(Duration::from_millis(30));
            while let Ok(heard) = self.heard.try_recv() {
                self.hear(heard);
            }
            let process = self.processes.remove(&incarnation).expect("it was there");
            let exit = process.goodbye.unwrap_or(Exit::Lost { message: "it was killed".into() });
            self.exits.insert(incarnation, exit.clone());
            self.facts.push(Fact::Exited { incarnation, exit });
        }
        // As the node's agent does, whether or not a service is there.
        let alive = self.processes.keys().copied().collect();
        if let Some(order) = self.survivors.form(self.trial.id, 1, node(), &alive, now()) {
            self.own = Some(order);
        }
        if !self.deaf {
            self.steer();
        }
        self.pass_on();
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Connected(incarnation, stream) => {
                self.sent.remove(&incarnation);
                self.streams.insert(incarnation, stream);
            }
            Heard::Said(incarnation, message) => {
                let number = match &message {
                    ToAgent::Report { number, .. } | ToAgent::Saved { number, .. } => *number,
                    _ => 0,
                };
                let taken = self.taken.entry(incarnation).or_default();
                let news = number == 0 || number == *taken + 1;
                assert!(number <= *taken + 1, "message {number} after {taken}: one is missing");
                *taken = (*taken).max(number);
                if number > 0 {
                    let ack = ToWorker::Ack { count: *taken };
                    self.say(incarnation, &ack);
                }
                if news {
                    self.take(incarnation, message);
                }
            }
        }
    }

    fn take(&mut self, incarnation: Incarnation, message: ToAgent) {
        match message {
            ToAgent::Goodbye { exit } => {
                if let Some(process) = self.processes.get_mut(&incarnation) {
                    process.goodbye = Some(exit);
                }
            }
            ToAgent::Saved { path, sha256, step, durable: true, .. } => {
                self.saved.insert(step, (sha256, path));
            }
            ToAgent::Report { body, .. } => self.report(incarnation, body),
            _ => {}
        }
    }

    fn report(&mut self, incarnation: Incarnation, body: ReportBody) {
        if let Some(fact) = body.fact(incarnation) {
            self.survivors.hear(&fact);
            self.facts.push(fact);
        }
        match body {
            ReportBody::Committed { generation, step, .. } => self.committed.push((generation, step)),
            ReportBody::Broken { error, .. } => self.broken.push(error),
            ReportBody::OrderFailed { error, .. } => self.log.push(format!("order failed: {error}")),
            ReportBody::Measured { resource, metrics, .. } => {
                let before = self.measured.insert(resource as u64, metrics.clone());
                assert!(before.is_none_or(|before| before == metrics), "epoch {resource} was measured twice, differently");
            }
            ReportBody::Milestone { resource } => self.milestones.push(resource),
            ReportBody::Log { source, line } => self.log.push(format!("{source}: {line}")),
            _ => {}
        }
    }

    fn steer(&mut self) {
        let attempt = Attempt { trial: self.trial.id, attempt: 1 };
        let over = self.effects.iter().any(|effect| matches!(effect, Effect::Ended { .. }));
        let facts = std::mem::take(&mut self.facts);
        if over {
            return;
        }
        let step = carry_out(attempt, self.group.take(), &self.want, &facts, now());
        self.group = step.group;
        self.effects.extend(step.effects);
        let Some(group) = self.group.clone() else { return };
        let next = group.next.iter().flat_map(|next| &next.members);
        let wanted: BTreeMap<Incarnation, Member> =
            group.members.iter().chain(next).chain(&group.leavers).map(|member| (member.incarnation, member.clone())).collect();
        for (incarnation, member) in &wanted {
            if self.seen.insert(*incarnation) {
                self.start(*incarnation, member.slot);
            }
        }
        let surplus: Vec<Incarnation> = self.processes.keys().filter(|name| !wanted.contains_key(name)).copied().collect();
        for incarnation in surplus {
            if let Some(process) = self.processes.get_mut(&incarnation) {
                let _ = process.child.kill();
            }
        }
        let overtakes =
            |own: &mut Order| group.generation >= own.generation || group.next.as_ref().is_some_and(|next| next.order > own.order);
        self.own.take_if(overtakes);
    }

    fn pass_on(&mut self) {
        let Some(group) = self.group.clone() else { return };
        let connected: Vec<Incarnation> = self.streams.keys().copied().collect();
        for incarnation in connected {
            let Group { generation, run_until, finish, .. } = group;
            let known = group.members.iter().chain(group.next.iter().flat_map(|next| &next.members)).chain(&group.leavers);
            let control = Control { generation, order: self.own.clone().or(group.next.clone()), run_until, finish };
            let is_listed = known.into_iter().any(|member| member.incarnation == incarnation);
            if is_listed && self.sent.get(&incarnation) != Some(&control) {
                self.say(incarnation, &ToWorker::Control { control: control.clone() });
                self.sent.insert(incarnation, control);
            }
        }
    }

    /// As the agent does with a group whose ranks all wait in a collective, or seem to.
    pub fn abort(&mut self, incarnation: Incarnation, counter: u64) {
        self.say(incarnation, &ToWorker::Abort { counter });
    }

    fn say(&mut self, incarnation: Incarnation, message: &ToWorker) {
        let mut line = serde_json::to_vec(message).expect("it is plain");
        line.push(b'\n');
        if let Some(stream) = self.streams.get_mut(&incarnation)
            && stream.write_all(&line).is_err()
        {
            self.streams.remove(&incarnation);
            self.sent.remove(&incarnation);
        }
    }

    fn start(&mut self, incarnation: Incarnation, slot: Slot) {
        let folder = self.folder.path();
        let config = WorkerConfig {
            trial: self.trial.id,
            attempt: 1,
            incarnation,
            slot,
            launch: Launch {
                study_name: "exact".into(),
                trial_number: 0,
                workload: Workload {
                    kind: WorkloadKind::Builtin,
                    name: self.trial.workload.into(),
                    batch_size: self.trial.batch_size,
                    shards: self.trial.shards,
                    reduction: Reduction::Exact,
                    epochs: None,
                },
                parameters: self.trial.parameters.clone(),
                seed: Seed(11),
                metrics: vec!["val_accuracy".into()],
                max_resource: 1e6,
                checkpoint: None,
            },
            socket: self.socket(),
            folder: folder.join("trial"),
            data: folder.to_path_buf(),
            checkpoint: self.trial.checkpoint.clone(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            threads: 1,
            device: "cpu".into(),
            ready_delay_ms: self.ready_delay_ms,
            trace: None,
        };
        let path = folder.join(format!("{incarnation}.json"));
        std::fs::write(&path, serde_json::to_vec(&config).expect("it is plain")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_trial-worker"));
        command.arg(&path).envs(environment(1)).stdin(Stdio::null());
        self.processes.insert(incarnation, Process { child: command.spawn().expect("the worker starts"), goodbye: None });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

fn attend(stream: UnixStream, hears: &Sender<Heard>) {
    let Ok(writer) = stream.try_clone() else { return };
    let mut writer = Some(writer);
    let mut name = None;
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let message: ToAgent = serde_json::from_str(&line).expect("workers speak the protocol");
        let heard = match (message, name) {
            (ToAgent::Hello { incarnation, .. }, _) => {
                name = Some(incarnation);
                writer.take().map(|writer| Heard::Connected(incarnation, writer))
            }
            (message, Some(name)) => Some(Heard::Said(name, message)),
            (message, None) => panic!("{message:?} before Hello"),
        };
        if heard.is_some_and(|heard| hears.send(heard).is_err()) {
            return;
        }
    }
}
