//! `make bench-resize`: what growing and shrinking a trial while it trains costs, against a control that doesn't, and against
//! torchrun elastic, which restarts. Both sides train the same network on the same data with the same batch; they take turns.

mod gaps;
mod ours;
mod stage;
mod torchrun;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::{Report, median, quantile};
use clap::Parser;

use crate::torchrun::Restart;

/// Below this our pause is too small to divide by.
const FLOOR_MS: f64 = 5.0;
const BATCH_SIZE: u32 = 256;

#[derive(Debug, Parser)]
struct Arguments {
    /// Turns that each side takes.
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Grows and shrinks of ours in a turn, each.
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Grows and shrinks of the peer's in a turn, each; 0 leaves it out.
    #[arg(long, default_value_t = 1)]
    peer_pairs: usize,
    /// Where Fashion-MNIST's folder `fashion-mnist` lies.
    #[arg(long, default_value = "/usr/share/datasets")]
    data: PathBuf,
    /// Python with PyTorch 2.11.0; by default that of the virtual environment that `bench/torchrun/venv.sh` makes.
    #[arg(long)]
    python: Option<PathBuf>,
    /// Prints every sample to stderr.
    #[arg(long)]
    verbose: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut report = Report::new("resize");
    let worker = std::env::current_exe()?.with_file_name("trial-worker");
    ensure!(worker.exists(), "{} is missing: run `make build`", worker.display());
    let subject = ours::subject(worker, arguments.data.clone(), BATCH_SIZE);
    let work = Work::new()?;
    let (samples, decoded) = decode(&arguments.data.join("fashion-mnist"), &work.0)?;
    let steps_per_epoch = samples.div_ceil(u64::from(BATCH_SIZE));
    let peer = match arguments.peer_pairs {
        0 => None,
        _ => Some(torchrun::Peer::new(arguments.python.clone(), decoded, BATCH_SIZE)?),
    };

    let (mut resizes, mut calm, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..arguments.rounds {
        let folder = |name: &str| work.0.join(format!("{name}-{round}"));
        let ours = ours::resizes(&subject, &folder("ours"), steps_per_epoch, arguments.pairs)?;
        for (width, grow) in [(1, true), (2, false)] {
            let spans: Vec<Duration> = ours.iter().filter(|resize| resize.grow == grow).map(|resize| resize.span).collect();
            calm.extend(ours::control(&subject, &folder(&format!("control-{width}")), steps_per_epoch, width, &spans)?);
        }
        for (pair, peer) in peer.iter().cycle().take(arguments.peer_pairs).enumerate() {
            restarts.push(torchrun::grow_and_shrink(peer, &folder(&format!("torchrun-{pair}")))?);
        }
        if arguments.verbose {
            eprintln!("{ours:?}\ncontrol {calm:?}\ntorchrun {restarts:?}");
        }
        resizes.extend(ours);
    }

    let largest: Vec<f64> = resizes.iter().map(|resize| resize.largest_ms).collect();
    let switches: Vec<f64> = resizes.iter().filter_map(|resize| resize.switch_ms).collect();
    let of = |grow: bool| resizes.iter().filter(|resize| resize.grow == grow).filter_map(|resize| resize.switch_ms).collect::<Vec<_>>();
    let pause = median(&switches).context("no resize was measured")?;
    let (p95, control) = (quantile(&largest, 0.95).context("none")?, quantile(&calm, 0.95).context("none")?);
    report
        .figure("gap_over_control_ms", p95 - control, "ms")
        .figure("median_pause_ms", pause, "ms")
        .figure("resizes", resizes.len() as f64, "count")
        .figure("largest_gap_p95_ms", p95, "ms")
        .figure("largest_gap_median_ms", median(&largest).context("none")?, "ms")
        .figure("control_gap_p95_ms", control, "ms")
        .figure("switch_p95_ms", quantile(&switches, 0.95).context("none")?, "ms");
    for (key, grow) in [("grow_pause_median_ms", true), ("shrink_pause_median_ms", false)] {
        report.figure(key, median(&of(grow)).context("none")?, "ms");
    }
    let peers = |of: fn(&Restart) -> f64| median(&restarts.iter().map(of).collect::<Vec<_>>());
    if let (Some(grow), Some(shrink)) = (peers(|restart| restart.grow_ms), peers(|restart| restart.shrink_ms)) {
        report
            .figure("torchrun_grow_ms", grow, "ms")
            .figure("torchrun_shrink_ms", shrink, "ms")
            .figure("torchrun_changes", 2.0 * restarts.len() as f64, "count")
            // Its grows alone, which are the quicker: its shrinks wait for a death to be noticed.
            .figure("torchrun_ratio", grow / pause.max(FLOOR_MS), "ratio");
    }
    report.write()?;
    Ok(())
}

/// A folder for all that is written meanwhile, gone with the process.
struct Work(PathBuf);

impl Work {
    fn new() -> Result<Work> {
        let folder = std::env::temp_dir().join(format!("bench-resize-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Work(folder))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the training set's pixels and labels without compression or headers, for the peer to map into memory. Answers the
/// number of samples and the folder.
fn decode(from: &Path, to: &Path) -> Result<(u64, PathBuf)> {
    let folder = to.join("decoded");
    std::fs::create_dir_all(&folder)?;
    let read = |name: &str, header: usize| -> Result<Vec<u8>> {
        let path = from.join(format!("train-{name}-ubyte.gz"));
        let file = std::fs::File::open(&path).with_context(|| format!("{}: run `make setup`", path.display()))?;
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes)?;
        ensure!(bytes.len() > header, "{} is too short", path.display());
        Ok(bytes.split_off(header))
    };
    let (images, labels) = (read("images-idx3", 16)?, read("labels-idx1", 8)?);
    std::fs::write(folder.join("images"), images)?;
    std::fs::write(folder.join("labels"), &labels)?;
    Ok((labels.len() as u64, folder))
}
