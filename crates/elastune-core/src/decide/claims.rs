//! Turns a snapshot into claims: what each live trial could use, what it holds, and why some may hold nothing.

use std::collections::BTreeMap;

use super::DecideMemory;
use crate::model::cluster::{Device, NodeState, NodeView, Slot};
use crate::model::ids::{NodeId, TrialId};
use crate::model::plan::PlanEntry;
use crate::model::snapshot::{Snapshot, StudyView};
use crate::model::study::{DeviceKind, EarlyStopping, PolicyName, StudySpec};
use crate::model::trial::{TrialState, TrialView};
use crate::model::width::{Width, legal_widths};
use crate::perf::{SpeedModel, TrialSpeed};
use crate::sched::fluid::{self, GAIN, SETTLED_RESULTS};
use crate::sched::{Claim, ClaimId, Grant, Standing, UNITS_PER_DEVICE, Why, units};
use crate::time::{Span, Time};

/// No device is cut into more parts than this.
const MOST_SHARERS: u8 = 4;
/// A width may be at most this many times the largest that the study has measured.
const WIDENING: u32 = 2;

/// A trial that may hold slots, or one still to be proposed (`trial` is None).
pub(super) struct Candidate<'a> {
    pub trial: Option<&'a TrialView>,
    pub claim: Claim,
    /// Slots of the current plan that it can keep.
    pub kept: Vec<Slot>,
    /// Twelfths of devices of ready nodes among those.
    pub ready_units: u32,
    /// All its slots are on nodes that are silent: without another place it keeps them.
    pub stranded: bool,
    /// On a cordoned node, where it keeps what it has and can get nothing more.
    pub cordoned: bool,
    /// Slots of the current plan.
    pub before: Vec<Slot>,
    pub grant: Grant,
    /// What it gets in the end.
    pub slots: Vec<Slot>,
}

/// Why a live trial holds nothing and asks for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    StudyInactive,
    OutsideWorker,
    Stopping,
    Saving,
    Lost,
    NoDevice,
}

pub(super) struct StudyClaims<'a> {
    pub view: &'a StudyView,
    pub kind: DeviceKind,
    /// Devices of ready nodes that could serve it.
    pub devices: u32,
    pub share: u32,
    /// Trials that may run at once.
    pub parallel: u32,
    pub candidates: Vec<Candidate<'a>>,
    pub idle: Vec<(&'a TrialView, Idle)>,
}

impl StudyClaims<'_> {
    /// What frozen trials hold, and how much of that is on ready nodes.
    pub fn frozen_devices(&self) -> (u32, u32) {
        let frozen = || self.candidates.iter().filter(|candidate| candidate.claim.frozen);
        let all: u32 = frozen().map(|candidate| units(candidate.claim.current)).sum();
        let ready: u32 = frozen().map(|candidate| candidate.ready_units).sum();
        (all.div_ceil(UNITS_PER_DEVICE), ready.div_ceil(UNITS_PER_DEVICE))
    }

    /// The study against others: what its running trials need at least (frozen ones keep theirs), and what all could use.
    pub fn claim(&self, number: u64) -> Claim {
        let open = || self.candidates.iter().map(|candidate| &candidate.claim).filter(|claim| !claim.frozen);
        let shares = self.view.spec.scheduling.policy == PolicyName::Fluid;
        let least = |claim: &Claim| units(claim.current.min(if shares { fluid::least(claim, u32::MAX) } else { claim.min }));
        let running: u32 = open().filter(|claim| claim.standing == Standing::Running).map(least).sum();
        let mut wishes: Vec<u32> = open().map(|claim| claim.max.max(claim.min).ranks()).collect();
        wishes.sort_unstable_by_key(|wish| std::cmp::Reverse(*wish));
        let fixed = self.candidates.len() - wishes.len();
        let most: u32 = wishes.into_iter().take((self.parallel as usize).saturating_sub(fixed)).sum();
        let frozen_units: u32 = self.candidates.iter().filter(|at| at.claim.frozen).map(|at| at.ready_units).sum();
        let frozen = frozen_units.div_ceil(UNITS_PER_DEVICE);
        let devices = |count: u32| Width::Devices(count.min(u32::from(u16::MAX)) as u16);
        let scheduling = &self.view.spec.scheduling;
        Claim {
            id: ClaimId::Study(self.view.id),
            standing: Standing::Running,
            number,
            speedup: Vec::new(),
            min: devices((frozen_units + running).div_ceil(UNITS_PER_DEVICE)),
            max: devices(frozen + most),
            remaining_s: 0.0,
            attained_s: 0.0,
            current: devices(frozen),
            frozen: false,
            settled: true,
            restart_cost: Span::ZERO,
            reallocation: 1.0,
            weight: scheduling.weight,
            priority: scheduling.priority,
        }
    }
}

