//! Which samples a step trains: pure functions of seed, step and sizes, never of the width. Called by `train` and the session.

use std::ops::Range;

use elastune_core::rng::Seed;

use crate::fold;

/// How many samples an epoch, a step and a shard have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    pub samples: u64,
    pub batch_size: u64,
    pub shards: u32,
}

impl Schedule {
    /// The last one of an epoch may be smaller; it is trained too.
    pub fn steps_per_epoch(&self) -> u64 {
        self.samples.div_ceil(self.batch_size)
    }

    /// Epochs done after `step` steps, fractions included.
    pub fn resource(&self, step: u64) -> f64 {
        let (epoch, within) = (step / self.steps_per_epoch(), step % self.steps_per_epoch());
        epoch as f64 + (within * self.batch_size) as f64 / self.samples as f64
    }

    /// The number of steps that reaches the resource; it ends with an epoch.
    pub fn steps(&self, resource: f64) -> u64 {
        (resource.clamp(0.0, f64::from(u32::MAX)).ceil() as u64).saturating_mul(self.steps_per_epoch())
    }

    /// The part of the epoch's permutation that step `step` (from 0) trains.
    pub fn batch(&self, step: u64) -> Range<u64> {
        let first = step % self.steps_per_epoch() * self.batch_size;
        first..(first + self.batch_size).min(self.samples)
    }

    /// The part of it that a shard trains.
    pub fn shard(&self, step: u64, shard: u32) -> Range<u64> {
        let batch = self.batch(step);
        let slice = fold::slice(batch.end - batch.start, self.shards, shard);
        batch.start + slice.start..batch.start + slice.end
    }

    /// Order of the samples in an epoch (from 0): Fisher and Yates.
    pub fn permutation(&self, seed: Seed, epoch: u64) -> Vec<i64> {
        use rand_core::RngCore;
        let mut rng = seed.child("epoch", epoch).rng();
        let mut order: Vec<i64> = (0..self.samples as i64).collect();
        for last in (1..order.len()).rev() {
            // The high half of a 128-bit product: uniform but for 2^-40 of bias at these sizes.
            let pick = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
            order.swap(last, pick as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_trains_each_sample_once() {
        for (samples, batch_size, shards) in [(1000, 256, 4), (97, 10, 8), (5, 64, 64), (256, 256, 3)] {
            let schedule = Schedule { samples, batch_size, shards };
            let order = schedule.permutation(Seed(7), 2);
            let mut seen: Vec<i64> = (0..schedule.steps_per_epoch())
                .flat_map(|step| (0..shards).flat_map(move |shard| schedule.shard(step + 3 * schedule.steps_per_epoch(), shard)))
                .map(|at| order[at as usize])
                .collect();
            assert_ne!(seen, (0..samples as i64).collect::<Vec<_>>());
            seen.sort_unstable();
            assert_eq!(seen, (0..samples as i64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn epochs_and_seeds_differ_in_order() {
        let schedule = Schedule { samples: 1000, batch_size: 100, shards: 4 };
        assert_ne!(schedule.permutation(Seed(7), 0), schedule.permutation(Seed(7), 1));
        assert_ne!(schedule.permutation(Seed(7), 0), schedule.permutation(Seed(8), 0));
        assert_eq!(schedule.permutation(Seed(7), 0), schedule.permutation(Seed(7), 0));
    }

    #[test]
    fn resources_and_steps_agree_at_epochs() {
        let schedule = Schedule { samples: 60_000, batch_size: 256, shards: 4 };
        assert_eq!(schedule.steps_per_epoch(), 235);
        assert_eq!(schedule.resource(470), 2.0);
        assert_eq!(schedule.steps(2.0), 470);
        assert_eq!(schedule.steps(1.5), 470);
        assert_eq!(schedule.batch(469), 59_904..60_000);
        assert_eq!(schedule.steps(f64::NAN), 0);
    }
}
