//! Waiting times between tries of a call that may fail for long: doubling up to 5 s, with jitter so that many agents don't
//! come back at the same moment. Used by every loop that talks to the service.

use std::time::Duration;

const FIRST_MS: u64 = 100;
const CAP_MS: u64 = 5_000;

/// One sequence of failures; make a new one after a success.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    pub fn new() -> Self {
        Self::default()
    }

    /// How long to wait after one more failure.
    pub fn fail(&mut self) -> Duration {
        let wait = delay(self.failures, uuid::Uuid::new_v4().as_u128() as u64);
        self.failures = self.failures.saturating_add(1);
        wait
    }
}

/// Between a half and the whole of min(100 ms * 2^failures, 5 s), picked by `jitter`.
fn delay(failures: u32, jitter: u64) -> Duration {
    let whole = FIRST_MS.saturating_mul(1 << failures.min(16)).min(CAP_MS);
    Duration::from_millis(whole / 2 + jitter % (whole / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn delays_grow_and_stay_under_the_cap(failures in 0u32..1000, jitter: u64) {
            let wait = delay(failures, jitter);
            prop_assert!(wait <= Duration::from_millis(CAP_MS));
            prop_assert!(wait >= delay(failures, 0));
            prop_assert!(failures < 6 || wait >= Duration::from_millis(CAP_MS / 2));
        }
    }
}
