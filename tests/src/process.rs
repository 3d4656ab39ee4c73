//! One process that a test started: its log, its end. Used by the other parts of the harness.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Killed when dropped, unless it has ended before.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    pub fn start(mut command: Command, log: &Path) -> Process {
        let file = File::options().create(true).append(true).open(log).expect("a log can be written");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a handle")).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Process { child, log: log.to_path_buf() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// As `kill -9`.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            self.child.kill().expect("a child can be killed");
            self.child.wait().expect("a killed child ends");
        }
    }

    /// Asks it to end and waits; false if it had to be killed.
    pub fn end(&mut self, signal: Signal, patience: Duration) -> bool {
        if self.ended().is_none() {
            kill(self.pid(), signal);
        }
        let start = Instant::now();
        while self.ended().is_none() {
            if start.elapsed() > patience {
                self.kill();
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("--- the end of {}:\n{}", self.log.display(), lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// A process that is gone already is no error.
pub fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Processes of which an argument starts with `prefix`: how a test finds the workers in its own temporary folder.
pub fn with_argument(prefix: &Path) -> Vec<u32> {
    let prefix = prefix.to_str().expect("temporary paths are text");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("this is Linux").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|b| *b == 0).any(|argument| argument.starts_with(prefix.as_bytes())) {
            found.push(pid);
        }
    }
    found
}
