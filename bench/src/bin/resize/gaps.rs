//! Pauses in a trace of committed steps. Pure, but for reading the file; called by the measurements of both sides.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use bench::median;

/// Steps on each side of a change from which the median step is taken.
pub const AROUND: usize = 20;

/// A committed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Of the system's monotonic clock.
    pub at_ns: u64,
    pub step: u64,
    /// One membership of the group; of the peer: one life of its processes.
    pub generation: u64,
}

/// A file of lines `monotonic_ns,step,generation,width` that grows while it is read.
#[derive(Debug, Default)]
pub struct Trace {
    path: PathBuf,
    /// Bytes taken so far.
    read: u64,
    pub commits: Vec<Commit>,
}

impl Trace {
    pub fn at(path: PathBuf) -> Trace {
        Trace { path, ..Trace::default() }
    }

    /// Takes the lines that have come since; one without its end is left for the next time. A file that isn't there yet has none.
    pub fn refresh(&mut self) -> Result<&[Commit]> {
        let mut text = String::new();
        match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            file => {
                let mut file = file?;
                file.seek(SeekFrom::Start(self.read))?;
                file.read_to_string(&mut text).with_context(|| self.path.display().to_string())?;
            }
        }
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        for line in whole.lines() {
            let mut fields = line.split(',').map(str::parse);
            match (fields.next(), fields.next(), fields.next()) {
                (Some(Ok(at_ns)), Some(Ok(step)), Some(Ok(generation))) => self.commits.push(Commit { at_ns, step, generation }),
                _ => anyhow::bail!("{}: not a trace's line: {line}", self.path.display()),
            }
        }
        self.read += whole.len() as u64;
        Ok(&self.commits)
    }
}

/// Milliseconds between neighbours.
fn gap_ms(pair: &[Commit]) -> f64 {
    pair[1].at_ns.saturating_sub(pair[0].at_ns) as f64 / 1e6
}

#[derive(Debug, Clone, Copy)]
pub struct Gaps<'a> {
    pub commits: &'a [Commit],
    /// Between the last step of an epoch and the next one lies its validation, whatever the width: such gaps are left out.
    pub steps_per_epoch: u64,
}

impl Gaps<'_> {
    fn is_step(&self, pair: &[Commit]) -> bool {
        !(pair[0].step + 1).is_multiple_of(self.steps_per_epoch)
    }

    fn median_step(&self, commits: &[Commit]) -> Option<f64> {
        let steps: Vec<f64> =
            commits.windows(2).filter(|pair| pair[0].generation == pair[1].generation && self.is_step(pair)).map(gap_ms).collect();
        median(&steps)
    }

    /// Index of the first commit on a generation above that of `from`, once one is there.
    pub fn change(&self, from: usize) -> Option<usize> {
        let before = self.commits.get(from)?.generation;
        self.commits[from..].iter().position(|commit| commit.generation > before).map(|at| from + at)
    }

    /// The larger of the median steps before and after the commit at `index`.
    pub fn larger_median(&self, index: usize) -> Option<f64> {
        let before = self.median_step(&self.commits[index.saturating_sub(AROUND + 1)..index])?;
        let after = self.median_step(&self.commits[index..(index + AROUND + 1).min(self.commits.len())])?;
        Some(before.max(after))
    }

    /// What the change at `index` cost: the gap before that commit, less the larger median step, at least 0. None: an epoch
    /// ended just there, or too little is around it.
    pub fn pause_ms(&self, index: usize) -> Option<f64> {
        let pair = self.commits.get(index.checked_sub(1)?..=index)?;
        self.is_step(pair).then(|| gap_ms(pair))?;
        Some((gap_ms(pair) - self.larger_median(index)?).max(0.0))
    }

    /// The largest gap that begins or ends between two moments, less `median_ms`.
    pub fn largest_ms(&self, from_ns: u64, to_ns: u64, median_ms: f64) -> Option<f64> {
        let within = |pair: &&[Commit]| pair[1].at_ns >= from_ns && pair[0].at_ns <= to_ns && self.is_step(pair);
        self.commits.windows(2).filter(within).map(gap_ms).max_by(f64::total_cmp).map(|gap| gap - median_ms)
    }

    /// The median step around a moment, where the width doesn't change.
    pub fn median_around(&self, at_ns: u64) -> Option<f64> {
        let index = self.commits.partition_point(|commit| commit.at_ns < at_ns);
        self.larger_median(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of `before` and `after` ms with a gap between their generations.
    fn trace(before: u64, gap: u64, after: u64) -> Vec<Commit> {
        let mut at = 0;
        let mut commits = Vec::new();
        for step in 0..60u64 {
            at += match step {
                0..30 => before,
                30 => gap,
                _ => after,
            };
            commits.push(Commit { at_ns: at * 1_000_000, step, generation: 1 + u64::from(step >= 30) });
        }
        commits
    }

    #[test]
    fn a_pause_is_the_gap_less_the_larger_median() {
        let commits = trace(40, 75, 30);
        let gaps = Gaps { commits: &commits, steps_per_epoch: 1000 };
        let index = gaps.change(5).unwrap();
        assert_eq!(index, 30);
        assert_eq!(gaps.pause_ms(index), Some(35.0));
        let (from, to) = (commits[20].at_ns, commits[40].at_ns);
        assert_eq!(gaps.largest_ms(from, to, gaps.larger_median(index).unwrap()), Some(35.0));
        assert_eq!(gaps.median_around(commits[10].at_ns), Some(40.0));
        assert_eq!(gaps.change(35), None);
    }

    #[test]
    fn ends_of_epochs_are_left_out() {
        let commits = trace(40, 500, 30);
        let gaps = Gaps { commits: &commits, steps_per_epoch: 30 };
        assert_eq!(gaps.pause_ms(30), None);
        assert_eq!(gaps.largest_ms(commits[20].at_ns, commits[40].at_ns, 40.0), Some(0.0));
    }

    #[test]
    fn half_a_line_waits_for_its_end() {
        let path = std::env::temp_dir().join(format!("trace-{}", uuid::Uuid::new_v4()));
        let mut trace = Trace::at(path.clone());
        assert_eq!(trace.refresh().unwrap(), []);
        std::fs::write(&path, "10,0,1,1\n25,1,1,1\n31,2").unwrap();
        assert_eq!(trace.refresh().unwrap().len(), 2);
        std::fs::write(&path, "10,0,1,1\n25,1,1,1\n31,2,1,1\n").unwrap();
        assert_eq!(trace.refresh().unwrap().len(), 3);
        assert_eq!(trace.commits[2], Commit { at_ns: 31, step: 2, generation: 1 });
        std::fs::write(&path, "10,zero,1,1\n").unwrap();
        let wrong = Trace::at(path.clone()).refresh().map(<[Commit]>::len);
        std::fs::remove_file(&path).unwrap();
        assert!(wrong.is_err());
    }
}
