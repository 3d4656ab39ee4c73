//! Pollux's genetic search, on widths: populations of whole allocations, crossed over at one trial, mutated towards and away from
//! what is, repaired to the capacity. Called by `pollux` only.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::Memory;
use crate::rng::Seed;
use crate::sched::ClaimId;

/// Chance that a trial goes back to what it has, and that it falls to its least width.
const RESET: f64 = 0.1;
/// Allocations that are remembered.
const KEPT: usize = 16;

/// The field of one search: by claim, the choices (devices, worth), the least first.
pub(super) struct Arena {
    pub ids: Vec<ClaimId>,
    pub current: Vec<u32>,
    pub worth: Vec<Vec<(u32, f64)>>,
    pub devices: u32,
}

/// Per claim the index of its choice; with the sum of worths.
#[derive(Clone, PartialEq)]
struct Individual {
    at: Vec<u16>,
    fitness: f64,
}

impl Arena {
    /// Devices for each claim, and what to start from next time. The best of a population is never lost, so the answer is no worse
    /// than staying as it is.
    pub fn search(&self, population: u32, generations: u32, memory: &Memory, seed: Seed) -> (Vec<u32>, Memory) {
        let mut rng = seed.child("pollux", 0).rng();
        let size = (population as usize).max(2);
        let mut all: Vec<Individual> = vec![self.individual(self.nearest(&self.current), &mut rng)];
        for number in 0..memory.population.first().map_or(0, |(_, widths)| widths.len()) {
            let known = |id: &ClaimId| memory.population.iter().find(|(known, _)| known == id).and_then(|(_, widths)| widths.get(number));
            let wish: Vec<u32> = self.ids.iter().map(|id| known(id).map_or(0, |width| u32::from(*width))).collect();
            all.push(self.individual(self.nearest(&wish), &mut rng));
        }
        for _ in 0..generations {
            let parents = all.len();
            while all.len() < parents + size {
                let (a, b) = (self.winner(&all[..parents], &mut rng), self.winner(&all[..parents], &mut rng));
                let cut = rng.random_range(0..=self.ids.len());
                let mut child: Vec<u16> = a.at[..cut].iter().chain(&b.at[cut..]).copied().collect();
                self.mutate(&mut child, &mut rng);
                all.push(self.individual(child, &mut rng));
            }
            all.sort_by(|a, b| b.fitness.total_cmp(&a.fitness).then(a.at.cmp(&b.at)));
            all.dedup();
            all.truncate(size);
        }
        let devices = |individual: &Individual| -> Vec<u32> { self.chosen(individual).map(|(devices, _)| devices).collect() };
        let kept: Vec<Vec<u32>> = all.iter().take(KEPT).map(devices).collect();
        let mut population: Vec<(ClaimId, Vec<u16>)> =
            (0..self.ids.len()).map(|j| (self.ids[j], kept.iter().map(|widths| widths[j] as u16).collect())).collect();
        population.sort_by_key(|(id, _)| *id);
        (kept.into_iter().next().unwrap_or_default(), Memory { population })
    }

    fn chosen<'a>(&'a self, individual: &'a Individual) -> impl Iterator<Item = (u32, f64)> + 'a {
        self.worth.iter().zip(&individual.at).map(|(choices, at)| choices[*at as usize])
    }

    /// The widest choices that are not above the wish.
    fn nearest(&self, wish: &[u32]) -> Vec<u16> {
        let below =
            |(choices, wish): (&Vec<(u32, f64)>, &u32)| choices.iter().rposition(|(devices, _)| devices <= wish).unwrap_or(0) as u16;
        self.worth.iter().zip(wish).map(below).collect()
    }

    fn individual(&self, mut at: Vec<u16>, rng: &mut ChaCha8Rng) -> Individual {
        self.repair(&mut at, rng);
        let mut individual = Individual { at, fitness: 0.0 };
        individual.fitness = self.chosen(&individual).map(|(_, worth)| worth).sum();
        individual
    }

    /// The fitter of two.
    fn winner<'a>(&self, parents: &'a [Individual], rng: &mut ChaCha8Rng) -> &'a Individual {
        let (a, b) = (&parents[rng.random_range(0..parents.len())], &parents[rng.random_range(0..parents.len())]);
        if a.fitness >= b.fitness { a } else { b }
    }

    fn mutate(&self, at: &mut [u16], rng: &mut ChaCha8Rng) {
        let now = self.nearest(&self.current);
        for (j, at) in at.iter_mut().enumerate() {
            let draw: f64 = rng.random();
            if draw < RESET {
                *at = now[j];
            } else if draw < 2.0 * RESET {
                *at = 0;
            }
        }
        // One or two trials take some of what is free.
        for _ in 0..2 {
            if !at.is_empty() {
                let j = rng.random_range(0..at.len());
                at[j] = rng.random_range(at[j]..self.worth[j].len() as u16);
            }
        }
    }

    /// Narrows trials, in a random turn, until all fit.
    fn repair(&self, at: &mut [u16], rng: &mut ChaCha8Rng) {
        let devices = |at: &[u16], j: usize| self.worth[j][at[j] as usize].0;
        let mut used: u32 = (0..at.len()).map(|j| devices(at, j)).sum();
        while used > self.devices {
            let first = rng.random_range(0..at.len());
            let Some(j) = (0..at.len()).map(|step| (first + step) % at.len()).find(|&j| at[j] > 0) else { return };
            used -= devices(at, j);
            at[j] -= 1;
            used += devices(at, j);
        }
    }
}
