//! A rank's life: outside any group until an order takes it into one, inside while it trains, out again when the group breaks.
//! Called by `main`, on the training thread.

mod inside;
mod milestone;
mod outside;
mod switch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use c10d::Reaper;
use elastune_api::agent::{Control, Exit, ReportBody};
use elastune_api::worker::{Activity, WorkerConfig};
use elastune_core::model::group::{Finish, Member, Order};

use crate::assembly::{Assembly, Place, Socket};
use crate::checkpoint::{self, Header, Subject};
use crate::exchange::Exchange;
use crate::ipc::Link;
use crate::ledger::Ledger;
use crate::pulse::Pulse;
use crate::rates::Rates;
use crate::saver::{Saver, Snapshot};
use crate::train::Trainer;
use crate::transfer::Introduction;

/// Without an agent a rank trains or waits this long, then saves and exits.
const ABANDONED: Duration = Duration::from_secs(60);
/// Outside a broken group it waits this long for an order, which may need a service that is away and three missed heartbeats.
const UNORDERED: Duration = Duration::from_secs(180);

/// The group that a rank is in.
#[derive(Debug)]
struct Membership {
    generation: u32,
    order: u32,
    members: Vec<Member>,
    exchange: Exchange,
    /// This rank has told of its first commit.
    committed: bool,
    /// Rank 0 has told of the milestone at this step.
    milestone: Option<u64>,
}

impl Membership {
    fn leads(&self) -> bool {
        self.exchange.rank == 0
    }
}

enum Next {
    In(Box<Membership>),
    Out,
    Exit(Exit),
}

#[derive(Debug)]
pub struct Session {
    config: WorkerConfig,
    subject: Subject,
    trainer: Trainer,
    link: Link,
    pulse: Pulse,
    saver: Saver,
    ledger: Ledger,
    rates: Rates,
    reaper: Reaper,
    /// Set by SIGTERM.
    told_to_go: Arc<AtomicBool>,
    /// Seeded, loaded, or received and verified.
    has_state: bool,
    /// The membership that this rank last committed a step on, by rank; 0 and empty: none.
    generation: u32,
    members: Vec<Member>,
    /// The highest order that it took up.
    tried: u32,
    /// The next group, building or built.
    pending: Option<Assembly>,
    /// The armed order that leaves this rank out.
    leaving: Option<Order>,
    socket: Option<Socket>,
    /// Seconds of training in this attempt, and since when they run on.
    elapsed_s: f64,
    clock: Instant,
    /// When progress was last told, and the last epoch whose measurement was.
    told: Instant,
    told_epoch: u64,
}

impl Session {
    /// Errors: no folder, socket or thread to be had.
    pub fn new(
        config: WorkerConfig,
        subject: Subject,
        trainer: Trainer,
        link: Link,
        pulse: Pulse,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Session> {
        let saver = Saver::start(&config, trainer.layout.clone(), link.clone(), pulse.clone())?;
        Ok(Session {
            ledger: Ledger::open(&config.folder, config.incarnation, config.trace.as_deref())?,
            socket: Some(Socket::bind(config.listen)?),
            reaper: Reaper::start()?,
            rates: Rates::default(),
            told_to_go: stop,
            has_state: false,
            generation: 0,
            members: Vec::new(),
            tried: 0,
            pending: None,
            leaving: None,
            elapsed_s: 0.0,
            clock: Instant::now(),
            told: Instant::now(),
            told_epoch: 0,
            config,
            subject,
            trainer,
            link,
            pulse,
            saver,
        })
    }

    /// Until there is a reason to exit.
    pub fn run(&mut self) -> Exit {
        match self.address() {
            Ok(address) => self.link.report(ReportBody::Ready { address }),
            Err(exit) => return exit,
        }
        let mut group = None;
        loop {
            let next = match group.take() {
                None => self.outside(),
                Some(membership) => self.inside(membership),
            };
            match next {
                Next::In(membership) => group = Some(membership),
                Next::Out => {}
                Next::Exit(exit) => return exit,
            }
        }
    }

    /// Of the socket bound ahead; binds the next one if the last is spent.
    fn address(&mut self) -> Result<std::net::SocketAddr, Exit> {
        if self.socket.is_none() {
            self.socket = Socket::bind(self.config.listen).ok();
        }
        match &self.socket {
            Some(socket) => Ok(socket.address),
            None => Err(Exit::Lost { message: format!("no socket can be bound at {}", self.config.listen) }),
        }
    }

    fn control(&self) -> Option<Control> {
        self.link.control()
    }

    fn introduction(&self) -> Introduction {
        Introduction { has_state: self.has_state, step: self.trainer.counters.step, measured: self.trainer.counters.measured }
    }

    /// Begins to build the order's group, beside whatever goes on.
    fn assemble(&mut self, order: &Order, outside: bool) -> std::io::Result<Assembly> {
        let place = Place {
            order: order.clone(),
            me: self.config.incarnation,
            listen: self.config.listen.ip(),
            outside,
            introduction: self.introduction(),
            values: self.trainer.state.flat.numel(),
            identity: self.subject.identity.clone(),
        };
        Assembly::start(place, &mut self.socket)
    }

    /// Forgets a group that is being built.
    fn drop_pending(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.reaper.reap(pending);
        }
    }

