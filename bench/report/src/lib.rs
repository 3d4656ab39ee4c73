//! What every benchmark prints: one JSON line, also kept as `target/bench/<name>.json`. Called by the programs in `src/bin`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A measured number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub value: f64,
    pub unit: String,
}

/// A benchmark's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub bench: String,
    /// Processors this process may run on.
    pub cores: usize,
    /// The machine's load over the minute before the benchmark began; 0 where the system doesn't say.
    pub load: f64,
    pub figures: BTreeMap<String, Figure>,
}

impl Report {
    /// Call it before the measurement: it notes the load that was there already.
    pub fn new(bench: &str) -> Report {
        Report {
            bench: bench.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            load: load(),
            figures: BTreeMap::new(),
        }
    }

    pub fn figure(&mut self, key: &str, value: f64, unit: &str) -> &mut Report {
        self.figures.insert(key.to_owned(), Figure { value, unit: unit.to_owned() });
        self
    }

    /// Prints the line and replaces `target/bench/<name>.json` (under the current folder).
    pub fn write(&self) -> Result<PathBuf> {
        self.write_in(Path::new("target/bench"))
    }

    /// As `write`, for one part of a benchmark: figures of other parts that the file holds stay.
    pub fn merge(self) -> Result<PathBuf> {
        self.merge_in(Path::new("target/bench"))
    }

    fn merge_in(mut self, folder: &Path) -> Result<PathBuf> {
        let path = self.path(folder);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let before: Report =
                    serde_json::from_slice(&bytes).with_context(|| format!("{} is not a benchmark's result: remove it", path.display()))?;
                for (key, figure) in before.figures {
                    self.figures.entry(key).or_insert(figure);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        }
        self.write_in(folder)
    }

    fn write_in(&self, folder: &Path) -> Result<PathBuf> {
        let line = serde_json::to_string(self)?;
        println!("{line}");
        let path = self.path(folder);
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        std::fs::write(&path, line + "\n").with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.bench))
    }
}

fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// The value below which a share `q` (0 to 1) of the samples lies, by linear interpolation; None of no samples.
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.95), Some(9.5));
        assert_eq!(quantile(&[1.0, 2.0], 7.0), Some(2.0));
    }

    #[test]
    fn parts_merge_and_the_newest_figure_wins() {
        let folder = std::env::temp_dir().join(format!("bench-{}", uuid::Uuid::new_v4()));
        let mut first = Report::new("x");
        first.figure("a", 1.0, "ms").figure("b", 2.0, "ms");
        first.write_in(&folder).unwrap();
        let mut second = Report::new("x");
        second.figure("b", 3.0, "ms");
        let path = second.merge_in(&folder).unwrap();
        let read: Report = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read.figures["a"].value, 1.0);
        assert_eq!(read.figures["b"].value, 3.0);
    }
}
