//! What can go wrong: the text of the C++ exception, and whether it was a timeout. Returned by every call of this crate.

use std::ffi::NulError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A peer, or a key of the store, did not come in time.
    #[error("timed out: {0}")]
    Timeout(String),
    /// The peer or the store is gone, the group was aborted, or the arguments don't fit: the message of c10d.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Timeout(_))
    }
}

impl From<NulError> for Error {
    fn from(_: NulError) -> Error {
        Error::Failed("keys, prefixes and addresses may not hold a zero byte".into())
    }
}
