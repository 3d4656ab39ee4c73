//! The node's state and its one place of action: what is desired, which processes there are, and what is done about the
//! difference. Driven by events and ticks from `agent::run`; never waits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use elastune_api::agent::{Desired, DesiredWorker, Exit, ReportBody};
use elastune_core::model::ids::{Incarnation, TrialId};
use tokio::sync::mpsc;

use super::folders::Folders;
use super::groups::{self, Groups};
use super::worker::{Stage, Worker};
use super::{Event, TICK, now};
use crate::cli::{Config, OnExit};
use crate::desired::{self, Action, Actual, Held};
use crate::devices::LocalDevice;
use crate::outbox::{Draft, Outbox};
use crate::service::Service;
use crate::state::{StateFolder, Trials};
use crate::supervise::exit;
use crate::supervise::incarnations::{Incarnations, Record};
use crate::supervise::launch::{self, Ground};
use crate::supervise::link::Said;
use crate::supervise::liveness::Pulse;
use crate::supervise::logs::Tail;
use crate::supervise::process::Process;

/// An exited worker's unread words are waited for this long.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// An exit that the service doesn't seem to know is reported again this often.
const REPEAT: Duration = Duration::from_secs(5);

pub(super) struct Node {
    config: Arc<Config>,
    state: Arc<StateFolder>,
    trials: Trials,
    service: Arc<Service>,
    outbox: Arc<Outbox>,
    devices: Arc<Vec<LocalDevice>>,
    incarnations: Incarnations,
    socket: Arc<PathBuf>,
    events: mpsc::Sender<Event>,
    workers: BTreeMap<Incarnation, Worker>,
    desired: Option<Desired>,
    held: Held,
    /// When exits were last reported.
    reported: BTreeMap<Incarnation, Instant>,
    folders: Folders,
    groups: Groups,
    closing: bool,
    last_tick: Instant,
}

