//! The seed tree: every draw comes from a stream named by purpose and number, never from ambient randomness.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A node of the seed tree. Children are independent of each other and of the order in which they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream for `purpose` and `number`, for instance `("trial", 17)`.
    pub fn child(self, purpose: &str, number: u64) -> Seed {
        let mut hash = Sha256::new();
        hash.update(self.0.to_le_bytes());
        hash.update((purpose.len() as u64).to_le_bytes());
        hash.update(purpose.as_bytes());
        hash.update(number.to_le_bytes());
        let digest = hash.finalize();
        let mut word = [0u8; 8];
        word.copy_from_slice(&digest[..8]);
        Seed(u64::from_le_bytes(word))
    }

    pub fn rng(self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0)
    }
}
