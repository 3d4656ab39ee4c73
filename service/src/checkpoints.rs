//! The store of checkpoints: bytes under the hash of their content, behind `object_store`. Called by the checkpoint routes.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{MultipartUpload, ObjectStore, PutPayload};
use sha2::{Digest, Sha256};

/// The largest checkpoint that is taken.
pub const MAX_CHECKPOINT_BYTES: u64 = 8 << 30;
const PART_BYTES: usize = 8 << 20;

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
    #[error(transparent)]
    Store(#[from] object_store::Error),
}

#[derive(Debug, Clone)]
pub struct CheckpointStore {
    store: Arc<dyn ObjectStore>,
}

impl CheckpointStore {
    /// A store in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn folder(path: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path).map_err(|error| anyhow::anyhow!("cannot make the checkpoint folder {}: {error}", path.display()))?;
        let store = LocalFileSystem::new_with_prefix(path)?;
        Ok(CheckpointStore { store: Arc::new(store) })
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

    /// Writes bytes under their hash; they appear whole or not at all. Returns how many.
    ///
    /// # Errors
    /// The bytes do not hash to `name`, are too many, break off, or cannot be written; nothing is left of them then.
    pub async fn put<S, E>(&self, name: &Sha256Hex, body: S) -> Result<u64, PutError>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let mut upload = self.store.put_multipart(&name.key()).await?;
        let outcome = match write(upload.as_mut(), name, body).await {
            Ok(bytes) => upload.complete().await.map(|_| bytes).map_err(PutError::from),
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            upload.abort().await.unwrap_or_else(|error| tracing::warn!(cause = %error, "a broken upload's temporary file stays"));
        }
        outcome
    }
}

async fn write<S, E>(upload: &mut dyn MultipartUpload, name: &Sha256Hex, mut body: S) -> Result<u64, PutError>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    let mut hash = Sha256::new();
    let mut bytes = 0u64;
    let mut part = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| PutError::Body(error.to_string()))?;
        bytes += chunk.len() as u64;
        if bytes > MAX_CHECKPOINT_BYTES {
            return Err(PutError::TooLarge);
        }
        hash.update(&chunk);
        part.extend_from_slice(&chunk);
        if part.len() >= PART_BYTES {
            upload.put_part(PutPayload::from(std::mem::take(&mut part))).await?;
        }
    }
    let actual = hex::encode(hash.finalize());
    if actual != name.0 {
        return Err(PutError::Mismatch { actual });
    }
    upload.put_part(PutPayload::from(part)).await?;
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
        assert_eq!(store.size_bytes(&name).await.expect("readable"), None);
        assert_eq!(files(folder.path()), 0);
    }
}
