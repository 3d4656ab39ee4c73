//! `make bench-sim`: Fluid against rigid FIFO on synchronous halving, through the real `decide`; and how long one `decide` takes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bench_report::{Report, median};
use elastune_core::check::check;
use elastune_core::decide::{DecideMemory, decide};
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::plan::Plan;
use elastune_core::model::snapshot::{Snapshot, StudyView};
use elastune_core::model::study::PolicyName;
use elastune_core::model::trial::{RateSample, TrialState, TrialView};
use elastune_core::model::width::Width;
use elastune_core::rng::Seed;
use elastune_core::time::{Span, Time};
use elastune_sim::{Outcome, Population, Simulation, presets};
use uuid::Uuid;

const SEEDS: u64 = 20;
/// Decisions that are timed; each sees another state of the cluster.
const DECISIONS: usize = 40;

fn main() -> Result<()> {
    let mut report = Report::new("sim");
    for devices in [8, 16] {
        let mut ratios = Vec::new();
        for seed in 0..SEEDS {
            let fifo = halving(PolicyName::Fifo, devices, seed)?;
            let fluid = halving(PolicyName::Fluid, devices, seed)?;
            ratios.push(fifo.makespan_s / fluid.makespan_s);
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        report.figure(&format!("fluid_speedup_{devices}"), mean, "x");
        report.figure(&format!("fluid_speedup_{devices}_least"), least, "x");
    }
    let times = decisions()?;
    report.figure("decide_1000x512_ms", median(&times).context("no decision was timed")?, "ms");
    report.figure("decide_1000x512_most_ms", times.iter().copied().fold(0.0, f64::max), "ms");
    report.write()?;
    Ok(())
}

fn halving(policy: PolicyName, devices: u32, seed: u64) -> Result<Outcome> {
    let nodes = presets::gpu_nodes(devices / 8, 8, 2);
    let outcome = Simulation::new(nodes, vec![presets::halving_arrival(policy)], presets::costs(), Seed(seed)).run();
    ensure!(outcome.faults.is_empty(), "{}", outcome.faults.join("; "));
    ensure!((outcome.completed, outcome.pruned) == (1, 80), "{} completed, {} pruned", outcome.completed, outcome.pruned);
    Ok(outcome)
}

/// Milliseconds of each decision over 1,000 live trials of 10 studies on 512 devices. Between two, running trials measure and
/// every twentieth is replaced by a new one.
fn decisions() -> Result<Vec<f64>> {
    let study = |number: u32| StudyView {
        id: StudyId(Uuid::from_u128(u128::from(number) + 1)),
        created: Time(i64::from(number)),
        spec: presets::halving(PolicyName::Fluid),
        active: true,
        unproposed: 0,
        trials: (0..100).map(|at| trial(number, at)).collect(),
        groups: Default::default(),
    };
    let mut snapshot =
        Snapshot { now: Time(0), studies: (0..10).map(study).collect(), nodes: presets::gpu_nodes(64, 8, 2), current: Plan::default() };
    let mut memory = DecideMemory::default();
    let mut times = Vec::new();
    for _ in 0..DECISIONS {
        let began = Instant::now();
        let decision = decide(&snapshot, &memory, Seed(0));
        times.push(began.elapsed().as_secs_f64() * 1000.0);
        let violations = check(&decision.plan, &snapshot);
        ensure!(violations.is_empty(), "{violations:?}");
        (snapshot.current, memory) = (decision.plan, decision.memory);
        pass(&mut snapshot);
    }
    Ok(times)
}

fn trial(study: u32, number: u32) -> TrialView {
    TrialView {
        id: TrialId(Uuid::from_u128(u128::from(study + 1) << 64 | u128::from(number))),
        number,
        parameters: Default::default(),
        state: TrialState::Waiting,
        attempt: 1,
        run_until: f64::from(1 + number % 9),
        done: 0.0,
        rates: Vec::new(),
        width: Width::ZERO,
        frozen: false,
        held: false,
        restart_cost: Span::from_secs(30),
        last_resize: None,
        results_since_resize: 0,
        checkpoint: None,
        alone: false,
    }
}

/// A minute passes: the plan is carried out, what runs measures, every twentieth trial ends and another comes.
fn pass(snapshot: &mut Snapshot) {
    snapshot.now = snapshot.now + Span::from_secs(60);
    let population = Population { median_s: 300.0, sigma: 0.5, alpha: 0.8 };
    let widths: std::collections::BTreeMap<_, _> = snapshot.current.entries.iter().map(|entry| (entry.trial, entry.width())).collect();
    for (study, view) in snapshot.studies.iter_mut().enumerate() {
        let mut next = view.trials.iter().map(|trial| trial.number + 1).max().unwrap_or(0);
        for at in &mut view.trials {
            at.width = widths.get(&at.id).copied().unwrap_or(Width::ZERO);
            if at.width.is_zero() {
                continue;
            }
            let seconds = population.draw(Seed(study as u64), at.number).seconds_per_unit / at.width.devices().powf(0.7);
            at.state = TrialState::Running;
            at.done = (at.done + 60.0 / seconds).min(at.run_until);
            at.results_since_resize += 1;
            at.rates.push(RateSample { width: at.width, nodes: 1, seconds_per_unit: seconds });
            if (at.number + next).is_multiple_of(20) {
                *at = trial(study as u32, next);
                next += 1;
            }
        }
    }
}
