//! Jobs that come over time to one cluster, in rounds: Pollux's simulator (OSDI 2021, artefact), with this project's policies and
//! places. Called by the benchmarks.
//!
//! A round is a minute of training by measured step times, then a decision. Whatever changes a job's slots stalls it for 30 s.

mod job;
pub mod profile;

use std::collections::BTreeMap;

use elastune_core::model::cluster::{NodeView, Slot};
use elastune_core::model::ids::NodeId;
use elastune_core::model::study::DeviceKind;
use elastune_core::model::width::Width;
use elastune_core::place::{Want, place};
use elastune_core::rng::Seed;
use elastune_core::sched::{Capacity, Claim, PolicyConfig, PolicyMemory, allocate};

use crate::presets::gpu_nodes;
use job::{Cache, Job};
use profile::Profile;

/// Rounds after which a simulation is at fault: no policy lets a job wait for years.
const MOST_ROUNDS: usize = 1_000_000;

/// A job and when it comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    pub at_s: f64,
    /// Which profile.
    pub profile: usize,
    /// What its user asks for.
    pub replicas: u32,
    pub batch: u32,
    /// It keeps `batch` and one replica, whatever the policy.
    pub fixed_batch: bool,
}

/// What jobs claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Exactly the replicas requested.
    Request,
    /// Any number, at the speeds measured.
    Any,
    /// Parts of a node or whole nodes, at the concave hull of the speeds measured.
    Even,
    /// The same at the speeds that the job's own goodput model gives; the batch size changes with the width.
    Goodput,
}

/// Where replicas go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Places {
    /// Node after node, the emptiest first (the artefact's Tiresias and Optimus). `narrow_first`: in the order of width.
    Emptiest { narrow_first: bool },
    /// By `place`, as the service does.
    Packed,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    pub nodes: u32,
    pub devices_per_node: u16,
    pub round_s: f64,
    /// Cost of a change of slots, and what the policy believes it to be.
    pub stall_s: f64,
    pub stall_claimed_s: f64,
    pub policy: PolicyConfig,
    pub asks: Asks,
    pub places: Places,
    pub seed: Seed,
}

