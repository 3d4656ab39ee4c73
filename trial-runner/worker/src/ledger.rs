//! Which samples each committed step trained, and (for benches) when. One file a process; a line leaves it as soon as it is
//! written, so that a kill loses none. The latest generation of a step wins. Called by the session at each commit.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::Path;

use elastune_core::model::ids::Incarnation;
use rustix::time::{ClockId, clock_gettime};

/// Every rank writes its own: whichever dies, the others' lines stay.
#[derive(Debug)]
pub struct Ledger {
    lines: LineWriter<File>,
    trace: Option<LineWriter<File>>,
}

fn append(path: &Path) -> std::io::Result<LineWriter<File>> {
    File::options().create(true).append(true).open(path).map(LineWriter::new)
}

impl Ledger {
    pub fn open(folder: &Path, incarnation: Incarnation, trace: Option<&Path>) -> std::io::Result<Ledger> {
        std::fs::create_dir_all(folder)?;
        let mut lines = append(&folder.join(format!("ledger-{incarnation}.csv")))?;
        writeln!(lines, "step,generation,first,last")?;
        Ok(Ledger { lines, trace: trace.map(append).transpose()? })
    }

    /// Step `step` (from 0) trained the places `samples` of the epochs' permutations, laid end to end. A full disk is no
    /// reason to stop training.
    pub fn commit(&mut self, step: u64, generation: u32, width: u32, samples: std::ops::Range<u64>) {
        let _ = writeln!(self.lines, "{step},{generation},{},{}", samples.start, samples.end.saturating_sub(1));
        if let Some(trace) = &mut self.trace {
            let now = clock_gettime(ClockId::Monotonic);
            let nanoseconds = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
            let _ = writeln!(trace, "{nanoseconds},{step},{generation},{width}");
        }
    }
}
