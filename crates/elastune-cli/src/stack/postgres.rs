//! The embedded Postgres: found on this machine, made once, durable, reached over a Unix socket only. Called by the stack.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, geteuid};

use super::child::Child;
use super::state::State;

/// A cluster whose data folder exists.
#[derive(Debug, Clone)]
pub struct Postgres {
    programs: PathBuf,
    data: PathBuf,
    /// Enterable by this user and the server's only: who reaches the socket is let in.
    socket: PathBuf,
    user: Option<User>,
}

/// Whom the server runs as, since it refuses root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct User {
    name: String,
    uid: u32,
    gid: u32,
}

/// A socket's path may have 107 bytes, file name included.
const MAX_SOCKET_FOLDER: usize = 80;

impl Postgres {
    /// Finds the server's programs and makes the cluster if there is none. Errors name what to install or change.
    pub fn prepare(state: &State) -> Result<Postgres> {
        let programs = find_programs()?;
        let user = if geteuid().is_root() { Some(server_user(&fs::read_to_string("/etc/passwd")?)?) } else { None };
        let home = state.root().join("postgres");
        private_folder(&home, user.as_ref())?;
        let socket = home.join("socket");
        if socket.as_os_str().len() > MAX_SOCKET_FOLDER {
            bail!("{} is too long for a socket's path; choose a shorter --state", state.root().display());
        }
        private_folder(&socket, user.as_ref())?;
        let postgres = Postgres { programs, data: home.join("data"), socket, user };
        if let Some(user) = &postgres.user
            && let Some(closed) = first_closed(&home)
        {
            bail!(
                "Postgres runs as the user {}, who cannot enter {}; choose another --state, for instance /var/lib/elastune",
                user.name,
                closed.display()
            );
        }
        if !postgres.data.join("PG_VERSION").exists() {
            postgres.make(&home)?;
        }
        postgres.check_version()?;
        Ok(postgres)
    }

    pub fn url(&self) -> String {
        format!("postgres://elastune@localhost/elastune?host={}", self.socket.display())
    }

    pub fn child(&self, state: &State) -> Child {
        let own = self.clone();
        let command = move || {
            let mut command = own.command("postgres");
            command.arg("-D").arg(&own.data).arg("-k").arg(&own.socket).args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
            command
        };
        // SIGINT is Postgres' fast shutdown: sessions are ended, everything is on disk.
        Child { name: "postgres", log: state.log("postgres"), end: Signal::INT, grace: Duration::from_secs(60), command: Box::new(command) }
    }

    /// The server says in its pid file when it takes connections.
    pub fn is_ready(&self) -> bool {
        fs::read_to_string(self.data.join("postmaster.pid")).is_ok_and(|text| text.lines().nth(7).is_some_and(|l| l.trim() == "ready"))
    }

    fn make(&self, home: &Path) -> Result<()> {
        // Made beside its place and moved there when whole, so that a half-made one is never used.
        let new = home.join("data.new");
        if new.exists() {
            fs::remove_dir_all(&new).with_context(|| format!("cannot remove {}", new.display()))?;
        }
        let mut initdb = self.command("initdb");
        initdb.arg("-D").arg(&new).args(["-U", "elastune", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"]);
        run(initdb, "")?;
        let mut single = self.command("postgres");
        single.args(["--single", "-D"]).arg(&new).arg("postgres");
        run(single, "create database elastune\n")?;
        fs::rename(&new, &self.data).with_context(|| format!("cannot move {} to {}", new.display(), self.data.display()))
    }

    fn check_version(&self) -> Result<()> {
        let made_by = fs::read_to_string(self.data.join("PG_VERSION")).with_context(|| format!("cannot read {}", self.data.display()))?;
        let mut version = self.command("postgres");
        version.arg("--version");
        let installed = run(version, "")?;
        let major = installed.split_whitespace().find_map(|word| word.split('.').next().filter(|w| w.parse::<u32>().is_ok()));
        if major != Some(made_by.trim()) {
            bail!(
                "{} was made by Postgres {}, and {} is {}; install postgresql-{0}",
                self.data.display(),
                made_by.trim(),
                self.programs.display(),
                installed.trim()
            );
        }
        Ok(())
    }

    /// A program of the server, to be run as the server's user.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.env("LC_ALL", "C").current_dir("/");
        if let Some(user) = &self.user {
            // Giving up root's uid drops its supplementary groups too.
            command.uid(user.uid).gid(user.gid);
        }
        command
    }
}

/// Runs a program to its end, with `input`; its output, or an error with what it said.
fn run(mut command: Command, input: &str) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let mut stdin = child.stdin.take().context("its input is piped")?;
    stdin.write_all(input.as_bytes()).with_context(|| format!("cannot write to {name}"))?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{name} failed ({}):\n  {}{}", output.status, said, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(said)
}

