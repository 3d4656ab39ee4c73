//! A pretended agent: does what the node's desired state says and reports on it, as the real one does, an epoch a step.

use std::collections::{BTreeMap, BTreeSet};

use elastune_api::agent::{AgentReport, Desired, DesiredWorker, ReportAnswer, ReportBatch, ReportBody};
use elastune_core::model::event::MetricValue;
use elastune_core::model::group::{Exit, Finish, Phase};
use elastune_core::model::ids::{Incarnation, NodeId, TrialId};
use elastune_core::model::space::ParamValue;
use elastune_core::model::trial::{CheckpointRef, RateSample};
use elastune_core::model::width::Width;
use elastune_core::time::Time;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::db::desired;
use crate::reconcile::ingest;

pub struct Agent {
    pub node: NodeId,
    spool: Uuid,
    pub seq: u64,
    /// Processes that run: their generation.
    pub alive: BTreeMap<Incarnation, Process>,
    /// Started once, never again.
    started: BTreeSet<Incarnation>,
    /// Epochs done, by trial and attempt.
    done: BTreeMap<(TrialId, u32), f64>,
    /// How the next processes of a trial end instead of training.
    pub fate: BTreeMap<u32, Vec<Exit>>,
}

#[derive(Debug, Clone)]
pub struct Process {
    pub trial: TrialId,
    pub number: u32,
    pub attempt: u32,
    pub generation: u32,
}

/// What a trial measures: best near lr 0.7, better with each epoch.
pub fn accuracy(lr: f64, epoch: f64) -> f64 {
    (1.0 - (lr - 0.7).abs()) * (1.0 - 1.0 / (epoch + 1.0))
}

impl Agent {
    pub fn new(node: NodeId) -> Agent {
        Agent {
            node,
            spool: Uuid::now_v7(),
            seq: 0,
            alive: BTreeMap::new(),
            started: BTreeSet::new(),
            done: BTreeMap::new(),
            fate: BTreeMap::new(),
        }
    }

    pub async fn desired(&self, conn: &mut PgConnection) -> Desired {
        desired::get(conn, self.node).await.expect("desired state")
    }

    /// One look at the desired state, one epoch of training, one batch of reports.
    pub async fn step(&mut self, conn: &mut PgConnection) -> ReportAnswer {
        let desired = self.desired(conn).await;
        let mut batch = Vec::new();
        let wanted: BTreeSet<Incarnation> = desired.workers.iter().map(|worker| worker.incarnation).collect();
        let unwanted: Vec<Incarnation> = self.alive.keys().filter(|incarnation| !wanted.contains(incarnation)).copied().collect();
        for incarnation in unwanted {
            self.exit(incarnation, Exit::Clean, &mut batch);
        }
        let mut trained = BTreeSet::new();
        for worker in &desired.workers {
            self.worker(worker, &mut trained, &mut batch);
        }
        self.send(conn, batch).await
    }

    pub async fn send(&mut self, conn: &mut PgConnection, reports: Vec<AgentReport>) -> ReportAnswer {
        let batch = ReportBatch { spool: self.spool, reports };
        ingest::apply(conn, self.node, &batch).await.expect("reports are taken")
    }

