//! The agent's state folder: its lock, the node's identity, what was held last, and where everything else lies. Used by `agent` and
//! `supervise`.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use elastune_core::model::ids::{Incarnation, NodeId, TrialId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cli::Secret;
use crate::desired::Held;
use crate::service::Identity;

/// Longest path of a Unix socket, without the zero at its end (sun_path has 108 bytes).
const SOCKET_PATH_BYTES: usize = 107;

#[derive(Debug)]
pub struct StateFolder {
    root: PathBuf,
    /// Held as long as the agent lives: two agents on one folder would both start its processes.
    _lock: File,
}

#[derive(Serialize, Deserialize)]
struct StoredIdentity {
    node: NodeId,
    token: String,
}

impl StateFolder {
    /// Creates it if need be. Errors: not writable, or another agent holds it.
    pub fn open(root: &Path) -> Result<Self> {
        private_folder(root).with_context(|| format!("cannot make the state folder {}; give another --state", root.display()))?;
        let root = root.canonicalize()?;
        let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(root.join("lock"))?;
        if lock.try_lock().is_err() {
            bail!("another agent uses the state folder {}; end it, or give another --state", root.display());
        }
        private_folder(&root.join("trials"))?;
        Ok(StateFolder { root, _lock: lock })
    }

    /// None before the first registration.
    pub fn identity(&self) -> Result<Option<Identity>> {
        let stored: Option<StoredIdentity> = read(&self.root.join("node.json"))?;
        Ok(stored.map(|stored| Identity { node: stored.node, token: Secret::new(stored.token) }))
    }

    /// The file is readable by its owner only.
    pub fn keep_identity(&self, identity: &Identity) -> Result<()> {
        write(&self.root.join("node.json"), &StoredIdentity { node: identity.node, token: identity.token.reveal().to_owned() })
    }

    pub fn held(&self) -> Result<Held> {
        Ok(read(&self.root.join("held.json"))?.unwrap_or_default())
    }

    pub fn keep_held(&self, held: Held) -> Result<()> {
        write(&self.root.join("held.json"), &held)
    }

    pub fn outbox(&self) -> PathBuf {
        self.root.join("outbox.jsonl")
    }

    pub fn incarnations(&self) -> PathBuf {
        self.root.join("incarnations.jsonl")
    }

    pub fn trials(&self) -> Trials {
        Trials(self.root.join("trials"))
    }

    /// Where workers connect; the same after every restart. A path too long for a socket is replaced by a short one.
    pub fn socket(&self) -> Result<PathBuf> {
        let near = self.root.join("agent.sock");
        if near.as_os_str().len() <= SOCKET_PATH_BYTES {
            return Ok(near);
        }
        let name = hex::encode(&Sha256::digest(self.root.as_os_str().as_encoded_bytes())[..8]);
        let folder = Path::new("/tmp").join(format!("elastune-{name}"));
        private_folder(&folder)?;
        let metadata = fs::symlink_metadata(&folder)?;
        if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
            bail!("{} is not this user's private folder; remove it, or give a shorter --state", folder.display());
        }
        Ok(folder.join("agent.sock"))
    }
}

/// The folder of trials' files: a folder a trial.
#[derive(Debug, Clone)]
pub struct Trials(PathBuf);

impl Trials {
    pub fn root(&self) -> &Path {
        &self.0
    }
    pub fn folder(&self, trial: TrialId) -> PathBuf {
        self.0.join(trial.to_string())
    }
    /// Checkpoints kept under their hashes: those to upload, those to start from.
    pub fn durable(&self, trial: TrialId) -> PathBuf {
        self.folder(trial).join("durable")
    }
    /// The only argument of the incarnation's process.
    pub fn config(&self, trial: TrialId, incarnation: Incarnation) -> PathBuf {
        self.folder(trial).join(format!("{incarnation}.json"))
    }
    pub fn stdout(&self, trial: TrialId, incarnation: Incarnation) -> PathBuf {
        self.folder(trial).join(format!("{incarnation}.out"))
    }
    pub fn stderr(&self, trial: TrialId, incarnation: Incarnation) -> PathBuf {
        self.folder(trial).join(format!("{incarnation}.err"))
    }
}

pub fn private_folder(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text).with_context(|| format!("{} is damaged; remove it", path.display()))?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Whole or not at all, and on disk when it returns.
pub fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    replace(path, |file| Ok(serde_json::to_writer(file, value)?)).with_context(|| format!("cannot write {}", path.display()))
}

/// Fills a new file and puts it in `path`'s place; the file is on disk when it returns.
pub fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let temporary = path.with_extension("new");
    let file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    let mut buffered = std::io::BufWriter::new(file);
    fill(&mut buffered)?;
    buffered.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    fs::rename(&temporary, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_agent_a_folder() {
        let temporary = tempfile::tempdir().expect("a folder");
        let first = StateFolder::open(temporary.path()).expect("free");
        assert!(StateFolder::open(temporary.path()).expect_err("held").to_string().contains("--state"));
        drop(first);
        StateFolder::open(temporary.path()).expect("free again");
    }

    #[test]
    fn the_token_is_the_owners_alone() {
        let temporary = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(temporary.path()).expect("free");
        assert!(state.identity().expect("none is no error").is_none());
        state.keep_identity(&Identity { node: NodeId(uuid::Uuid::nil()), token: Secret::new("t") }).expect("writable");
        assert_eq!(state.identity().expect("readable").expect("kept").token.reveal(), "t");
        assert_eq!(fs::metadata(temporary.path().join("node.json")).expect("there").mode() & 0o777, 0o600);
    }

    #[test]
    fn a_long_path_gets_a_short_socket() {
        let temporary = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(&temporary.path().join("x".repeat(120))).expect("free");
        let socket = state.socket().expect("there is a place");
        assert!(socket.as_os_str().len() <= SOCKET_PATH_BYTES);
        assert_eq!(socket, state.socket().expect("there is a place"), "the same each time");
        fs::remove_dir_all(socket.parent().expect("its folder")).expect("ours");
    }
}
