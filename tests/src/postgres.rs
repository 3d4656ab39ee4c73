//! A durable Postgres of a test's own, which may be killed and started again. Started by tests through `World`.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::process::Process;
use crate::{seconds, until};

#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    process: Option<Process>,
}

impl Postgres {
    /// Makes a cluster in `folder` and starts it.
    pub async fn start(folder: &Path) -> Postgres {
        std::fs::create_dir_all(folder).expect("a folder for Postgres");
        let mut postgres = Postgres { programs: programs(), folder: folder.to_path_buf(), process: None };
        if geteuid().is_root() {
            let given = Command::new("chown").arg("nobody:nogroup").arg(folder).status().expect("chown is everywhere");
            assert!(given.success(), "root may give a folder away");
        }
        let mut initdb = postgres.command("initdb");
        initdb.arg("-D").arg(folder.join("data")).args(["-U", "elastune", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        let made = initdb.output().expect("initdb starts");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        postgres.resume().await;
        postgres
    }

    /// Starts it again after a kill and waits until it has recovered.
    pub async fn resume(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.folder.join("data")).arg("-k").arg(&self.folder);
        command.args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
        self.process = Some(Process::start(command, &self.folder.with_extension("log")));
        let pid_file = self.folder.join("data/postmaster.pid");
        // The file of a killed server is there still, so that it names this one is a part of being ready.
        let pid = self.process.as_ref().map(Process::pid).expect("just started").to_string();
        until("Postgres takes connections", seconds(60), async || {
            let text = std::fs::read_to_string(&pid_file).ok()?;
            let lines: Vec<_> = text.lines().map(str::trim).collect();
            (lines.first() == Some(&pid.as_str()) && lines.get(7) == Some(&"ready")).then_some(())
        })
        .await;
    }

    pub fn url(&self) -> String {
        format!("postgres://elastune@localhost/postgres?host={}", self.folder.display())
    }

    /// Runs SQL that no API offers.
    pub async fn run(&self, sql: &str) {
        let mut psql = tokio::process::Command::from(self.command("psql"));
        psql.args(["--quiet", "--no-psqlrc", "--single-transaction", "--set", "ON_ERROR_STOP=1", "--command", sql, &self.url()]);
        let done = psql.output().await.expect("psql starts");
        assert!(done.status.success(), "psql: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// As `kill -9` of every process of the server.
    pub fn kill(&mut self) {
        let process = self.process.as_mut().expect("it runs");
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", process.pid())).unwrap_or_default();
        process.kill();
        for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            crate::process::kill(child, Signal::KILL);
        }
    }

    fn command(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.env("LC_ALL", "C").current_dir("/");
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            process.end(Signal::QUIT, seconds(20));
        }
    }
}

fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|e| e.path().join("bin")).filter(|bin| bin.join("initdb").is_file()).max();
    newest.expect("a Postgres server is installed; run `make setup`")
}
