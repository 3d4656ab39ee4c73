//! The section `algorithm`: a name, its options, a seed. Called by `study`.

use super::fields::{Field, Object};
use super::study::named;
use crate::model::study::Algorithm;

/// Two to the 53rd: exact as a JSON number everywhere.
const MAX_SEED: i64 = 1 << 53;

#[derive(Debug, Clone, Copy)]
enum Name {
    Random,
    Sobol,
    Grid,
    Tpe,
    Cmaes,
    Gp,
    Bohb,
    Nsga2,
}

pub(super) fn algorithm(field: &Field) -> Option<Algorithm> {
    const PLANNED: &[&str] = &["nsga3", "evolution", "pbt", "pb2", "hyperband", "qmc", "auto"];
    let built = [
        ("random", Name::Random),
        ("sobol", Name::Sobol),
        ("grid", Name::Grid),
        ("tpe", Name::Tpe),
        ("cmaes", Name::Cmaes),
        ("gp", Name::Gp),
        ("bohb", Name::Bohb),
        ("nsga2", Name::Nsga2),
    ];
    let (name, object) = named(field, "algorithm", &built, PLANNED)?;
    let mut options = Options { object, whole: true };
    let seed = options.int("seed", 0, 0, MAX_SEED) as u64;
    let algorithm = match name {
        Name::Random => Algorithm::Random { seed },
        Name::Sobol => Algorithm::Sobol { seed },
        Name::Grid => Algorithm::Grid { seed, points: options.count("points", Algorithm::default_points(), 1, 1_000) },
        Name::Tpe => Algorithm::Tpe {
            seed,
            startup_trials: options.count("startup_trials", Algorithm::default_startup_trials(), 1, 10_000),
            candidates: options.count("candidates", Algorithm::default_candidates(), 1, 1_000),
        },
        Name::Cmaes => Algorithm::Cmaes { seed },
        Name::Gp => Algorithm::Gp { seed, startup_trials: options.count("startup_trials", Algorithm::default_startup_trials(), 2, 10_000) },
        Name::Bohb => Algorithm::Bohb { seed, random_fraction: options.part("random_fraction", Algorithm::default_random_fraction()) },
        Name::Nsga2 => Algorithm::Nsga2 { seed, population: options.count("population", Algorithm::default_population(), 2, 1_000) },
    };
    options.close().then_some(algorithm)
}

/// An algorithm's keys beside its name; none where the name stands alone.
struct Options<'a> {
    object: Option<Object<'a>>,
    /// All that were given could be read.
    whole: bool,
}

impl Options<'_> {
    fn int(&mut self, key: &'static str, default: i64, min: i64, max: i64) -> i64 {
        let Some(field) = self.object.as_mut().and_then(|object| object.get(key)) else { return default };
        let read = field.int(min..=max);
        self.whole &= read.is_some();
        read.unwrap_or(default)
    }

    fn count(&mut self, key: &'static str, default: u32, min: u32, max: u32) -> u32 {
        self.int(key, i64::from(default), i64::from(min), i64::from(max)) as u32
    }

    /// From 0 to 1.
    fn part(&mut self, key: &'static str, default: f64) -> f64 {
        let Some(field) = self.object.as_mut().and_then(|object| object.get(key)) else { return default };
        let read = field.float().and_then(|part| if (0.0..=1.0).contains(&part) { Some(part) } else { field.wrong("must be from 0 to 1") });
        self.whole &= read.is_some();
        read.unwrap_or(default)
    }

    /// Refuses what nobody asked for; whether all could be read.
    fn close(self) -> bool {
        if let Some(object) = self.object {
            object.close();
        }
        self.whole
    }
}