/// Nodes and the current plan, for look-ups.
struct Ground<'a> {
    devices: BTreeMap<(NodeId, u16), (&'a NodeView, &'a Device)>,
    entries: BTreeMap<TrialId, &'a PlanEntry>,
    now: Time,
}

impl Ground<'_> {
    fn node_state(&self, slot: &Slot) -> NodeState {
        self.devices.get(&(slot.node, slot.device)).map_or(NodeState::Removed, |(node, _)| node.state)
    }

    /// The trial's slots by the current plan, if that was made for its attempt.
    fn slots(&self, trial: &TrialView) -> &[Slot] {
        self.entries.get(&trial.id).filter(|entry| entry.attempt == trial.attempt).map_or(&[], |entry| &entry.slots)
    }
}

/// Claims of every study, by age, and the memory with what the snapshot adds to it.
pub(super) fn gather<'a>(snapshot: &'a Snapshot, memory: &DecideMemory) -> (Vec<StudyClaims<'a>>, DecideMemory) {
    let devices = snapshot.nodes.iter().flat_map(|node| node.devices.iter().map(move |device| ((node.id, device.index), (node, device))));
    let ground = Ground {
        devices: devices.collect(),
        entries: snapshot.current.entries.iter().map(|entry| (entry.trial, entry)).collect(),
        now: snapshot.now,
    };
    let mut views: Vec<&StudyView> = snapshot.studies.iter().collect();
    views.sort_by_key(|view| (view.created, view.id));
    let mut learnt = DecideMemory::default();
    let mut studies = Vec::new();
    for view in views {
        let mut rates = memory.studies.get(&view.id).cloned().unwrap_or_default();
        rates.learn(&view.trials);
        studies.push(study_claims(view, &ground, &rates));
        if !rates.0.is_empty() {
            learnt.studies.insert(view.id, rates);
        }
    }
    (studies, learnt)
}

fn study_claims<'a>(view: &'a StudyView, ground: &Ground, rates: &crate::perf::StudyRates) -> StudyClaims<'a> {
    let mut trials: Vec<&TrialView> = view.trials.iter().filter(|trial| trial.state.is_live()).collect();
    trials.sort_by_key(|trial| (trial.number, trial.id));
    let kind = device_kind(view, &trials, ground);
    let (devices, sharers) = usable(&view.spec, kind, ground);
    let parallel = view.spec.budget.max_parallel;
    let mut study = StudyClaims { view, kind, devices, share: 0, parallel, candidates: Vec::new(), idle: Vec::new() };
    let Some(workload) = &view.spec.workload else {
        study.idle = trials.into_iter().map(|trial| (trial, Idle::OutsideWorker)).collect();
        return study;
    };
    let model = SpeedModel::fit(rates, workload.shards);
    let builder = Builder::new(&view.spec, workload.shards, sharers, rates.widest(), &model, ground.now);
    for trial in &trials {
        match held(view, trial, ground, devices) {
            Err(why) => study.idle.push((trial, why)),
            Ok(kept) => match builder.trial(trial, kept, ground) {
                Ok(candidate) => study.candidates.push(candidate),
                Err(why) => study.idle.push((trial, why)),
            },
        }
    }
    if view.active && devices > 0 {
        let open = view.unproposed.min(parallel.saturating_sub(trials.len() as u32));
        study.candidates.extend((0..open).filter_map(|number| builder.open(view, number)));
    }
    study
}

/// The kind that the study asks for; `any`: what its trials are on, else GPUs where there are some.
fn device_kind(view: &StudyView, trials: &[&TrialView], ground: &Ground) -> DeviceKind {
    if view.spec.resources.devices != DeviceKind::Any {
        return view.spec.resources.devices;
    }
    let on = trials.iter().flat_map(|trial| ground.slots(trial)).find_map(|slot| ground.devices.get(&(slot.node, slot.device)));
    let ready = |kind| ground.devices.values().any(|(node, device)| node.state == NodeState::Ready && device.kind == kind);
    match on {
        Some((_, device)) => device.kind,
        None if ready(DeviceKind::Gpu) => DeviceKind::Gpu,
        None => DeviceKind::Cpu,
    }
}

