//! One node: an agent with its workers. Started by tests through `World`.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::process::{self, Process};
use crate::{program, seconds};

/// How an agent is started.
#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    /// Of the loopback interface: 127.0.0.1, 127.0.0.2...
    pub address: String,
    /// CPU slots.
    pub slots: u16,
    /// Another program than `trial-worker`, for workers that dawdle.
    pub worker: Option<PathBuf>,
    /// Another way to the service than straight.
    pub server: Option<String>,
    /// Further arguments.
    pub arguments: Vec<String>,
}

impl Node {
    pub fn new(name: &str, slots: u16) -> Node {
        Node { name: name.into(), address: "127.0.0.1".into(), slots, worker: None, server: None, arguments: Vec::new() }
    }
}

#[derive(Debug)]
pub struct Agent {
    node: Node,
    state: PathBuf,
    data: PathBuf,
    server: String,
    token: String,
    process: Process,
}

impl Agent {
    pub fn start(node: Node, folder: &Path, data: &Path, server: &str, token: &str) -> Agent {
        let state = folder.join(&node.name);
        std::fs::create_dir_all(&state).expect("a folder for the agent");
        let process = launch(&node, &state, data, server, token);
        Agent { node, state, data: data.into(), server: server.into(), token: token.into(), process }
    }

    /// As `kill -9` of the agent alone: its workers train on.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    pub fn resume(&mut self) {
        self.process = launch(&self.node, &self.state, &self.data, &self.server, &self.token);
    }

    /// Pids of its workers, lowest first.
    pub fn workers(&self) -> Vec<u32> {
        let mut pids = process::with_argument(&self.state);
        pids.retain(|pid| *pid != self.process.pid());
        pids.sort_unstable();
        pids
    }

    pub fn kill_workers(&self) {
        for pid in self.workers() {
            process::kill(pid, Signal::KILL);
        }
    }

    pub fn log(&self) -> String {
        self.process.log()
    }
}

fn launch(node: &Node, state: &Path, data: &Path, server: &str, token: &str) -> Process {
    let mut command = Command::new(program("trial-agent"));
    command.args([
        "--service",
        node.server.as_deref().unwrap_or(server),
        "--name",
        &node.name,
        "--devices",
        &format!("cpu:{}", node.slots),
    ]);
    command.args(["--advertise", &node.address, "--listen", &node.address]).arg("--state").arg(state).arg("--data").arg(data);
    if let Some(worker) = &node.worker {
        command.arg("--worker").arg(worker);
    }
    command.args(&node.arguments).env("ELASTUNE_TOKEN", token);
    Process::start(command, &state.with_extension("log"))
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.process.end(Signal::TERM, seconds(5));
        self.kill_workers();
    }
}
