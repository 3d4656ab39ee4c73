//! The peer: torchrun elastic, which restarts every process from a checkpoint when its membership changes. Called by `main`,
//! a round at a time.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::gaps::{AROUND, Commit, Gaps, Trace};

const PATIENCE: Duration = Duration::from_secs(90);
const SETTLE: usize = 2 * AROUND;

#[derive(Debug, Clone)]
pub struct Peer {
    /// Of the virtual environment.
    pub python: PathBuf,
    /// `train.py`.
    pub script: PathBuf,
    /// Decoded images and labels, so that a restart needn't.
    pub data: PathBuf,
    pub batch_size: u32,
}

impl Peer {
    /// Makes the virtual environment if there is none and no `python` is named; that fetches about 800 MB, once.
    pub fn new(python: Option<PathBuf>, data: PathBuf, batch_size: u32) -> Result<Peer> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("torchrun");
        let python = match python {
            Some(python) => python,
            None => {
                let made = Command::new(folder.join("venv.sh")).stderr(Stdio::inherit()).output()?;
                ensure!(made.status.success(), "there is no virtual environment with torch");
                Path::new(String::from_utf8_lossy(&made.stdout).trim()).join("bin/python")
            }
        };
        Ok(Peer { python, script: folder.join("train.py"), data, batch_size })
    }
}

/// An agent of torchrun's. Its workers are in sessions of their own, and must be killed one by one.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        for pid in family(self.0.id()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.0.wait();
    }
}

/// A process of ours and all below it.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

struct Job<'a> {
    peer: &'a Peer,
    folder: &'a Path,
    port: u16,
    trace: Trace,
}

impl Job<'_> {
    /// The first one hosts the rendezvous.
    fn agent(&self, is_host: bool) -> Result<Agent> {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("log"))?;
        let child = Command::new(&self.peer.python)
            .args(["-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=100"])
            // The change comes as soon as it can: looked for every 100 ms, the last call at its least, a dead member given up
            // after five seconds (at two, live ones were given up too).
            .args(["--monitor-interval=0.1", "--rdzv-backend=c10d", "--rdzv-id=resize", "--local-addr=127.0.0.1"])
            .arg(format!("--rdzv-endpoint=127.0.0.1:{}", self.port))
            .arg(format!("--rdzv-conf=is_host={is_host},last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5"))
            .arg(&self.peer.script)
            .args([&self.peer.data, self.folder])
            .arg(self.peer.batch_size.to_string())
            // At its default members cache the store of the first round, and a newcomer hangs.
            .env("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
            .env("OMP_NUM_THREADS", "1")
            .env("GLOO_SOCKET_IFNAME", "lo")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} does not start", self.peer.python.display()))?;
        Ok(Agent(child))
    }

    fn until(&mut self, what: &str, done: impl Fn(&[Commit]) -> bool) -> Result<()> {
        let start = Instant::now();
        while !done(self.trace.refresh()?) {
            if start.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(20).collect();
                bail!("torchrun: {what} did not come about; the last lines of its log, backwards: {tail:#?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The pause of the next change of processes, once `SETTLE` steps follow it.
    fn change(&mut self, steps_per_epoch: u64) -> Result<f64> {
        let from = self.trace.commits.len() - 1;
        let changed = |commits: &[_]| Gaps { commits, steps_per_epoch }.change(from);
        self.until("the change", |commits| changed(commits).is_some_and(|at| commits.len() > at + SETTLE))?;
        let gaps = Gaps { commits: &self.trace.commits, steps_per_epoch };
        let index = gaps.change(from).context("it was there")?;
        gaps.pause_ms(index).context("steps lie around it")
    }
}

/// What changes of the peer's cost beyond the larger median step, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Restart {
    /// A member comes, which is asked for and ready.
    pub grow_ms: f64,
    /// A member is killed: one that leaves as it should closes the rendezvous for all (pytorch issue 91943). So this holds the
    /// time in which the rest find it dead, too.
    pub shrink_ms: f64,
}

/// One grow 1 to 2 and one shrink 2 to 1.
pub fn grow_and_shrink(peer: &Peer, folder: &Path) -> Result<Restart> {
    std::fs::create_dir_all(folder)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut job = Job { peer, folder, port, trace: Trace::at(folder.join("trace.csv")) };
    let _stays = job.agent(true)?;
    job.until("the first steps", |commits| commits.len() > SETTLE)?;
    let joins = job.agent(false)?;
    // It doesn't validate, so no gap is left out.
    let grow_ms = job.change(u64::MAX)?;
    drop(joins);
    let shrink_ms = job.change(u64::MAX)?;
    Ok(Restart { grow_ms, shrink_ms })
}
