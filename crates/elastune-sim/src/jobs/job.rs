//! A simulated job: what it does in a round, what it claims of the cluster, and what it has learnt of its own speed.

use std::collections::BTreeMap;

use elastune_core::model::cluster::Slot;
use elastune_core::model::ids::TrialId;
use elastune_core::model::width::Width;
use elastune_core::perf::concave;
use elastune_core::perf::goodput::{GoodputModel, gain};
use elastune_core::perf::iteration::{IterationModel, StepSample};
use elastune_core::sched::{Claim, ClaimId, Standing};
use elastune_core::time::Span;
use uuid::Uuid;

use super::profile::{Profile, packed};
use super::{Asks, Request, Setup};

pub(super) struct Job<'a> {
    pub profile: &'a Profile,
    pub request: Request,
    number: u64,
    adaptive: bool,
    pub slots: Vec<Slot>,
    /// Replicas on each node.
    placement: Vec<u32>,
    local: u32,
    accumulation: u32,
    now_s: f64,
    /// Of the last change of its slots, what is left of its cost.
    stall_s: f64,
    progress: f64,
    epoch: usize,
    pub attained_s: f64,
    pub restarts: Option<u32>,
    pub completed_s: Option<f64>,
    samples: Vec<StepSample>,
    model: Option<IterationModel>,
    noise: (f64, f64),
}