impl Node {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        config: Arc<Config>,
        state: Arc<StateFolder>,
        service: Arc<Service>,
        outbox: Arc<Outbox>,
        devices: Vec<LocalDevice>,
        incarnations: Incarnations,
        socket: PathBuf,
        events: mpsc::Sender<Event>,
    ) -> Result<Self> {
        Ok(Node {
            held: state.held()?,
            trials: state.trials(),
            folders: Folders::new(state.trials()),
            config,
            state,
            service,
            outbox,
            devices: Arc::new(devices),
            incarnations,
            socket: Arc::new(socket),
            events,
            workers: BTreeMap::new(),
            desired: None,
            reported: BTreeMap::new(),
            groups: Groups::default(),
            closing: false,
            last_tick: Instant::now(),
        })
    }

    /// Takes over the processes that an earlier agent left. They must connect in time; those that are gone are reported.
    pub fn adopt(&mut self) {
        for mut record in self.incarnations.alive() {
            let process = match record.pid {
                Some(pid) => Process::find(pid),
                // The earlier agent died while it started it.
                None => Process::search(&self.trials.config(record.trial, record.incarnation)),
            };
            let incarnation = record.incarnation;
            let Some(process) = process else {
                let exit = Exit::Lost { message: "it ended while no agent was there".into() };
                self.report_end(record, exit);
                continue;
            };
            tracing::info!(%incarnation, pid = process.pid.pid, "takes over a worker");
            record.pid = Some(process.pid);
            if let Err(error) = self.incarnations.write(record.clone()) {
                tracing::error!("{error:#}");
            }
            self.watch(incarnation, process.clone(), None);
            let pulse = Pulse::new(Instant::now(), self.config.limits.adopt);
            let mut worker = Worker::new(record, Stage::Running(process), pulse);
            worker.tails = self.tails(&worker.record, true);
            self.workers.insert(incarnation, worker);
        }
    }

    pub fn alive(&self) -> Vec<Incarnation> {
        self.workers.iter().filter(|(_, worker)| worker.is_running()).map(|(incarnation, _)| *incarnation).collect()
    }

    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Desired(desired) => self.receive(*desired),
            Event::Said { incarnation, link, said } => self.hear(incarnation, link, said),
            Event::Prepared { incarnation, outcome } => self.prepared(incarnation, outcome),
            Event::Exited { incarnation, status } => {
                if let Some(worker) = self.workers.get_mut(&incarnation) {
                    worker.end.status = status;
                    worker.exited_at = Some(Instant::now());
                    let trial = worker.record.trial;
                    if worker.link.is_none() && worker.heard_out {
                        self.finish(incarnation);
                    }
                    self.form_alone(trial);
                }
            }
        }
    }

    /// Everything that depends on time.
    pub fn tick(&mut self) {
        let instant = Instant::now();
        let late = instant.duration_since(self.last_tick).saturating_sub(4 * TICK);
        self.last_tick = instant;
        let mut finished = Vec::new();
        let mut lines = Vec::new();
        for (incarnation, worker) in &mut self.workers {
            if !late.is_zero() {
                worker.pulse.excuse(late);
            }
            lines.extend(worker.log_lines(false).into_iter().map(|line| (worker.speaker(), line)));
            if let Some(exited) = worker.exited_at {
                if instant.duration_since(exited) > LAST_WORDS {
                    finished.push(*incarnation);
                }
                continue;
            }
            if !worker.is_running() {
                continue;
            }
            if worker.kill_at.is_some_and(|kill_at| instant > kill_at) {
                worker.kill(None);
            } else if let Some(why) = worker.pulse.verdict(instant, &self.config.limits)
                && worker.end.killed_for.is_none()
            {
                tracing::warn!(%incarnation, why, "kills a worker");
                worker.kill(Some(why));
            }
        }
        for (speaker, (source, line)) in lines {
            let number = 0;
            let (trial, attempt, incarnation) = (speaker.trial, speaker.attempt, speaker.incarnation);
            self.put(Draft { at: now(), trial, attempt, incarnation, number, body: ReportBody::Log { source, line }, upload: None });
        }
        for incarnation in finished {
            self.finish(incarnation);
        }
        for incarnation in groups::hanging(&self.workers, instant, self.config.limits.collective) {
            if self.workers.get_mut(&incarnation).is_some_and(Worker::abort) {
                tracing::warn!(%incarnation, "aborts its group: all ranks wait in a collective");
            }
        }
        self.reconcile();
        let wanted = self.desired.iter().flat_map(|desired| desired.workers.iter().map(|worker| worker.trial));
        let held = self.workers.values().map(|worker| worker.record.trial);
        self.folders.tidy(instant, wanted.chain(held), &self.outbox);
    }

    /// The agent was asked to end: workers train on or save and exit first.
    pub fn close(&mut self) {
        if std::mem::replace(&mut self.closing, true) || self.config.on_exit == OnExit::Keep {
            return;
        }
        tracing::info!(workers = self.workers.len(), "ends its workers");
        let incarnations: Vec<_> = self.workers.keys().copied().collect();
        for incarnation in incarnations {
            self.end(incarnation, self.config.limits.save);
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closing && (self.config.on_exit == OnExit::Keep || self.workers.is_empty())
    }

    fn receive(&mut self, desired: Desired) {
        let next = Held::of(&desired);
        if !self.held.admits(next) {
            tracing::info!(?next, held = ?self.held, "ignores a desired state that came late");
            return;
        }
        if next != self.held {
            if let Err(error) = self.state.keep_held(next) {
                tracing::error!("{error:#}");
            }
            self.held = next;
        }
        self.desired = Some(desired);
        self.reconcile();
    }

    fn reconcile(&mut self) {
        let Some(desired) = self.desired.as_ref().filter(|_| !self.closing) else { return };
        let started = |incarnation: &Incarnation| self.incarnations.get(*incarnation).is_some() && !self.workers.contains_key(incarnation);
        let actual = Actual {
            processes: self.workers.iter().map(|(incarnation, worker)| (*incarnation, worker.as_actual())).collect(),
            ended: desired.workers.iter().map(|worker| worker.incarnation).filter(started).collect(),
        };
        for action in desired::actions(desired, &actual) {
            match action {
                Action::Start(worker) => self.prepare(*worker),
                Action::Control { incarnation, control } => {
                    if let Some(worker) = self.workers.get_mut(&incarnation) {
                        worker.set_control(*control);
                    }
                }
                Action::End { incarnation, why } => {
                    let grace = match why {
                        desired::End::Unlisted => self.config.limits.grace,
                        desired::End::OldEpoch => self.config.limits.save,
                    };
                    tracing::info!(%incarnation, ?why, "ends a worker");
                    self.end(incarnation, grace);
                }
                Action::ReportExit(incarnation) => self.repeat_exit(incarnation),
            }
        }
    }

    fn prepare(&mut self, desired: DesiredWorker) {
        let incarnation = desired.incarnation;
        let record = Record {
            incarnation,
            trial: desired.trial,
            attempt: desired.attempt,
            slot: desired.slot,
            epoch: self.held.epoch,
            pid: None,
            exit: None,
            number: 0,
        };
        let Some(device) = self.devices.get(usize::from(desired.slot.device)).cloned() else {
            let message = format!("this node has no device {}; it has {}", desired.slot.device, self.devices.len());
            return self.report_end(record, Exit::Lost { message });
        };
        let (config, trials, service) = (self.config.clone(), self.trials.clone(), self.service.clone());
        let (socket, events, wanted) = (self.socket.clone(), self.events.clone(), desired.clone());
        let task = tokio::spawn(async move {
            let ground = Ground { config: &config, trials: &trials, service: &service, socket: &socket };
            let outcome = launch::prepare(ground, &wanted, &device).await;
            let _ = events.send(Event::Prepared { incarnation, outcome }).await;
        });
        let pulse = Pulse::new(Instant::now(), self.config.limits.start);
        let control = desired.control.clone();
        let mut worker = Worker::new(record, Stage::Preparing(task.abort_handle(), Box::new(desired)), pulse);
        worker.set_control(control);
        self.workers.insert(incarnation, worker);
    }

    fn prepared(&mut self, incarnation: Incarnation, outcome: Result<PathBuf>) {
        let Some(worker) = self.workers.get_mut(&incarnation) else { return };
        let Stage::Preparing(_, desired) = &worker.stage else { return };
        let mut record = worker.record.clone();
        // First of all, so that whatever happens from here on it is never started again.
        if let Err(error) = self.incarnations.write(record.clone()) {
            tracing::error!("{error:#}");
            self.workers.remove(&incarnation);
            return;
        }
        let spawned = outcome.and_then(|path| {
            let device = &self.devices[usize::from(desired.slot.device)];
            launch::spawn(&self.config, &self.trials, desired, device, &path)
        });
        let (process, child) = match spawned {
            Ok(spawned) => spawned,
            Err(error) => {
                self.workers.remove(&incarnation);
                return self.report_end(record, Exit::Lost { message: format!("it could not be started: {error:#}") });
            }
        };
        tracing::info!(%incarnation, trial = %record.trial, device = record.slot.device, pid = process.pid.pid, "started a worker");
        record.pid = Some(process.pid);
        worker.record = record.clone();
        worker.stage = Stage::Running(process.clone());
        worker.pulse = Pulse::new(Instant::now(), self.config.limits.start);
        let tails = self.tails(&record, false);
        if let Some(worker) = self.workers.get_mut(&incarnation) {
            worker.tails = tails;
        }
        if let Err(error) = self.incarnations.write(record) {
            tracing::error!("{error:#}");
        }
        self.watch(incarnation, process, Some(child));
    }

    fn hear(&mut self, incarnation: Incarnation, link: u64, said: Said) {
        let instant = Instant::now();
        let Some(worker) = self.workers.get_mut(&incarnation) else { return };
        match said {
            Said::Hello { peer, outgoing, accept } => {
                let is_it = matches!(&worker.stage, Stage::Running(process) if process.pid.pid == peer);
                if !is_it || accept.send(worker.speaker()).is_err() {
                    return;
                }
                worker.pulse.hear(instant);
                outgoing.send_modify(|outgoing| outgoing.control = worker.told());
                worker.link = Some((link, outgoing));
            }
            Said::Alive { counter, activity } => worker.pulse.beat(instant, counter, activity),
            Said::Happened { fact } => {
                let (trial, attempt) = (worker.record.trial, worker.record.attempt);
                self.groups.hear(trial, attempt, &fact);
                self.form_alone(trial);
            }
            Said::Goodbye { exit } => {
                worker.pulse.hear(instant);
                worker.end.goodbye = Some(exit);
            }
            Said::Closed => {
                if worker.link.as_ref().is_some_and(|(current, _)| *current == link) {
                    worker.link = None;
                    worker.heard_out = true;
                    if worker.exited_at.is_some() {
                        self.finish(incarnation);
                    }
                }
            }
        }
    }

    /// Survivors of a group that was this node's alone go on together, whether or not the service is there.
    fn form_alone(&mut self, trial: TrialId) {
        let Some(order) = self.groups.form(trial, &self.workers, now()) else { return };
        tracing::info!(%trial, width = order.members.len(), "forms the group anew");
        for member in &order.members {
            if let Some(worker) = self.workers.get_mut(&member.incarnation) {
                worker.set_own(order.clone());
            }
        }
    }

    /// Asks it to save and exit; it is killed after `grace`.
    fn end(&mut self, incarnation: Incarnation, grace: Duration) {
        let Some(worker) = self.workers.get_mut(&incarnation) else { return };
        match &worker.stage {
            Stage::Preparing(task, _) => {
                task.abort();
                self.workers.remove(&incarnation);
            }
            Stage::Running(process) => {
                process.terminate();
                worker.end.asked = true;
                worker.kill_at = Some(Instant::now() + grace);
            }
        }
    }

    /// It has exited and all that it said has been read.
    fn finish(&mut self, incarnation: Incarnation) {
        let Some(mut worker) = self.workers.remove(&incarnation) else { return };
        let speaker = worker.speaker();
        for (source, line) in worker.log_lines(true) {
            let (trial, attempt) = (speaker.trial, speaker.attempt);
            self.put(Draft { at: now(), trial, attempt, incarnation, number: 0, body: ReportBody::Log { source, line }, upload: None });
        }
        let exit = exit::classify(&worker.end);
        tracing::info!(%incarnation, ?exit, "a worker is gone");
        if exit == Exit::Clean {
            let (trial, trials) = (worker.record.trial, &self.trials);
            for path in [trials.config(trial, incarnation), trials.stdout(trial, incarnation), trials.stderr(trial, incarnation)] {
                let _ = std::fs::remove_file(path);
            }
        }
        self.report_end(worker.record, exit);
        self.reconcile();
    }

    /// Writes the end down and reports it. If the agent dies in between, the desired state that still lists it brings it up again.
    fn report_end(&mut self, record: Record, exit: Exit) {
        let record = Record { exit: Some(exit), ..record };
        if let Err(error) = self.incarnations.write(record.clone()) {
            tracing::error!("{error:#}");
        }
        self.put_exit(&record);
    }

    fn repeat_exit(&mut self, incarnation: Incarnation) {
        let lately = self.reported.get(&incarnation).is_some_and(|at| at.elapsed() < REPEAT);
        if lately || self.outbox.exit_waits(incarnation) {
            return;
        }
        if let Some(record) = self.incarnations.get(incarnation).cloned() {
            self.put_exit(&record);
        }
    }

    fn put_exit(&mut self, record: &Record) {
        self.reported.retain(|_, at| at.elapsed() < REPEAT);
        self.reported.insert(record.incarnation, Instant::now());
        let exit = record.exit.clone().unwrap_or(Exit::Lost { message: "its end was not seen".into() });
        let (trial, attempt, incarnation) = (record.trial, record.attempt, record.incarnation);
        self.put(Draft { at: now(), trial, attempt, incarnation, number: 0, body: ReportBody::Exited { exit }, upload: None });
    }

    fn put(&self, draft: Draft) {
        if let Err(error) = self.outbox.put(draft) {
            tracing::error!("cannot keep a report: {error:#}");
        }
    }

    fn tails(&self, record: &Record, from_end: bool) -> Vec<Tail> {
        [self.trials.stdout(record.trial, record.incarnation), self.trials.stderr(record.trial, record.incarnation)]
            .iter()
            .filter_map(|path| Tail::open(path, from_end).ok())
            .collect()
    }

    fn watch(&self, incarnation: Incarnation, process: Process, child: Option<std::process::Child>) {
        let events = self.events.clone();
        tokio::spawn(async move {
            let status = match process.wait(child).await {
                Ok(status) => status,
                Err(error) => {
                    tracing::error!(%incarnation, "cannot watch a worker, so it is killed: {error:#}");
                    while Process::find(process.pid).is_some() {
                        process.kill();
                        tokio::time::sleep(TICK).await;
                    }
                    None
                }
            };
            let _ = events.send(Event::Exited { incarnation, status }).await;
        });
    }
}