/// The newest of Debian's installed servers, else what the PATH has.
fn find_programs() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|e| Some((e.file_name().to_str()?.parse().ok()?, e.path().join("bin"))))
        .filter(|(_, p)| p.join("initdb").is_file())
        .collect();
    found.sort();
    let on_path = || std::env::split_paths(&std::env::var_os("PATH")?).find(|p| p.join("initdb").is_file() && p.join("postgres").is_file());
    found
        .pop()
        .map(|(_, path)| path)
        .or_else(on_path)
        .context("no Postgres server is installed; run: apt-get install postgresql, or set DATABASE_URL to one that runs elsewhere")
}

/// From the text of /etc/passwd: a user who is not root and made for this.
fn server_user(passwd: &str) -> Result<User> {
    let users: Vec<User> = passwd
        .lines()
        .filter_map(|line| match line.split(':').collect::<Vec<_>>()[..] {
            [name, _, uid, gid, ..] => Some(User { name: name.into(), uid: uid.parse().ok()?, gid: gid.parse().ok()? }),
            _ => None,
        })
        .collect();
    let named = |name: &str| users.iter().find(|u| u.name == name && u.uid != 0).cloned();
    ["postgres", "nobody"]
        .into_iter()
        .find_map(named)
        .context("Postgres refuses to run as root; add a user for it: useradd --system postgres")
}

fn private_folder(path: &Path, user: Option<&User>) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(|| format!("cannot make {}", path.display()))?;
    if let Some(user) = user {
        chown(path, Some(user.uid), Some(user.gid)).with_context(|| format!("cannot give {} to {}", path.display(), user.name))?;
    }
    Ok(())
}

/// The first folder above `path` that others may not pass through.
fn first_closed(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|p| fs::metadata(p).is_ok_and(|m| m.mode() & 0o001 == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_never_runs_as_root() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/x\npostgres:x:104:107::/:/x\n";
        assert_eq!(server_user(passwd).expect("there is one"), User { name: "postgres".into(), uid: 104, gid: 107 });
        assert_eq!(server_user("root:x:0:0::/:/x\nnobody:x:9:8::/:/x").expect("there is one").uid, 9);
        assert!(server_user("root:x:0:0::/:/x\npostgres:x:0:0::/:/x").is_err());
    }

    #[test]
    fn closed_folders_are_named() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).expect("made");
        let close = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("set");
        close(0o700);
        assert_eq!(first_closed(&inner), Some(folder.path()));
        close(0o711);
        assert_eq!(first_closed(&inner), None);
    }

    #[tokio::test]
    async fn a_cluster_is_made_once_started_twice_and_ends_in_order() {
        use super::super::child::Supervised;
        let folder = tempfile::tempdir().expect("a folder");
        let state = std::sync::Arc::new(State::open(folder.path()).expect("it opens"));
        for _ in 0..2 {
            let postgres = Postgres::prepare(&state).expect("it is made");
            let server = Supervised::start(postgres.child(&state), state.clone()).expect("it starts");
            server.until_ready(Duration::from_secs(60), async || postgres.is_ready()).await.expect("it takes connections");
            server.stop().await;
            assert!(!postgres.data.join("postmaster.pid").exists(), "it ended by itself");
        }
    }
}
