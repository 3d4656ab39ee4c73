//! Checkpoints on this node's disk, each in its trial's folder under its hash: secured when a worker has saved one, found or
//! fetched before a worker starts from one. Called by `link` and `launch`.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use elastune_core::model::ids::TrialId;
use elastune_core::model::trial::CheckpointRef;
use sha2::{Digest, Sha256};

use crate::backoff::Backoff;
use crate::service::{Failure, Service};
use crate::state::{Trials, private_folder};

/// Checkpoints of a trial that are kept beside those still to be uploaded.
const KEPT: usize = 2;

/// Whether the text is a hash as everyone writes it: it becomes a file's name and part of an address.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Gives the file a second name that the worker doesn't know, so that nothing it removes or renames is lost before the upload.
pub fn secure(trials: &Trials, trial: TrialId, saved: &Path, sha256: &str) -> io::Result<PathBuf> {
    if !is_sha256(sha256) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "sha256 is not 64 digits of lower-case hex"));
    }
    let folder = trials.durable(trial);
    private_folder(&folder)?;
    let path = folder.join(sha256);
    match std::fs::hard_link(saved, &path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let temporary = path.with_extension("new");
            std::fs::copy(saved, &temporary)?;
            std::fs::rename(&temporary, &path)?;
        }
        Err(error) => return Err(error),
    }
    Ok(path)
}

/// Removes all but the newest of a trial's checkpoints, leaving what `is_needed`.
pub fn prune(folder: &Path, is_needed: impl Fn(&Path) -> bool) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<_> = entries.flatten().filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    files.sort();
    files.truncate(files.len().saturating_sub(KEPT));
    for (_, path) in files.iter().filter(|(_, path)| !is_needed(path)) {
        let _ = std::fs::remove_file(path);
    }
}

/// The checkpoint's file: what lies here if its hash is right, else fetched for as long as it takes. Errors: the service has none.
pub async fn provide(service: &Service, trials: &Trials, trial: TrialId, checkpoint: &CheckpointRef) -> Result<PathBuf> {
    if !is_sha256(&checkpoint.sha256) {
        bail!("the checkpoint's hash `{}` is none", checkpoint.sha256);
    }
    let folder = trials.durable(trial);
    private_folder(&folder)?;
    let path = folder.join(&checkpoint.sha256);
    if has_hash(path.clone(), checkpoint.sha256.clone()).await {
        return Ok(path);
    }
    let temporary = folder.join(format!("{}.{}", checkpoint.sha256, uuid::Uuid::new_v4()));
    let mut backoff = Backoff::new();
    loop {
        match service.get_checkpoint(&checkpoint.sha256, &temporary).await {
            Ok(()) => break,
            Err(Failure::Refused { status, detail }) => {
                let _ = std::fs::remove_file(&temporary);
                bail!("the checkpoint {} cannot be fetched: {status} {detail}", checkpoint.sha256);
            }
            Err(failure) => tracing::debug!("cannot fetch a checkpoint: {failure}"),
        }
        tokio::time::sleep(backoff.fail()).await;
    }
    std::fs::rename(&temporary, &path)?;
    Ok(path)
}

async fn has_hash(path: PathBuf, sha256: String) -> bool {
    let hash = tokio::task::spawn_blocking(move || -> io::Result<String> {
        let mut hash = Sha256::new();
        io::copy(&mut std::fs::File::open(path)?, &mut hash)?;
        Ok(hex::encode(hash.finalize()))
    });
    matches!(hash.await, Ok(Ok(found)) if found == sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashes_become_names() {
        assert!(is_sha256(&"0f".repeat(32)));
        for bad in ["", "../../etc/passwd", &"0F".repeat(32), &"g".repeat(64), &"0".repeat(63)] {
            assert!(!is_sha256(bad), "{bad}");
        }
    }

    #[test]
    fn old_ones_go_and_needed_ones_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let start = std::time::SystemTime::UNIX_EPOCH;
        for age in 0..5u64 {
            let file = std::fs::File::create(folder.path().join(age.to_string())).expect("writable");
            file.set_modified(start + std::time::Duration::from_secs(age)).expect("ours");
        }
        prune(folder.path(), |path| path.ends_with("1"));
        let mut left: Vec<_> = std::fs::read_dir(folder.path()).expect("ours").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["1", "3", "4"]);
    }
}