    fn worker(&mut self, worker: &DesiredWorker, trained: &mut BTreeSet<TrialId>, batch: &mut Vec<AgentReport>) {
        let DesiredWorker { trial, attempt, incarnation, launch, control, .. } = worker;
        if self.started.insert(*incarnation) {
            let process = Process { trial: *trial, number: launch.trial_number, attempt: *attempt, generation: 0 };
            let start = launch.checkpoint.as_ref().map_or(0.0, |checkpoint| checkpoint.resource);
            self.done.entry((*trial, *attempt)).or_insert(start);
            self.alive.insert(*incarnation, process);
            self.report(*incarnation, ReportBody::Ready { address: address(self.seq) }, batch);
            return;
        }
        let Some(process) = self.alive.get(incarnation).cloned() else { return };
        if let Some(finish) = control.finish {
            if finish == Finish::Save {
                self.checkpoint(*incarnation, &process, batch);
            }
            return self.exit(*incarnation, Exit::Clean, batch);
        }
        let order = control.order.as_ref().filter(|order| order.phase == Phase::Armed && order.generation > process.generation);
        if let Some(order) = order {
            if order.members.iter().any(|member| member.incarnation == *incarnation) {
                self.alive.entry(*incarnation).and_modify(|process| process.generation = order.generation);
                let step = (self.done[&(*trial, *attempt)] * 100.0) as u64 + 1;
                let (generation, order) = (order.generation, order.order);
                let (members, address) = (Vec::new(), address(self.seq));
                self.report(*incarnation, ReportBody::Committed { generation, order, step, members, address }, batch);
            }
            return;
        }
        if control.generation == 0 {
            if process.generation > 0 {
                self.exit(*incarnation, Exit::Clean, batch); // It has left the group.
            }
            return;
        }
        if let Some(exit) = self.fate.get_mut(&process.number).and_then(Vec::pop) {
            return self.exit(*incarnation, exit, batch);
        }
        if trained.insert(*trial) {
            self.train(worker, &process, batch);
        }
    }

    fn train(&mut self, worker: &DesiredWorker, process: &Process, batch: &mut Vec<AgentReport>) {
        let done = self.done.entry((process.trial, process.attempt)).or_insert(0.0);
        let halted = *done >= worker.control.run_until;
        if !halted {
            *done += 1.0;
        }
        let resource = *done;
        let lr = match worker.launch.parameters.get("lr") {
            Some(ParamValue::Float(lr)) => *lr,
            other => panic!("no lr: {other:?}"),
        };
        let incarnation = worker.incarnation;
        if !halted {
            let metrics = BTreeMap::from([("val_accuracy".to_string(), MetricValue::new(accuracy(lr, resource)))]);
            let rate = RateSample { width: Width::ONE, nodes: 1, seconds_per_unit: 10.0 };
            self.report(incarnation, ReportBody::Progress { done: resource, step: resource as u64 * 100, rates: vec![rate] }, batch);
            self.report(incarnation, ReportBody::Measured { resource, metrics, elapsed_s: resource }, batch);
            self.checkpoint(incarnation, process, batch);
        }
        if resource >= worker.control.run_until {
            self.report(incarnation, ReportBody::Milestone { resource }, batch);
        }
    }

    fn checkpoint(&mut self, incarnation: Incarnation, process: &Process, batch: &mut Vec<AgentReport>) {
        let resource = self.done[&(process.trial, process.attempt)];
        let sha256 = hex::encode([process.number as u8, resource as u8]).repeat(16);
        let checkpoint = CheckpointRef { sha256, resource, step: resource as u64 * 100, bytes: 10 };
        self.report(incarnation, ReportBody::Checkpointed { checkpoint }, batch);
    }

    pub fn exit(&mut self, incarnation: Incarnation, exit: Exit, batch: &mut Vec<AgentReport>) {
        self.report(incarnation, ReportBody::Exited { exit }, batch);
        self.alive.remove(&incarnation);
    }

    /// Puts a report of a process into `batch`.
    pub fn report(&mut self, incarnation: Incarnation, body: ReportBody, batch: &mut Vec<AgentReport>) {
        let process = self.alive[&incarnation].clone();
        self.report_as(process.trial, process.attempt, incarnation, body, batch);
    }

    pub fn report_as(&mut self, trial: TrialId, attempt: u32, incarnation: Incarnation, body: ReportBody, batch: &mut Vec<AgentReport>) {
        self.seq += 1;
        batch.push(AgentReport { seq: self.seq, at: Time(0), trial, attempt, incarnation, body });
    }
}

fn address(seq: u64) -> std::net::SocketAddr {
    std::net::SocketAddr::from(([127, 0, 0, 1], 1 + (seq % 60_000) as u16))
}
