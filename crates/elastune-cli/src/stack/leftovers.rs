//! Ends processes of an earlier `up` that was killed and could not end them itself. Called by the stack before it starts.

use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::state::State;

/// When the process started, in clock ticks since boot: with the pid it names a process for good. None: there is no such process.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields count from behind the name, which is in parentheses and may hold anything: state is the third, the start time the 22nd.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if fields.first() == Some(&"Z") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// Agents first (their workers save), then services, then Postgres.
pub async fn end(state: &State) -> Result<()> {
    let noted = state.noted();
    for (name, signal, patience_s) in [("agent", Signal::TERM, 60), ("service", Signal::TERM, 20), ("postgres", Signal::INT, 60)] {
        for line in noted.lines() {
            if let [noted_name, pid, started] = line.split(' ').collect::<Vec<_>>()[..]
                && noted_name == name
                && let (Ok(pid), Ok(started)) = (pid.parse::<u32>(), started.parse::<u64>())
                && start_time(pid) == Some(started)
            {
                eprintln!("elastune: ending the {name} that an earlier run left behind (process {pid})");
                end_one(name, pid, started, signal, Duration::from_secs(patience_s)).await?;
            }
        }
    }
    state.forget_processes();
    Ok(())
}

async fn end_one(name: &str, pid: u32, started: u64, signal: Signal, patience: Duration) -> Result<()> {
    let gone = || start_time(pid) != Some(started);
    let Some(handle) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    for signal in [signal, Signal::KILL] {
        // A process that is gone by now is what we want.
        let _ = kill_process(handle, signal);
        if super::poll(patience, async || gone()).await {
            return Ok(());
        }
    }
    bail!("process {pid}, the {name} of an earlier run, does not end; end it by hand and try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_pid_and_start_time() {
        let own = std::process::id();
        let started = start_time(own).expect("this process runs");
        assert_eq!(start_time(own), Some(started));
        assert_eq!(start_time(u32::MAX), None);
    }

    #[tokio::test]
    async fn what_an_earlier_run_left_is_ended_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::open(folder.path()).expect("it opens");
        let mut ours = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        state.note_process("service", ours.id()).expect("noted");
        // The same pid with another start time is another process.
        let fake = format!("agent {} 1\n", other.id());
        std::fs::write(folder.path().join("processes"), state.noted() + &fake).expect("noted");
        // Reap while `end` waits, as init would.
        let reaper = std::thread::spawn(move || ours.wait().expect("it ends"));
        end(&state).await.expect("all end");
        assert!(!reaper.join().expect("reaped").success());
        assert!(other.try_wait().expect("it can be asked").is_none(), "a stranger was killed");
        other.kill().expect("it is ours");
        other.wait().expect("it ends");
        assert_eq!(state.noted(), "");
    }
}
