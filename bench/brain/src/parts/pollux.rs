//! The published results of Pollux's artefact, met again: its three policies on workload-6 and 64 GPUs (`s1_*`), and how long the
//! simulation of one takes.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use bench_report::Report;
use elastune_core::sched::pollux::Search;
use elastune_core::sched::{PolicyConfig, optimus, pollux, tiresias};
use elastune_sim::jobs::profile::Profile;
use elastune_sim::jobs::{Asks, Outcome, Places, Request, Setup, simulate};

use crate::data;

/// Tiresias with the artefact's threshold.
pub fn tiresias() -> Setup {
    let policy = PolicyConfig::Tiresias(tiresias::Config { demote_after_s: 16.0 * 3600.0 });
    Setup::pollux(policy, Asks::Request, Places::Emptiest { narrow_first: false })
}

/// Resizes are free in the artefact's eyes.
pub fn optimus() -> Setup {
    let policy = PolicyConfig::Optimus(optimus::Config { gain: 0.0 });
    Setup { stall_claimed_s: 0.0, ..Setup::pollux(policy, Asks::Any, Places::Emptiest { narrow_first: true }) }
}

/// The artefact's search: 100 allocations over 100 generations.
pub fn pollux() -> Setup {
    let policy =
        PolicyConfig::Pollux(pollux::Config { power: -1.0, search: Search::Genetic { population: 100, generations: 100 }, gain: 0.0 });
    Setup { stall_claimed_s: 0.0, ..Setup::pollux(policy, Asks::Goodput, Places::Packed) }
}

pub fn run(profiles: &[Profile], requests: &[Request], setup: &Setup) -> Result<Outcome> {
    let outcome = simulate(profiles, requests, setup);
    ensure!(outcome.unfinished == 0, "{} jobs never ended", outcome.unfinished);
    Ok(outcome)
}

pub fn measure(report: &mut Report, folder: &Path) -> Result<()> {
    let profiles = data::profiles(folder)?;
    let requests = data::workload(folder, 6)?;
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        report.figure("s1_tiresias_s", run(&profiles, &requests, &tiresias())?.mean_s(), "s");
        seconds.push(began.elapsed().as_secs_f64());
    }
    report.figure("sim_tiresias_s", seconds.iter().copied().fold(f64::INFINITY, f64::min), "s");
    report.figure("s1_optimus_s", run(&profiles, &requests, &optimus())?.mean_s(), "s");
    report.figure("s1_pollux_s", run(&profiles, &requests, &pollux())?.mean_s(), "s");
    Ok(())
}
