//! NSGA-II: parents chosen by Pareto rank and crowding, children crossed and mutated (Deb et al., IEEE TEC 6 (2002)); steady-state
//! (Durillo et al., EMO 2009): every trial that ends may join the population at once, so that workers never wait for a generation.
//! Called by `Searcher` (children) and `Learner` (the fold).

mod ranking;

use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::encode::Axis;
use super::history::{Ended, How, Point};
use super::normal;
use super::space::Space;
use crate::model::space::Params;
use crate::rng::Seed;

/// Chance that a child has two parents.
const CROSSED: f64 = 0.9;
/// How near children stay to their parents, and mutants to what they were: the higher, the nearer.
const CROSS_NEARNESS: f64 = 2.0;
const MUTATION_NEARNESS: f64 = 5.0;
/// Children bred before a random one is taken, where none keeps the constraints.
const TRIES: u64 = 100;

/// The population, the fittest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    individuals: Vec<Individual>,
    /// Trials that have ended so far.
    told: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Individual {
    number: u32,
    point: Point,
    /// Less is better in each; empty: it failed, worse than any other.
    losses: Vec<f64>,
}

impl State {
    /// Takes a trial that has ended.
    pub fn ended(&mut self, ended: Ended, population: u32) {
        if !ended.counts() {
            return;
        }
        self.told += 1;
        // What was stopped early did worse than what was not.
        let losses = if ended.how == How::Completed { ended.told.losses } else { Vec::new() };
        self.individuals.push(Individual { number: ended.told.number, point: ended.told.point, losses });
        let losses: Vec<&[f64]> = self.individuals.iter().map(|individual| individual.losses.as_slice()).collect();
        let mut order = ranking::fittest(&losses);
        order.truncate(population as usize);
        self.individuals = order.into_iter().map(|index| self.individuals[index].clone()).collect();
    }
}

/// The child whose stream is `seed`; None: the first trials are random, and so is one for which no child keeps the constraints.
pub fn suggest(space: &Space, axes: &[Axis], state: &State, population: u32, seed: Seed) -> Option<Params> {
    if state.told < population || state.individuals.len() < 2 {
        return None;
    }
    let child = |number| space.decode(&state.breed(axes, &mut seed.child("child", number).rng()));
    (0..TRIES).map(child).find(|params| space.allows(params))
}

impl State {
    fn breed(&self, axes: &[Axis], rng: &mut ChaCha8Rng) -> Vec<f64> {
        let (first, second) = (self.tournament(rng), self.tournament(rng));
        let crossed = normal::uniform(rng) < CROSSED;
        let mutation = 1.0 / axes.len().max(1) as f64;
        let gene = |(dimension, axis): (usize, &Axis)| {
            let (mine, other) = (first.point[dimension], second.point[dimension]);
            let (mine, other) = if crossed && normal::uniform(rng) < 0.5 { (other, mine) } else { (mine, other) };
            // A parent of another branch of the space has no say in it.
            let Some(mut x) = mine.or(other).map(f64::from) else { return normal::uniform(rng) };
            let ordered = !matches!(axis, Axis::Choice { .. });
            if crossed
                && ordered
                && let Some(other) = other
            {
                x = blend(x, f64::from(other), normal::uniform(rng));
            }
            if normal::uniform(rng) < mutation {
                x = if ordered { mutate(x, normal::uniform(rng)) } else { normal::uniform(rng) };
            }
            x.clamp(0.0, 1.0 - f64::EPSILON)
        };
        axes.iter().enumerate().map(gene).collect()
    }

    /// The fitter of two.
    fn tournament(&self, rng: &mut ChaCha8Rng) -> &Individual {
        let mut pick = || (normal::uniform(rng) * self.individuals.len() as f64) as usize;
        &self.individuals[pick().min(pick())]
    }
}

/// Simulated binary crossover, the child nearer to `x` (Deb & Agrawal, Complex Systems 9 (1995)).
fn blend(x: f64, other: f64, uniform: f64) -> f64 {
    let power = 1.0 / (CROSS_NEARNESS + 1.0);
    let spread = if uniform <= 0.5 { (2.0 * uniform).powf(power) } else { (1.0 / (2.0 * (1.0 - uniform))).powf(power) };
    0.5 * ((1.0 + spread) * x + (1.0 - spread) * other)
}

/// Polynomial mutation (Deb & Goyal, 1996), which never leaves [0, 1].
fn mutate(x: f64, uniform: f64) -> f64 {
    let power = MUTATION_NEARNESS + 1.0;
    if uniform < 0.5 {
        x + (2.0 * uniform + (1.0 - 2.0 * uniform) * (1.0 - x).powf(power)).powf(1.0 / power) - 1.0
    } else {
        x + 1.0 - (2.0 * (1.0 - uniform) + 2.0 * (uniform - 0.5) * x.powf(power)).powf(1.0 / power)
    }
}
