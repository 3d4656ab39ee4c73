//! `make bench-brain`: the policies on simulated clusters. `PART=name` measures one part; figures of the others stay.

use anyhow::{Result, bail};
use bench_brain::{data, parts};
use bench_report::Report;

const PARTS: [&str; 3] = ["exact", "pollux", "afs"];

fn main() -> Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(&name.as_str())) {
        bail!("there is no part '{unknown}'; there are {}", PARTS.join(", "));
    }
    let mut report = Report::new("brain");
    let folder = data::folder();
    for part in PARTS.into_iter().filter(|part| named.is_empty() || named.iter().any(|name| name == part)) {
        match (part, &folder) {
            ("exact", _) => parts::exact::measure(&mut report),
            ("pollux", Some(folder)) => parts::pollux::measure(&mut report, folder)?,
            ("afs", Some(folder)) => parts::afs::measure(&mut report, folder)?,
            _ => eprintln!("SKIPPED: part {part} needs the public data"),
        }
    }
    report.merge()?;
    Ok(())
}
