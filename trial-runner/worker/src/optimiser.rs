//! SGD with momentum and Adam as a few operations on the flat state. Called by `train` at each commit.

use elastune_core::model::space::Params;
use tch::Tensor;

use crate::models::{number, text};
use crate::state::State;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimiser {
    lr: f64,
    weight_decay: f64,
    rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    /// m = momentum m + g; p -= lr m, as in PyTorch without dampening.
    Sgd { momentum: f64 },
    /// Kingma and Ba, ICLR'15, algorithm 1, with its constants.
    Adam,
}

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

impl Optimiser {
    /// Of bound parameters. `momentum` means something to SGD only.
    pub fn new(parameters: &Params) -> Optimiser {
        let rule = match text(parameters, "optimizer") {
            "adam" => Rule::Adam,
            _ => Rule::Sgd { momentum: number(parameters, "momentum") },
        };
        Optimiser { lr: number(parameters, "lr"), weight_decay: number(parameters, "weight_decay"), rule }
    }

    /// Tensors as long as the parameters that it keeps.
    pub fn moments(&self) -> usize {
        match self.rule {
            Rule::Sgd { .. } => 1,
            Rule::Adam => 2,
        }
    }

    /// Applies the mean gradient of step `step` (from 0). `gradient` is spent.
    pub fn apply(&self, state: &mut State, gradient: &mut Tensor, step: u64) {
        let State { parameter_region: parameters, moments, .. } = state;
        if self.weight_decay > 0.0 {
            let _ = gradient.g_add_(&(&*parameters * self.weight_decay));
        }
        match (self.rule, moments.as_mut_slice()) {
            (Rule::Sgd { momentum }, [velocity]) => {
                let _ = velocity.g_mul_scalar_(momentum).g_add_(gradient);
                let _ = parameters.g_sub_(&(&*velocity * self.lr));
            }
            (Rule::Adam, [mean, square]) => {
                let exponent = step as f64 + 1.0;
                let (correct_1, correct_2) = (1.0 - BETA_1.powf(exponent), 1.0 - BETA_2.powf(exponent));
                let _ = mean.g_mul_scalar_(BETA_1).g_add_(&(&*gradient * (1.0 - BETA_1)));
                let _ = square.g_mul_scalar_(BETA_2).g_add_(&(gradient.square() * (1.0 - BETA_2)));
                let mut scale = square.sqrt();
                let _ = scale.g_mul_scalar_(1.0 / correct_2.sqrt()).g_add_scalar_(EPSILON);
                let _ = parameters.g_sub_(&(&*mean / scale * (self.lr / correct_1)));
            }
            _ => unreachable!("the state is made with as many moments as the rule keeps"),
        }
    }
}