impl Setup {
    /// 16 nodes of 4 GPUs, a round a minute.
    pub fn pollux(policy: PolicyConfig, asks: Asks, places: Places) -> Setup {
        Setup { nodes: 16, devices_per_node: 4, round_s: 60.0, stall_s: 30.0, stall_claimed_s: 30.0, policy, asks, places, seed: Seed(0) }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Of each request, from its coming to its end.
    pub completions_s: Vec<f64>,
    pub makespan_s: f64,
    pub restarts: u32,
    /// Rounds with a decision.
    pub decisions: u32,
    /// Jobs that never ended: none, unless a policy is at fault.
    pub unfinished: usize,
}

impl Outcome {
    pub fn mean_s(&self) -> f64 {
        self.completions_s.iter().sum::<f64>() / self.completions_s.len().max(1) as f64
    }
}

/// Device-seconds that the requests need at width 1 and their batch size.
pub fn work_s(profiles: &[Profile], requests: &[Request], setup: &Setup) -> f64 {
    let mut cache = Cache::new();
    let even = Setup { asks: Asks::Any, ..setup.clone() };
    requests
        .iter()
        .map(|request| Job::new(&profiles[request.profile], *request, 0, Asks::Any).claim(&even, 0.0, &mut cache).remaining_s)
        .sum()
}

/// `requests` in the order of their coming.
pub fn simulate(profiles: &[Profile], requests: &[Request], setup: &Setup) -> Outcome {
    let nodes = gpu_nodes(setup.nodes, setup.devices_per_node, 1);
    let capacity = Capacity { devices: setup.nodes * u32::from(setup.devices_per_node), claims: u32::MAX };
    let (mut now_s, mut came) = (0.0, 0);
    let (mut live, mut cache, mut memory): (Vec<(usize, Job)>, Cache, _) = (Vec::new(), Cache::new(), PolicyMemory::None);
    let mut outcome = Outcome { completions_s: vec![0.0; requests.len()], ..Outcome::default() };
    for round in 0..MOST_ROUNDS {
        if came == requests.len() && live.is_empty() {
            return outcome;
        }
        live.iter_mut().for_each(|(_, job)| job.step(setup.round_s));
        now_s += setup.round_s;
        live.retain(|(at, job)| match job.completed_s {
            Some(end_s) => {
                outcome.completions_s[*at] = end_s - job.request.at_s;
                outcome.makespan_s = outcome.makespan_s.max(end_s);
                outcome.restarts += job.restarts.unwrap_or(0);
                false
            }
            None => true,
        });
        while let Some(request) = requests.get(came).filter(|request| request.at_s <= now_s) {
            let mut job = Job::new(&profiles[request.profile], *request, came, setup.asks);
            job.step(now_s - request.at_s);
            live.push((came, job));
            came += 1;
        }
        if live.is_empty() {
            continue;
        }
        let claims: Vec<Claim> = live.iter().map(|(_, job)| job.claim(setup, now_s, &mut cache)).collect();
        let allocation = allocate(&setup.policy, &claims, capacity, &memory, setup.seed.child("round", round as u64));
        memory = allocation.memory;
        outcome.decisions += 1;
        let widths: Vec<Width> = allocation.grants.iter().map(|grant| grant.width).collect();
        let slots = match setup.places {
            Places::Emptiest { narrow_first } => emptiest(&nodes, &claims, &widths, &live, narrow_first),
            Places::Packed => place(&wants(&claims, &widths, &live), &nodes, &[capacity.devices]),
        };
        for ((_, job), slots) in live.iter_mut().zip(slots) {
            if slots != job.slots {
                job.reallocate(slots, setup.stall_s);
            }
        }
    }
    outcome.unfinished = live.len() + requests.len() - came;
    outcome
}

fn wants(claims: &[Claim], widths: &[Width], live: &[(usize, Job)]) -> Vec<Want> {
    let want = |((claim, width), (_, job)): ((&Claim, &Width), &(usize, Job))| Want {
        study: 0,
        width: *width,
        widths: claim.speedup.iter().map(|(width, _)| *width).collect(),
        current: job.slots.clone(),
        fixed: false,
        kind: DeviceKind::Gpu,
        memory_bytes: 0,
    };
    claims.iter().zip(widths).zip(live).map(want).collect()
}

/// Jobs whose width stays keep their slots; the others get whole nodes' free devices, the emptiest node's first.
fn emptiest(nodes: &[NodeView], claims: &[Claim], widths: &[Width], live: &[(usize, Job)], narrow_first: bool) -> Vec<Vec<Slot>> {
    let mut free: BTreeMap<NodeId, Vec<u16>> =
        nodes.iter().map(|node| (node.id, node.devices.iter().rev().map(|device| device.index).collect())).collect();
    let mut slots: Vec<Vec<Slot>> = vec![Vec::new(); widths.len()];
    for (i, (_, job)) in live.iter().enumerate().filter(|(i, _)| widths[*i] == claims[*i].current) {
        slots[i].clone_from(&job.slots);
        for slot in &job.slots {
            if let Some(free) = free.get_mut(&slot.node) {
                free.retain(|device| *device != slot.device);
            }
        }
    }
    let mut order: Vec<usize> = (0..widths.len()).filter(|&i| slots[i].is_empty()).collect();
    if narrow_first {
        order.sort_by_key(|&i| (widths[i], i));
    }
    for i in order {
        while slots[i].len() < widths[i].ranks() as usize {
            // The first of the emptiest.
            let most = free.values().map(Vec::len).max().unwrap_or(0);
            let Some((node, devices)) = free.iter_mut().find(|(_, devices)| devices.len() == most && most > 0) else { break };
            let count = devices.len().min(widths[i].ranks() as usize - slots[i].len());
            let taken = devices.split_off(devices.len() - count);
            slots[i].extend(taken.into_iter().rev().map(|device| Slot { node: *node, device, parts: 1 }));
        }
    }
    slots
}
