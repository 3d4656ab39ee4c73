//! The dynamic program of `jsa` against trying every choice (`s6_equal`).

use bench_report::Report;
use elastune_core::rng::Seed;
use elastune_core::sched::jsa;
use rand::Rng;

const CASES: u64 = 1000;

/// The greatest sum with one choice of each table; None if nothing fits.
fn try_all(tables: &[Vec<(u32, f64)>], devices: u32) -> Option<f64> {
    let Some((first, rest)) = tables.split_first() else { return Some(0.0) };
    let fitting = first.iter().filter(|(width, _)| *width <= devices);
    fitting.filter_map(|(width, gain)| Some(gain + try_all(rest, devices - width)?)).reduce(f64::max)
}

/// Part of 1,000 random cases (up to 8 tables of any shape, up to 16 devices) in which both find the same sum.
pub fn measure(report: &mut Report) {
    let equal = (0..CASES).filter(|case| {
        let mut rng = Seed(*case).child("tables", 0).rng();
        let jobs = rng.random_range(1..=8);
        let devices = rng.random_range(jobs..=16);
        let mut tables: Vec<Vec<(u32, f64)>> = Vec::new();
        for _ in 0..jobs {
            let widths: Vec<u32> = (1..=devices).filter(|&width| width == 1 || rng.random_bool(0.4)).collect();
            tables.push(widths.into_iter().map(|width| (width, rng.random())).collect());
        }
        let views: Vec<&[(u32, f64)]> = tables.iter().map(Vec::as_slice).collect();
        let sum = |got: Vec<u32>| -> f64 {
            let gain =
                |(table, width): (&Vec<(u32, f64)>, u32)| table.iter().find(|(at, _)| *at == width).map_or(f64::NAN, |choice| choice.1);
            tables.iter().zip(got).map(gain).sum()
        };
        match (jsa::best(&views, devices).map(sum), try_all(&tables, devices)) {
            (Some(found), Some(tried)) => (found - tried).abs() < 1e-9,
            (found, tried) => found.is_none() && tried.is_none(),
        }
    });
    report.figure("s6_equal", equal.count() as f64 / CASES as f64, "share");
}
