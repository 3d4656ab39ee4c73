//! What the algorithms that learn remember of a study, and the fold that brings it up to date. Called by `propose::fold`.

use serde::{Deserialize, Serialize};

use super::encode::Axis;
use super::history::History;
use super::space::Space;
use super::{cmaes, gp, nsga2};
use crate::model::event::Event;
use crate::model::study::{Algorithm, StudySpec};
use crate::rng::Seed;

/// What was learned so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Learned {
    pub history: History,
    #[serde(default, skip_serializing_if = "Model::is_none")]
    pub model: Model,
}

/// What an algorithm makes of the trials that have ended, where it doesn't keep them themselves.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    #[default]
    None,
    Cmaes(cmaes::State),
    Gp(gp::State),
    Nsga2(nsga2::State),
}

impl Model {
    fn is_none(&self) -> bool {
        *self == Model::None
    }

    /// Before the first event.
    pub fn of(algorithm: &Algorithm, axes: &[Axis]) -> Model {
        match algorithm {
            Algorithm::Cmaes { .. } => Model::Cmaes(cmaes::State::new(axes)),
            Algorithm::Gp { .. } => Model::Gp(gp::State::default()),
            Algorithm::Nsga2 { .. } => Model::Nsga2(nsga2::State::default()),
            _ => Model::None,
        }
    }
}

/// Takes events for a study's algorithm.
#[derive(Debug)]
pub struct Learner<'a> {
    spec: &'a StudySpec,
    space: Space<'a>,
    axes: Vec<Axis>,
    objectives: usize,
}

impl<'a> Learner<'a> {
    /// None: the algorithm's trials are functions of their numbers.
    pub fn of(spec: &'a StudySpec) -> Option<Learner<'a>> {
        let objectives = match spec.algorithm {
            Algorithm::Random { .. } | Algorithm::Sobol { .. } | Algorithm::Grid { .. } => return None,
            Algorithm::Nsga2 { .. } => spec.metrics.len(),
            _ => 1,
        };
        let space = Space::new(&spec.search_space, &spec.constraints);
        let axes = space.axes();
        Some(Learner { spec, space, axes, objectives })
    }

    pub fn learn(&self, learned: &mut Learned, event: &Event) {
        if learned.model.is_none() {
            learned.model = Model::of(&self.spec.algorithm, &self.axes);
        }
        let Learned { history, model } = learned;
        let place = history.apply(self.spec, &self.space, self.objectives, event);
        match model {
            Model::None => {}
            Model::Cmaes(state) => match (event, place) {
                (Event::Proposed { trial, number, .. }, _) => {
                    let stream = Seed(self.spec.algorithm.seed()).child("trial", u64::from(*number));
                    if let Some(told) = history.live.get(trial) {
                        state.proposed(&self.space, &self.axes, stream, *trial, &told.point);
                    }
                }
                (Event::Unproposed { trial, .. }, _) => state.unproposed(*trial),
                (_, Some(place)) => state.ended(&self.axes, history.ended.remove(place)),
                _ => {}
            },
            Model::Gp(state) => {
                if let (Some(_), Algorithm::Gp { startup_trials, .. }) = (place, &self.spec.algorithm) {
                    state.ended(&self.axes, history, *startup_trials);
                }
            }
            Model::Nsga2(state) => {
                if let (Some(place), Algorithm::Nsga2 { population, .. }) = (place, &self.spec.algorithm) {
                    state.ended(history.ended.remove(place), *population);
                }
            }
        }
    }
}