    /// Tells that the order failed here. Exit: no socket is left to name.
    fn order_failed(&mut self, generation: u32, order: u32, error: String) -> Option<Exit> {
        tracing::warn!("order {order} failed: {error}");
        match self.address() {
            Ok(address) => self.link.report(ReportBody::OrderFailed { generation, order, error, address }),
            Err(exit) => return Some(exit),
        }
        None
    }

    /// Why this rank should go whatever its group does: told so, or abandoned by its agent.
    fn must_go(&self) -> Option<&'static str> {
        if self.told_to_go.load(Ordering::Relaxed) {
            Some("it was told to exit")
        } else if self.link.away() >= ABANDONED {
            Some("its agent is gone")
        } else {
            None
        }
    }

    /// Saves what it has, and goes.
    fn go(&mut self, why: &str) -> Exit {
        tracing::info!("saves and exits: {why}");
        match self.save(true) {
            Ok(()) => Exit::Clean,
            Err(error) => Exit::Lost { message: format!("{error:#}") },
        }
    }

    fn snapshot(&mut self, durable: bool, loss: Option<f64>) -> Snapshot {
        let counters = self.trainer.counters.clone();
        let schedule = self.trainer.schedule;
        let header = Header {
            subject: self.subject.clone(),
            epoch: counters.step / schedule.steps_per_epoch(),
            cursor: schedule.batch(counters.step).start,
            counters,
        };
        let resource = schedule.resource(header.counters.step);
        Snapshot { header, resource, flat: self.trainer.state.flat.copy(), durable, loss }
    }

    /// Saves now; nothing if there is nothing yet.
    fn save(&mut self, durable: bool) -> anyhow::Result<()> {
        if !self.has_state {
            return Ok(());
        }
        self.pulse.set(Activity::Saving);
        let snapshot = self.snapshot(durable, None);
        let saved = self.saver.save(snapshot);
        self.pulse.set(Activity::Computing);
        saved
    }

    /// The state of the first start: the checkpoint's, or the seed's.
    fn begin(&mut self) -> Result<(), Exit> {
        match &self.config.checkpoint {
            None => self.trainer.state.seed(&self.trainer.layout, self.config.launch.seed),
            Some(path) => {
                let values = self.trainer.state.flat.numel();
                let (header, flat) = checkpoint::read(path, &self.subject, &self.trainer.layout, values)
                    .map_err(|error| Exit::Unusable { message: format!("{error:#}") })?;
                self.trainer.state.set_bytes(&flat);
                self.trainer.counters = header.counters;
                tracing::info!("resumes from step {}", self.trainer.counters.step);
            }
        }
        self.has_state = true;
        Ok(())
    }

    fn elapsed(&self) -> f64 {
        self.elapsed_s + self.clock.elapsed().as_secs_f64()
    }

    /// As asked: rank 0 saves for all.
    fn finish(&mut self, finish: Finish, leads: bool) -> Exit {
        if finish == Finish::Save && leads {
            return self.go("it was asked to save");
        }
        Exit::Clean
    }
}
