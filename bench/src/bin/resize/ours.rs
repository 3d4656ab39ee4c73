//! Our side: a trial that goes 1-2-1-2..., and the control that keeps its width while an unrelated process loads libtorch.
//! Called by `main`, a round at a time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::gaps::{AROUND, Gaps};
use crate::stage::{Stage, Subject, monotonic_ns};

/// Joiners are this late, so that a joiner's start and the switch are told apart.
const DELAY: Duration = Duration::from_secs(2);
/// Steps before a change is asked for: its median is taken from the later half, that of the change before from the earlier.
const SETTLE: usize = 2 * AROUND;

/// One resize, in milliseconds beyond the larger median step.
#[derive(Debug, Clone, Copy)]
pub struct Resize {
    pub grow: bool,
    /// Of the gap across the switch. None: an epoch ended there.
    pub switch_ms: Option<f64>,
    /// Of the largest gap from the request to `AROUND` steps after the switch: it sees what the joiner's start costs, too.
    pub largest_ms: f64,
    /// How long that was.
    pub span: Duration,
}

pub fn subject(worker: PathBuf, data: PathBuf, batch_size: u32) -> Subject {
    Subject { worker, data, batch_size, delay: DELAY }
}

fn gaps<'a>(stage: &'a mut Stage, steps_per_epoch: u64) -> Result<Gaps<'a>> {
    Ok(Gaps { commits: stage.commits()?, steps_per_epoch })
}

fn begin(subject: &Subject, folder: &Path, width: u16) -> Result<Stage> {
    let mut stage = Stage::new(subject.clone(), folder)?;
    stage.ask(width);
    stage.until("the first steps", |commits| commits.len() > SETTLE)?;
    Ok(stage)
}

/// `pairs` grows and shrinks.
pub fn resizes(subject: &Subject, folder: &Path, steps_per_epoch: u64, pairs: usize) -> Result<Vec<Resize>> {
    let mut stage = begin(subject, folder, 1)?;
    let mut resizes = Vec::new();
    for grow in [true, false].repeat(pairs) {
        let from = stage.commits()?.len() - 1;
        stage.until("a quiet stretch", |commits| commits.len() > from + SETTLE)?;
        let from = stage.commits()?.len() - 1;
        let asked_ns = monotonic_ns();
        stage.ask(if grow { 2 } else { 1 });
        let changed = |commits: &[_]| Gaps { commits, steps_per_epoch }.change(from);
        stage.until("the resize", |commits| changed(commits).is_some_and(|at| commits.len() > at + AROUND))?;
        let gaps = gaps(&mut stage, steps_per_epoch)?;
        let index = gaps.change(from).context("it was there")?;
        let end_ns = gaps.commits[index + AROUND].at_ns;
        let median_ms = gaps.larger_median(index).context("steps lie around it")?;
        resizes.push(Resize {
            grow,
            switch_ms: gaps.pause_ms(index),
            largest_ms: gaps.largest_ms(asked_ns, end_ns, median_ms).context("steps lie in it")?,
            span: Duration::from_nanos(end_ns - asked_ns),
        });
    }
    stage.stop()?;
    Ok(resizes)
}

/// What the same moments cost a trial that keeps its width: the largest gap less the median step, of a span as long as each of
/// `spans`. Width `width`, and an unrelated process that loads libtorch at the start of each.
pub fn control(subject: &Subject, folder: &Path, steps_per_epoch: u64, width: u16, spans: &[Duration]) -> Result<Vec<f64>> {
    let mut stage = begin(subject, folder, width)?;
    let mut largest = Vec::new();
    for span in spans {
        let from = stage.commits()?.len() - 1;
        stage.until("a quiet stretch", |commits| commits.len() > from + SETTLE)?;
        let start_ns = monotonic_ns();
        // Starting it is what loads libtorch; it has nothing to do with the trial.
        let mut unrelated = Command::new(&subject.worker).arg("--version").stdout(Stdio::null()).spawn()?;
        stage.rest(*span)?;
        ensure!(unrelated.wait()?.success(), "the unrelated process failed");
        let end_ns = start_ns + span.as_nanos() as u64;
        stage.until("the steps after it", |commits| commits.iter().rev().take_while(|commit| commit.at_ns > end_ns).count() > AROUND)?;
        let gaps = gaps(&mut stage, steps_per_epoch)?;
        let median_ms = gaps.median_around(start_ns).context("steps lie around it")?;
        largest.push(gaps.largest_ms(start_ns, end_ns, median_ms).context("steps lie in it")?);
    }
    stage.stop()?;
    Ok(largest)
}