/// Devices of ready nodes that can serve the study, and how many trials may share one.
fn usable(spec: &StudySpec, kind: DeviceKind, ground: &Ground) -> (u32, u8) {
    let need = spec.resources.memory_bytes;
    let (mut devices, mut sharers) = (0u32, MOST_SHARERS);
    for (node, device) in ground.devices.values() {
        if node.state == NodeState::Ready && device.kind == kind && need <= device.memory_bytes {
            devices += 1;
            let by_memory = device.memory_bytes.checked_div(need).unwrap_or(u64::from(MOST_SHARERS));
            sharers = sharers.min(device.max_sharers).min(by_memory.min(u64::from(MOST_SHARERS)) as u8);
        }
    }
    let by_share =
        if spec.resources.share > 0.0 { (1.0 / spec.resources.share + 1e-9).floor().clamp(1.0, f64::from(MOST_SHARERS)) } else { 1.0 };
    (devices, sharers.min(by_share as u8))
}

/// What a trial can keep of its slots, or why it may hold none.
fn held(view: &StudyView, trial: &TrialView, ground: &Ground, devices: u32) -> Result<Vec<Slot>, Idle> {
    let slots = ground.slots(trial);
    let kept: Vec<Slot> =
        slots.iter().filter(|slot| matches!(ground.node_state(slot), NodeState::Ready | NodeState::Cordoned)).copied().collect();
    let draining = slots.iter().any(|slot| ground.node_state(slot) == NodeState::Draining);
    if !view.active {
        Err(Idle::StudyInactive)
    } else if trial.state == TrialState::Stopping {
        Err(Idle::Stopping)
    } else if slots.is_empty() && !trial.width.is_zero() {
        Err(Idle::Saving)
    } else if is_stranded(trial, ground) {
        Ok(kept)
    } else if kept.is_empty() && !draining && !trial.width.is_zero() {
        Err(Idle::Lost)
    } else if devices == 0 && kept.is_empty() {
        Err(Idle::NoDevice)
    } else {
        Ok(kept)
    }
}

/// Its processes may live, but nobody can reach them.
fn is_stranded(trial: &TrialView, ground: &Ground) -> bool {
    let slots = ground.slots(trial);
    !slots.is_empty() && !trial.width.is_zero() && slots.iter().all(|slot| ground.node_state(slot) == NodeState::Lost)
}

/// Makes the claims of one study.
struct Builder<'a> {
    spec: &'a StudySpec,
    /// Legal whole widths from the least up, ascending.
    whole: Vec<Width>,
    sharers: u8,
    widest: Option<Width>,
    model: &'a SpeedModel,
    now: Time,
}

impl<'a> Builder<'a> {
    fn new(spec: &'a StudySpec, shards: u32, sharers: u8, widest: Option<Width>, model: &'a SpeedModel, now: Time) -> Self {
        let resources = &spec.resources;
        let legal = legal_widths(shards, u32::from(resources.max_width)).into_iter();
        let whole = legal.filter(|width| *width >= resources.min_width).map(Width::Devices).collect();
        Builder { spec, whole, sharers, widest, model, now }
    }

