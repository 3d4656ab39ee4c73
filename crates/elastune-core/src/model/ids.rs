//! Names of things. Uuids are made by whoever does IO and passed in, or derived from other names, never drawn here.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

uuid_ids! {
    /// One tuning run.
    StudyId,
    /// One evaluation of a study.
    TrialId,
    /// One machine that an agent speaks for.
    NodeId,
    /// One worker process; never reused.
    Incarnation,
}

impl Incarnation {
    /// The process that `order` of `attempt` asks for as its `rank`-th joiner. Derived, so that carry-out stays pure.
    pub fn derive(trial: TrialId, attempt: u32, order: u32, rank: u32) -> Self {
        let mut hash = Sha256::new();
        hash.update(trial.0.as_bytes());
        for number in [attempt, order, rank] {
            hash.update(number.to_le_bytes());
        }
        let digest = hash.finalize();
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&digest[..16]);
        Incarnation(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

/// Trials that become runnable together (a rung, a batch): Fluid's TrialGroup (MLSys'21, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u64);
