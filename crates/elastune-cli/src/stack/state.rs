//! The stack's state folder: who holds it, where its parts lie, which processes it started. Called by the stack.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

/// Where `up` keeps its state unless told: root's must be enterable by the user that Postgres runs as.
pub fn default_folder() -> PathBuf {
    if geteuid().is_root() {
        return PathBuf::from("/var/lib/elastune");
    }
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from).join(".local/share");
    std::env::var_os("XDG_DATA_HOME").map_or_else(home, PathBuf::from).join("elastune")
}

/// A state folder that this process holds; others are refused until it ends.
#[derive(Debug)]
pub struct State {
    root: PathBuf,
    _lock: File,
}

impl State {
    pub fn open(root: &Path) -> Result<State> {
        // Enterable, not readable: Postgres may run as another user than root, in a folder of its own below.
        fs::DirBuilder::new().recursive(true).mode(0o711).create(root).with_context(|| format!("cannot make {}", root.display()))?;
        let root = root.canonicalize().with_context(|| format!("cannot resolve {}", root.display()))?;
        if geteuid().is_root() {
            fs::set_permissions(&root, fs::Permissions::from_mode(0o711))?;
        }
        let path = root.join("lock");
        let lock = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.with_context(|| format!("cannot write {}", path.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another `elastune up` runs on {}; stop it, or choose another folder with --state", root.display());
        }
        let state = State { root, _lock: lock };
        state.folder("logs")?;
        Ok(state)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder of this state, made if need be, for its owner only.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    pub fn admin_token_file(&self) -> PathBuf {
        admin_token_file(&self.root)
    }

    fn processes(&self) -> PathBuf {
        self.root.join("processes")
    }

    /// Notes a process as ours, so that the next `up` can end it should this one be killed.
    pub fn note_process(&self, name: &str, pid: u32) -> Result<()> {
        let Some(started) = super::leftovers::start_time(pid) else { return Ok(()) };
        let mut lines: Vec<String> = self.noted().lines().filter(|l| !l.starts_with(&format!("{name} "))).map(String::from).collect();
        lines.push(format!("{name} {pid} {started}"));
        fs::write(self.processes(), lines.join("\n") + "\n").with_context(|| format!("cannot write {}", self.processes().display()))
    }

    /// Lines `name pid start-time`.
    pub fn noted(&self) -> String {
        fs::read_to_string(self.processes()).unwrap_or_default()
    }

    pub fn forget_processes(&self) {
        match fs::remove_file(self.processes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                eprintln!("elastune: cannot remove {}: {error}", self.processes().display())
            }
            _ => {}
        }
    }
}

/// Where the service of a state folder keeps the token that may do everything.
pub fn admin_token_file(root: &Path) -> PathBuf {
    root.join("admin-token")
}
