//! Goodput (Pollux: Qiao et al., OSDI 2021, sections 3.1 and 3.2): how fast a trial makes progress at a place and a batch size, and
//! the best batch size there. Only for work whose batch may change while it trains: called by the simulator's jobs.

use super::iteration::IterationModel;

/// Batch sizes that are tried, evenly in the logarithm.
const TRIED: u32 = 50;
/// Tolerance of roundings up.
const EPSILON: f64 = 1e-8;

/// Speed and statistical efficiency of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct GoodputModel {
    pub iteration: IterationModel,
    /// |E g|^2 and tr Cov(g) at the initial batch size: their ratio is the gradient noise scale.
    pub grad_sqr: f64,
    pub grad_var: f64,
    /// Samples a step, over all replicas.
    pub initial_batch: u32,
    pub max_batch: u32,
    /// Samples that a replica takes at once.
    pub min_local: u32,
    pub max_local: u32,
}

/// A batch size as each replica sees it: `local` samples, `accumulation` times more before the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchChoice {
    /// Samples of the initial batch size's worth a second; 0 where nothing is allowed.
    pub goodput: f64,
    pub local: u32,
    pub accumulation: u32,
}

/// What a step with batch `scale` times the initial one is worth, in steps with the initial one (equation 6): between 1 and `scale`.
pub fn gain(grad_sqr: f64, grad_var: f64, scale: f64) -> f64 {
    let noise = grad_var / scale + grad_sqr;
    if noise > 0.0 { (grad_var + grad_sqr) / noise } else { 1.0 }
}

impl GoodputModel {
    /// Over the batch sizes allowed, for `replicas` on `nodes`. With one replica and more than the initial batch, gradients are
    /// accumulated at least once: one sample of the gradient says nothing about its noise.
    pub fn best(&self, nodes: u32, replicas: u32) -> BatchChoice {
        let (low, high) = (f64::from(self.initial_batch.max(self.min_local * replicas)), f64::from(self.max_batch));
        let mut best = BatchChoice { goodput: 0.0, local: 0, accumulation: 0 };
        for number in 0..TRIED {
            let batch = low * (high / low).powf(f64::from(number) / f64::from(TRIED - 1));
            let share = batch / f64::from(replicas);
            let mut accumulation = (share / f64::from(self.max_local) - EPSILON).ceil().max(1.0) as u32 - 1;
            if replicas == 1 && share > f64::from(self.initial_batch) + EPSILON {
                accumulation = accumulation.max(1);
            }
            let local = (share / f64::from(accumulation + 1) - EPSILON).ceil() as u32;
            if (self.min_local..=self.max_local).contains(&local) {
                let goodput = self.goodput(nodes, replicas, local, accumulation);
                if goodput > best.goodput {
                    best = BatchChoice { goodput, local, accumulation };
                }
            }
        }
        best
    }

    fn goodput(&self, nodes: u32, replicas: u32, local: u32, accumulation: u32) -> f64 {
        let seconds = self.iteration.step_s(nodes, replicas, local) + f64::from(accumulation) * self.iteration.grad_s(local);
        let scale = f64::from(replicas * local * (accumulation + 1)) / f64::from(self.initial_batch);
        f64::from(self.initial_batch) * gain(self.grad_sqr, self.grad_var, scale) / seconds
    }
}
