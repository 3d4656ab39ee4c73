//! AFS against max-min, SRTF and Tiresias (`s5_*`): five workloads at fixed batch sizes, at three loads each. All know the measured
//! speeds, save that Tiresias's widths are what the users requested.

use std::path::Path;

use anyhow::Result;
use bench_report::Report;
use elastune_core::model::study::PolicyName;
use elastune_core::sched::PolicyConfig;
use elastune_sim::jobs::profile::Profile;
use elastune_sim::jobs::{Asks, Places, Request, Setup, work_s};

use super::pollux::{run, tiresias};
use crate::data::{self, WORKLOADS};

const LOADS: [f64; 3] = [0.5, 1.0, 1.5];

fn elastic(policy: PolicyName) -> Setup {
    Setup::pollux(PolicyConfig::from(policy), Asks::Even, Places::Packed)
}

/// The arrivals drawn out or drawn together, so that the work that comes is `load` times what 64 devices do meanwhile.
fn at_load(profiles: &[Profile], requests: &[Request], load: f64) -> Vec<Request> {
    let setup = elastic(PolicyName::Afs);
    let span_s = requests.last().map_or(0.0, |last| last.at_s);
    let devices = f64::from(setup.nodes) * f64::from(setup.devices_per_node);
    let scale = work_s(profiles, requests, &setup) / (devices * load * span_s);
    requests.iter().map(|request| Request { at_s: request.at_s * scale, ..*request }).collect()
}

pub fn measure(report: &mut Report, folder: &Path) -> Result<()> {
    let profiles = data::profiles(folder)?;
    let packed = |setup: Setup| Setup { places: Places::Packed, ..setup };
    let rigid = Setup { asks: Asks::Request, ..elastic(PolicyName::Srtf) };
    let rivals = [
        ("maxmin", elastic(PolicyName::MaxMin)),
        ("srtf", elastic(PolicyName::Srtf)),
        ("tiresias", packed(tiresias())),
        // Not among the bars: SRTF at the widths requested, and lengths unknown.
        ("srtf_rigid", rigid),
        ("afs_p", elastic(PolicyName::AfsP)),
    ];
    let mut ratios = vec![0.0; rivals.len()];
    for load in LOADS {
        let mut means = vec![0.0; rivals.len()];
        let mut afs = 0.0;
        for number in WORKLOADS {
            let requests = at_load(&profiles, &data::workload(folder, number)?, load);
            afs += run(&profiles, &requests, &elastic(PolicyName::Afs))?.mean_s();
            for (mean, (_, setup)) in means.iter_mut().zip(&rivals) {
                *mean += run(&profiles, &requests, setup)?.mean_s();
            }
        }
        for (at, mean) in means.iter().enumerate() {
            report.figure(&format!("s5_afs_vs_{}_load_{load}", rivals[at].0), afs / mean, "x");
            ratios[at] += afs / mean / LOADS.len() as f64;
        }
    }
    for ((name, _), ratio) in rivals.iter().zip(ratios) {
        report.figure(&format!("s5_afs_vs_{name}"), ratio, "x");
    }
    Ok(())
}