    fn trial<'t>(&self, trial: &'t TrialView, mut kept: Vec<Slot>, ground: &Ground) -> Result<Candidate<'t>, Idle> {
        let before = ground.slots(trial);
        let switching = (trial.frozen || trial.held) && !kept.is_empty();
        let speed = self.model.trial(Some(trial), &self.widths(trial.alone));
        let least = *self.whole.first().ok_or(Idle::NoDevice)?;
        if !switching && !kept.is_empty() {
            // Where ranks were lost: on with the next legal width below. Where there is none, it must grow.
            let legal = self.whole.iter().rev().find(|width| width.ranks() as usize <= kept.len());
            kept.truncate(legal.map_or(kept.len(), |legal| legal.ranks() as usize));
        }
        let current = width_of(&kept);
        let cordoned = kept.iter().any(|slot| ground.node_state(slot) == NodeState::Cordoned);
        let ready = kept.iter().filter(|slot| ground.node_state(slot) == NodeState::Ready);
        let ready_units = ready.map(|slot| units(Width::Fraction(slot.parts))).sum();
        let stranded = is_stranded(trial, ground);
        let standing = match before {
            _ if stranded => Standing::Resuming,
            [] if trial.done > 0.0 || trial.attempt > 1 => Standing::Resuming,
            [] => Standing::New,
            _ => Standing::Running,
        };
        let since = trial.last_resize.map(|at| self.now - at);
        let claim = Claim {
            id: ClaimId::Trial(trial.id),
            standing,
            number: u64::from(trial.number),
            min: least,
            max: self.most(&speed).max(current),
            remaining_s: work(trial.run_until - trial.done, speed.seconds_per_unit),
            attained_s: work(trial.done, speed.seconds_per_unit),
            speedup: speed.speedup,
            current,
            frozen: switching || cordoned,
            settled: trial.results_since_resize >= SETTLED_RESULTS
                || since.is_none_or(|since| since >= fluid::settles_after(trial.restart_cost)),
            restart_cost: trial.restart_cost,
            reallocation: since.map_or(1.0, |since| reallocation(since, trial.restart_cost)),
            weight: 1.0,
            priority: 0,
        };
        let (before, slots) = (before.to_vec(), Vec::new());
        Ok(Candidate { trial: Some(trial), claim, kept, ready_units, stranded, cordoned, before, grant: NOTHING, slots })
    }

    /// A trial still to be proposed: the study's prior.
    fn open<'t>(&self, view: &StudyView, number: u32) -> Option<Candidate<'t>> {
        let speed = self.model.trial(None, &self.widths(false));
        let first = match &self.spec.early_stopping {
            EarlyStopping::Asha { min_resource, .. } | EarlyStopping::SuccessiveHalving { min_resource, .. } => *min_resource,
            EarlyStopping::None => self.spec.max_resource(),
        };
        let claim = Claim {
            id: ClaimId::Open(view.id, number),
            standing: Standing::Open,
            number: u64::from(number),
            min: *self.whole.first()?,
            // One slot each: a trial that does not exist cannot use more.
            max: *self.whole.first()?,
            remaining_s: work(first, speed.seconds_per_unit),
            attained_s: 0.0,
            speedup: speed.speedup,
            current: Width::ZERO,
            frozen: false,
            settled: true,
            restart_cost: Span::ZERO,
            reallocation: 1.0,
            weight: 1.0,
            priority: 0,
        };
        let (kept, before, slots) = (Vec::new(), Vec::new(), Vec::new());
        Some(Candidate { trial: None, claim, kept, ready_units: 0, stranded: false, cordoned: false, before, grant: NOTHING, slots })
    }

    fn widths(&self, alone: bool) -> Vec<Width> {
        let shared = if alone || self.spec.resources.min_width > 1 { 1 } else { self.sharers };
        (2..=shared).rev().map(Width::Fraction).chain(self.whole.iter().copied()).collect()
    }

    /// The largest width that is worth its devices and not too far beyond what was measured.
    fn most(&self, speed: &TrialSpeed) -> Width {
        let least = self.whole[0];
        if self.spec.scheduling.policy.is_rigid() {
            return least;
        }
        let reach = self.widest.map_or(least.ranks(), |width| WIDENING * width.ranks());
        let mut most = (least, 0.0);
        for (width, speed) in speed.speedup.iter().filter(|(width, _)| *width >= least && width.ranks() <= reach.max(least.ranks())) {
            if *speed >= GAIN * most.1 {
                most = (*width, *speed);
            }
        }
        most.0
    }
}

/// What a trial with these slots holds.
pub(super) fn width_of(slots: &[Slot]) -> Width {
    match slots {
        [only] if only.parts > 1 => Width::Fraction(only.parts),
        slots => Width::Devices(slots.len() as u16),
    }
}

const NOTHING: Grant = Grant { width: Width::ZERO, why: Why::NoCapacity };

/// Pollux's restart factor (artefact of OSDI 2021) over the time since the last change: age / (age + what a change costs).
fn reallocation(since: Span, restart_cost: Span) -> f64 {
    let (age, cost) = (since.as_secs_f64().max(0.0), restart_cost.as_secs_f64());
    if age + cost > 0.0 { age / (age + cost) } else { 1.0 }
}

/// Device-seconds at width 1; bounded, so that no sum overflows.
fn work(units: f64, seconds_per_unit: f64) -> f64 {
    let seconds = units * seconds_per_unit;
    if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, 1e12) }
}