impl<'a> Job<'a> {
    pub fn new(profile: &'a Profile, request: Request, number: usize, asks: Asks) -> Job<'a> {
        Job {
            profile,
            number: number as u64,
            // Its batch is fixed where more would not train (the artefact's rule for this model).
            adaptive: asks == Asks::Goodput && !request.fixed_batch,
            now_s: request.at_s,
            request,
            slots: Vec::new(),
            placement: Vec::new(),
            local: 0,
            accumulation: 0,
            stall_s: 0.0,
            progress: 0.0,
            epoch: 0,
            attained_s: 0.0,
            restarts: None,
            completed_s: None,
            samples: Vec::new(),
            model: None,
            noise: (0.0, 0.0),
        }
    }

    fn replicas(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Takes other slots; the old ones count for nothing.
    pub fn reallocate(&mut self, slots: Vec<Slot>, stall_s: f64) {
        self.slots = slots;
        self.placement = counts(&self.slots);
        if self.slots.is_empty() {
            return;
        }
        self.choose_batch();
        self.stall_s = stall_s;
        self.restarts = Some(self.restarts.map_or(0, |restarts| restarts + 1));
    }

    fn choose_batch(&mut self) {
        let replicas = self.replicas();
        let profile = self.profile;
        match self.goodput().filter(|_| self.adaptive) {
            Some(model) => {
                let choice = model.best(self.placement.len() as u32, replicas);
                (self.local, self.accumulation) = (choice.local.max(profile.min_local), choice.accumulation);
                self.local = self.local.min(profile.max_batch / (replicas * (self.accumulation + 1))).max(1);
            }
            None => {
                let first = profile.initial_batch.max(profile.min_local * replicas);
                let batch = if self.adaptive { first } else { self.request.batch };
                (self.local, self.accumulation) = profile.split(batch, replicas, replicas == 1 && batch > profile.initial_batch);
            }
        }
    }

    fn goodput(&self) -> Option<GoodputModel> {
        let profile = self.profile;
        self.model.map(|iteration| GoodputModel {
            iteration,
            grad_sqr: self.noise.0,
            grad_var: self.noise.1,
            initial_batch: profile.initial_batch,
            max_batch: profile.max_batch,
            min_local: profile.min_local,
            max_local: profile.max_local,
        })
    }

    /// Trains for `seconds`: progress in epochs, each of which ends at a whole second.
    pub fn step(&mut self, mut seconds: f64) {
        if self.slots.is_empty() {
            self.now_s += seconds;
            return;
        }
        let devices = f64::from(self.replicas());
        let stall = self.stall_s.min(seconds);
        self.stall_s -= stall;
        self.pass(stall, devices);
        seconds -= stall;
        while seconds > 0.0 && self.completed_s.is_none() {
            let batch = self.replicas() * self.local * (self.accumulation + 1);
            let (step_s, sync_s) = self.profile.step_s(&self.placement, self.local);
            let (grad_sqr, grad_var) = self.profile.noise(batch, self.epoch);
            self.noise = (grad_sqr, grad_var);
            if self.adaptive {
                self.learn(step_s, sync_s);
            }
            let scale = f64::from(batch) / f64::from(self.profile.initial_batch);
            let rate = gain(grad_sqr, grad_var, scale) / (step_s + (step_s - sync_s) * f64::from(self.accumulation));
            let end = self.profile.progress_after(self.epoch + 1);
            if self.progress + rate * seconds < end {
                self.progress += rate * seconds;
                self.pass(seconds, devices);
                seconds = 0.0;
            } else {
                let spent = ((end - self.progress) / rate).round_ties_even();
                self.epoch += 1;
                self.progress = end;
                self.pass(spent, devices);
                seconds -= spent;
                if self.epoch >= self.profile.epochs {
                    self.completed_s = Some(self.now_s);
                    break;
                }
            }
            self.choose_batch();
        }
    }

    fn pass(&mut self, seconds: f64, devices: f64) {
        self.now_s += seconds;
        self.attained_s += seconds * devices;
    }

    fn learn(&mut self, step_s: f64, sync_s: f64) {
        let (nodes, replicas, local) = (self.placement.len() as u32, self.replicas(), self.local);
        if !self.samples.iter().any(|sample| (sample.nodes, sample.replicas, sample.local) == (nodes, replicas, local)) {
            self.samples.push(StepSample { nodes, replicas, local, grad_s: step_s - sync_s, step_s });
            self.model = Some(IterationModel::fit(&self.samples));
        }
    }

    /// What it claims at `now_s`; `cache` holds speed tables of profiles at batch sizes.
    pub fn claim(&self, setup: &Setup, now_s: f64, cache: &mut Cache) -> Claim {
        let current = Width::Devices(self.replicas() as u16);
        let per_node = u32::from(setup.devices_per_node);
        let (table, remaining_s) = match setup.asks {
            Asks::Goodput if self.adaptive => (self.learnt_table(per_node), f64::INFINITY),
            asks => {
                let table = cache
                    .entry((self.profile.name.clone(), self.request.batch))
                    .or_insert_with(|| measured_table(self.profile, self.request, per_node));
                let one_s = table.first().map_or(0.0, |(_, seconds)| *seconds);
                let left = self.iterations_left(asks);
                let speeds = table.iter().map(|(replicas, seconds)| (*replicas, one_s / seconds));
                let speeds: Vec<(u32, f64)> = match asks {
                    Asks::Request => speeds.filter(|(replicas, _)| *replicas == self.request.replicas).collect(),
                    Asks::Any => speeds.collect(),
                    _ => speeds.filter(|(replicas, _)| even(*replicas, per_node)).collect(),
                };
                (speeds, left * one_s)
            }
        };
        let widths: Vec<(Width, f64)> = table.into_iter().map(|(replicas, speed)| (Width::Devices(replicas as u16), speed)).collect();
        let speedup = if setup.asks == Asks::Even || setup.asks == Asks::Goodput { on_hull(widths) } else { widths };
        let age = now_s - self.request.at_s;
        let lost = f64::from(self.restarts.unwrap_or(0)) * setup.stall_s;
        Claim {
            id: ClaimId::Trial(TrialId(Uuid::from_u128(u128::from(self.number) + 1))),
            standing: match (self.slots.is_empty(), self.restarts) {
                (false, _) => Standing::Running,
                (true, Some(_)) => Standing::Resuming,
                (true, None) => Standing::New,
            },
            number: self.number,
            min: speedup.first().map_or(Width::ONE, |(width, _)| *width),
            max: speedup.last().map_or(Width::ONE, |(width, _)| *width),
            speedup,
            remaining_s,
            attained_s: self.attained_s,
            current,
            frozen: false,
            settled: true,
            restart_cost: Span::from_secs_f64(setup.stall_claimed_s),
            // The artefact's form: the job's age, and all its restarts.
            reallocation: (age - lost).max(0.0) / (age + setup.stall_s),
            weight: 1.0,
            priority: 0,
        }
    }

    fn iterations_left(&self, asks: Asks) -> f64 {
        let (profile, batch) = (self.profile, self.request.batch);
        let after = |epoch: usize| profile.iterations(batch, epoch);
        if asks == Asks::Any {
            // The artefact's estimate: in whole epochs, one ahead.
            return (after(profile.epochs) - after(self.epoch + 1)).max(1.0);
        }
        let (began, ends) = (profile.progress_after(self.epoch), profile.progress_after(self.epoch + 1));
        let part = if ends > began { (self.progress - began) / (ends - began) } else { 0.0 };
        after(profile.epochs) - after(self.epoch) - part * (after(self.epoch + 1) - after(self.epoch))
    }

    /// Speeds by its own model, at most twice as wide as it has been.
    fn learnt_table(&self, per_node: u32) -> Vec<(u32, f64)> {
        let Some(model) = self.goodput() else { return vec![(1, 1.0)] };
        let reach = 2 * self.samples.iter().map(|sample| sample.replicas).max().unwrap_or(1);
        let most = reach.min(64).min(self.profile.max_batch / self.profile.min_local).max(1);
        let one = model.best(1, 1).goodput;
        let widths = (1..=most).filter(|replicas| even(*replicas, per_node));
        widths.map(|replicas| (replicas, model.best(replicas.div_ceil(per_node), replicas).goodput / one)).collect()
    }
}

/// Seconds of a step by profile and batch, for 1, 2, .. replicas on as few nodes as hold them.
pub(super) type Cache = BTreeMap<(String, u32), Vec<(u32, f64)>>;

fn measured_table(profile: &Profile, request: Request, per_node: u32) -> Vec<(u32, f64)> {
    let most = if request.fixed_batch { 1 } else { (request.batch / profile.min_local).clamp(1, 64) };
    let seconds = |replicas: u32| {
        let (local, accumulation) = profile.split(request.batch, replicas, replicas == 1);
        let (step_s, sync_s) = profile.step_s(&packed(replicas, per_node), local);
        (replicas, step_s + (step_s - sync_s) * f64::from(accumulation))
    };
    (1..=most.max(request.replicas)).map(seconds).collect()
}

/// The widths at which the concave hull is a speed that was measured: between them it only promises one.
fn on_hull(table: Vec<(Width, f64)>) -> Vec<(Width, f64)> {
    let hull = concave(&table);
    table.into_iter().zip(hull).filter(|(point, lifted)| point.1 >= lifted.1 * (1.0 - 1e-9)).map(|(point, _)| point).collect()
}

/// Widths that fill nodes or fit one.
fn even(replicas: u32, per_node: u32) -> bool {
    replicas <= per_node || replicas.is_multiple_of(per_node)
}

/// Slots of each node, in the order in which nodes come first.
fn counts(slots: &[Slot]) -> Vec<u32> {
    let mut nodes: Vec<_> = Vec::new();
    let mut counts: Vec<u32> = Vec::new();
    for slot in slots {
        match nodes.iter().position(|node| *node == slot.node) {
            Some(at) => counts[at] += 1,
            None => {
                nodes.push(slot.node);
                counts.push(1);
            }
        }
    }
    counts
}
