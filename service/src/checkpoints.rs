//! The store of checkpoints: bytes under the hash of their content. Called by the checkpoint routes.
//!
//! Read through `object_store`. Written here, since its `LocalFileSystem` renames without flushing: after a power cut a name could
//! stand for bytes that never reached the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use sha2::{Digest, Sha256};
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

/// The largest checkpoint that is taken.
pub const MAX_CHECKPOINT_BYTES: u64 = 8 << 30;
/// Bytes gathered before they are written.
const PART_BYTES: usize = 1 << 20;
/// Where uploads lie until they are whole.
const PARTS: &str = "parts";
/// A part older than this was left by a process that is gone.
const PART_AGE: Duration = Duration::from_secs(24 * 3600);

/// Name of a checkpoint: 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sha256Hex(String);

impl Sha256Hex {
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        valid.then(|| Sha256Hex(text.into()))
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Two levels, so that no folder gets too long.
    fn key(&self) -> Key {
        Key::from(format!("{}/{}", &self.0[..2], self.0))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("the bytes hash to {actual}")]
    Mismatch { actual: String },
    #[error("more than {MAX_CHECKPOINT_BYTES} bytes")]
    TooLarge,
    #[error("the upload broke off: {0}")]
    Body(String),
    #[error("cannot be written: {0}")]
    Write(#[from] std::io::Error),
}

#[derive(Debug, Clone)]
pub struct CheckpointStore {
    folder: PathBuf,
    store: Arc<dyn ObjectStore>,
}

impl CheckpointStore {
    /// A store in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn folder(path: &Path) -> anyhow::Result<Self> {
        let parts = path.join(PARTS);
        std::fs::create_dir_all(&parts)
            .map_err(|error| anyhow::anyhow!("cannot make the checkpoint folder {}: {error}", path.display()))?;
        for entry in std::fs::read_dir(&parts)?.flatten() {
            let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > PART_AGE) {
                // Another replica may have been quicker.
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let store = LocalFileSystem::new_with_prefix(path)?;
        Ok(CheckpointStore { folder: path.into(), store: Arc::new(store) })
    }

    /// Size of a checkpoint in bytes, if it is there.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn size_bytes(&self, name: &Sha256Hex) -> object_store::Result<Option<u64>> {
        match self.store.head(&name.key()).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes of a checkpoint, as they are read, and how many there are.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn get(&self, name: &Sha256Hex) -> object_store::Result<Option<(u64, BoxStream<'static, object_store::Result<Bytes>>)>> {
        match self.store.get(&name.key()).await {
            Ok(found) => Ok(Some((found.meta.size, found.into_stream()))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes bytes; those that are gone already are no error.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn delete(&self, name: &Sha256Hex) -> object_store::Result<()> {
        match self.store.delete(&name.key()).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Names of the checkpoints that were written before `unix_s`.
    pub fn written_before(&self, unix_s: i64) -> BoxStream<'static, object_store::Result<Sha256Hex>> {
        let old = move |meta: object_store::ObjectMeta| {
            let name = meta.location.filename().and_then(Sha256Hex::parse)?;
            (meta.last_modified.timestamp() < unix_s).then_some(Ok(name))
        };
        self.store.list(None).filter_map(move |listed| std::future::ready(listed.map_or_else(|error| Some(Err(error)), old))).boxed()
    }

    /// Writes bytes under their hash; they appear whole or not at all. Returns how many.
    ///
    /// # Errors
    /// The bytes do not hash to `name`, are too many, break off, or cannot be written; nothing is left of them then.
    pub async fn put<S, E>(&self, name: &Sha256Hex, body: S) -> Result<u64, PutError>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let part = self.folder.join(PARTS).join(format!("{}.part", Uuid::new_v4()));
        let guard = RemoveOnDrop(&part);
        let bytes = write(&part, name, body).await?;
        let folder = self.folder.join(&name.0[..2]);
        fs::create_dir_all(&folder).await?;
        fs::rename(&part, folder.join(&name.0)).await?;
        std::mem::forget(guard);
        File::open(&folder).await?.sync_all().await?;
        File::open(&self.folder).await?.sync_all().await?;
        Ok(bytes)
    }
}

/// Also when the client leaves and the upload's future is dropped.
struct RemoveOnDrop<'a>(&'a Path);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

async fn write<S, E>(part: &Path, name: &Sha256Hex, mut body: S) -> Result<u64, PutError>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    let mut file = File::create_new(part).await?;
    let mut hash = Sha256::new();
    let mut bytes = 0u64;
    let mut gathered = Vec::with_capacity(PART_BYTES);
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| PutError::Body(error.to_string()))?;
        bytes += chunk.len() as u64;
        if bytes > MAX_CHECKPOINT_BYTES {
            return Err(PutError::TooLarge);
        }
        hash.update(&chunk);
        gathered.extend_from_slice(&chunk);
        if gathered.len() >= PART_BYTES {
            file.write_all(&gathered).await?;
            gathered.clear();
        }
    }
    let actual = hex::encode(hash.finalize());
    if actual != name.0 {
        return Err(PutError::Mismatch { actual });
    }
    file.write_all(&gathered).await?;
    file.sync_all().await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{TryStreamExt, stream};

    fn name(bytes: &[u8]) -> Sha256Hex {
        Sha256Hex::parse(&hex::encode(Sha256::digest(bytes))).expect("a hash")
    }

    fn chunks(bytes: &[u8]) -> impl Stream<Item = Result<Bytes, String>> + Unpin + use<> {
        let chunks: Vec<_> = bytes.chunks(1 << 20).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        stream::iter(chunks)
    }

    fn files(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
    }

    #[tokio::test]
    async fn bytes_come_back_as_they_went() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = CheckpointStore::folder(folder.path()).expect("a store");
        for size in [0usize, 1, PART_BYTES, PART_BYTES + 7, 2 * PART_BYTES + (1 << 20)] {
            let bytes: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
            let name = name(&bytes);
            assert_eq!(store.size_bytes(&name).await.expect("readable"), None);
            assert_eq!(store.put(&name, chunks(&bytes)).await.expect("stored"), size as u64);
            let (length, stream) = store.get(&name).await.expect("readable").expect("there");
            assert_eq!(length, size as u64);
            let read: Vec<Bytes> = stream.try_collect().await.expect("readable");
            assert!(read.concat() == bytes, "{size} bytes");
        }
    }

    #[tokio::test]
    async fn a_wrong_hash_or_a_broken_upload_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = CheckpointStore::folder(folder.path()).expect("a store");
        let name = name(b"this");
        assert!(matches!(store.put(&name, chunks(b"that")).await, Err(PutError::Mismatch { .. })));
        let broken = stream::iter([Ok(Bytes::from(vec![1; PART_BYTES + 1])), Err("gone".to_string())]);
        assert!(matches!(store.put(&name, broken).await, Err(PutError::Body(_))));
        // The client leaves in the middle.
        let stuck = stream::iter([Ok::<_, String>(Bytes::from(vec![1; PART_BYTES + 1]))]).chain(stream::pending());
        let left = tokio::time::timeout(std::time::Duration::from_millis(200), store.put(&name, Box::pin(stuck))).await;
        assert!(left.is_err());
        assert_eq!(store.size_bytes(&name).await.expect("readable"), None);
        assert_eq!(files(folder.path()), 0);
    }
}
