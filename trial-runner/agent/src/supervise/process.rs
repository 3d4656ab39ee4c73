//! A worker's process by its pidfd: seen to exit, signalled and killed without ever meaning another process. Works alike for
//! children and for processes of an earlier agent. Used by `agent` and `launch`.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::process::{PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::incarnations::Pid;

/// A running process that leads a process group of its own.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: Pid,
    pidfd: Arc<OwnedFd>,
}

impl Process {
    /// The process that just started.
    pub fn of_child(child: &Child) -> Result<Self> {
        let pid = i32::try_from(child.id()).context("a process id is positive")?;
        let pidfd = open(pid)?;
        // Not yet waited for, so the id can't have been given to another.
        let start_ticks = start_ticks(pid).context("cannot read the process's start time")?;
        Ok(Process { pid: Pid { pid, start_ticks }, pidfd: Arc::new(pidfd) })
    }

    /// None if it is gone, another process having its number or not.
    pub fn find(pid: Pid) -> Option<Self> {
        let pidfd = open(pid.pid).ok()?;
        // Read after opening: if the start time fits, the pidfd is of that process.
        (start_ticks(pid.pid) == Some(pid.start_ticks)).then(|| Process { pid, pidfd: Arc::new(pidfd) })
    }

    /// The process whose command line contains the path, by a look at all of /proc.
    pub fn search(argument: &Path) -> Option<Self> {
        let wanted = argument.as_os_str().as_encoded_bytes();
        let pids = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for pid in pids {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if command.split(|byte| *byte == 0).any(|part| part == wanted)
                && let Some(start_ticks) = start_ticks(pid)
            {
                return Process::find(Pid { pid, start_ticks });
            }
        }
        None
    }

    /// Asks it to save and exit.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it and whatever it started.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // If the leader still takes the signal, its number, hence its group's, is still its own.
        if pidfd_send_signal(&self.pidfd, signal).is_ok() && signal == Signal::KILL {
            self.kill_group();
        }
    }

    fn kill_group(&self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.pid.pid) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Returns when it has exited, with its status if it is this agent's child. What it started dies with it.
    pub async fn wait(&self, child: Option<Child>) -> Result<Option<ExitStatus>> {
        // Deprecated for types whose descriptor may change or close under it; an OwnedFd behind an Arc does neither.
        #[allow(deprecated)]
        let pidfd = AsyncFd::with_interest(self.pidfd.clone(), Interest::READABLE)?;
        let _ready = pidfd.readable().await?;
        let Some(mut child) = child else { return Ok(None) };
        // Before the child is waited for, so that the group's number is still its own.
        self.kill_group();
        Ok(child.try_wait()?)
    }
}

fn open(pid: i32) -> Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).context("a process id is positive")?;
    Ok(pidfd_open(pid, PidfdFlags::NONBLOCK)?)
}

fn start_ticks(pid: i32) -> Option<u64> {
    parse_start_ticks(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22; the second, the program's name in brackets, may hold anything. None of a process that has exited and only waits
/// to be waited for.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use super::*;

    #[test]
    fn start_ticks_are_found_behind_any_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 10";
        assert_eq!(parse_start_ticks(stat), Some(987_654));
        assert_eq!(parse_start_ticks(&stat.replace(" S ", " Z ")), None);
        assert_eq!(parse_start_ticks("42"), None);
        assert!(start_ticks(std::process::id() as i32).is_some());
    }

    #[tokio::test]
    async fn a_process_is_found_signalled_and_seen_to_exit() {
        let child = Command::new("sleep").arg("100").process_group(0).spawn().expect("sleep is everywhere");
        let process = Process::of_child(&child).expect("it runs");
        let found = Process::find(process.pid).expect("it runs");
        assert!(Process::find(Pid { start_ticks: process.pid.start_ticks + 1, ..process.pid }).is_none(), "another process of that number");
        found.kill();
        let status = process.wait(Some(child)).await.expect("a pidfd").expect("a child");
        assert_eq!(status.signal(), Some(9));
        assert!(Process::find(process.pid).is_none());
    }

    #[tokio::test]
    async fn what_a_worker_started_dies_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let marker = folder.path().join("grandchild");
        let script = format!("sleep 100 & echo $! > {}; wait", marker.display());
        let child = Command::new("sh").args(["-c", &script]).process_group(0).spawn().expect("sh is everywhere");
        let process = Process::of_child(&child).expect("it runs");
        let grandchild: i32 = loop {
            match std::fs::read_to_string(&marker).unwrap_or_default().trim().parse() {
                Ok(pid) => break pid,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        };
        let grandchild = Process { pid: Pid { pid: grandchild, start_ticks: 0 }, pidfd: Arc::new(open(grandchild).expect("it runs")) };
        process.kill();
        process.wait(Some(child)).await.expect("a pidfd");
        grandchild.wait(None).await.expect("it is gone as well");
    }
}
