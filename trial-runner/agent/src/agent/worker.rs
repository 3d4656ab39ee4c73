//! One worker process as the node sees it, from the wish to start it to the report of its end. Used by `node`.

use std::time::Instant;

use elastune_api::agent::{Control, DesiredWorker};
use elastune_core::model::group::Order;
use elastune_core::model::ids::Incarnation;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::desired;
use crate::supervise::exit::End;
use crate::supervise::incarnations::Record;
use crate::supervise::link::{Outgoing, Speaker};
use crate::supervise::liveness::Pulse;
use crate::supervise::logs::Tail;
use crate::supervise::process::Process;

#[derive(Debug)]
pub(super) enum Stage {
    /// Its checkpoint and configuration are being made ready.
    Preparing(AbortHandle, Box<DesiredWorker>),
    Running(Process),
}

#[derive(Debug)]
pub(super) struct Worker {
    pub record: Record,
    pub stage: Stage,
    /// What the service wants of it.
    pub control: Option<Control>,
    /// Its group as this node forms it anew, until the service knows.
    pub own: Option<Order>,
    pub rank: Option<usize>,
    pub pulse: Pulse,
    /// The newest connection.
    pub link: Option<(u64, watch::Sender<Outgoing>)>,
    /// A connection has ended: what it said has been read.
    pub heard_out: bool,
    pub end: End,
    /// It was asked to end; when it is killed.
    pub kill_at: Option<Instant>,
    pub exited_at: Option<Instant>,
    pub tails: Vec<Tail>,
}

impl Worker {
    pub fn new(record: Record, stage: Stage, pulse: Pulse) -> Self {
        Worker {
            record,
            stage,
            control: None,
            own: None,
            rank: None,
            pulse,
            link: None,
            heard_out: false,
            end: End::default(),
            kill_at: None,
            exited_at: None,
            tails: Vec::new(),
        }
    }

    pub fn speaker(&self) -> Speaker {
        Speaker { trial: self.record.trial, attempt: self.record.attempt, incarnation: self.record.incarnation }
    }

    pub fn as_actual(&self) -> desired::Process {
        desired::Process {
            slot: self.record.slot,
            epoch: self.record.epoch,
            ending: self.kill_at.is_some() || self.end.killed_for.is_some() || self.exited_at.is_some(),
            control: self.control.clone(),
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_)) && self.exited_at.is_none()
    }

    /// Keeps it and passes it on, now or when the worker connects.
    pub fn set_control(&mut self, control: Control) {
        let overtakes =
            |own: &mut Order| control.generation >= own.generation || control.order.as_ref().is_some_and(|order| order.order > own.order);
        self.own.take_if(overtakes);
        self.control = Some(control);
        self.pass_on();
    }

    /// Takes part in a group that this node forms.
    pub fn set_own(&mut self, order: Order) {
        self.own = Some(order);
        self.pass_on();
    }

    fn pass_on(&mut self) {
        let control = self.told();
        if let Some(order) = control.as_ref().and_then(|control| control.order.as_ref()) {
            let is_this = |member: Incarnation| member == self.record.incarnation;
            self.rank = order.members.iter().position(|member| is_this(member.incarnation)).or(self.rank);
        }
        if let Some((_, outgoing)) = &self.link {
            outgoing.send_modify(|outgoing| outgoing.control = control);
        }
    }

    /// What the worker hears.
    pub fn told(&self) -> Option<Control> {
        let own = |control: Control| Control { order: self.own.clone().or(control.order), ..control };
        self.control.clone().map(own)
    }

    /// Trains, or could.
    pub fn serves(&self) -> bool {
        self.is_running() && !self.as_actual().ending
    }

    /// Ends the collective in which it hangs; whether that is news to it.
    pub fn abort(&mut self) -> bool {
        let abort = Some(self.pulse.counter());
        let set = |outgoing: &mut Outgoing| std::mem::replace(&mut outgoing.abort, abort) != abort;
        self.link.as_ref().is_some_and(|(_, outgoing)| outgoing.send_if_modified(set))
    }

    pub fn kill(&mut self, why: Option<String>) {
        if let Stage::Running(process) = &self.stage {
            process.kill();
        }
        if self.end.killed_for.is_none() {
            self.end.killed_for = why;
        }
    }

    /// Lines written since the last call, each with who wrote it.
    pub fn log_lines(&mut self, last: bool) -> Vec<(String, String)> {
        let source = self.rank.map_or_else(|| "worker".to_owned(), |rank| format!("rank {rank}"));
        self.tails.iter_mut().flat_map(|tail| tail.read(last)).map(|line| (source.clone(), line)).collect()
    }
}
