//! Seconds of a training step (Pollux: Qiao et al., OSDI 2021, section 3.1, equations 8 to 11), fitted to measured steps under priors
//! that are optimistic where nothing was measured. Called by whoever measures steps: the simulator's jobs.

mod descent;

/// Smallest value of a time parameter, in seconds.
const LEAST: f64 = 1e-8;
/// Weights of the priors: little overlap, little growth of the synchronisation with the number of replicas.
const OVERLAP_PRIOR: f64 = 1e-3;
const GROWTH_PRIOR: f64 = 1e-2;
/// Unmeasured synchronisation between nodes is taken to cost at least this many times that within one.
const BETWEEN_NODES: f64 = 1.1;

/// One measured step: a replica's gradient took `grad_s` of `step_s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSample {
    pub nodes: u32,
    pub replicas: u32,
    /// Samples a replica.
    pub local: u32,
    pub grad_s: f64,
    pub step_s: f64,
}

/// T_grad = a_c + b_c m; T_sync = a + b (K - 2) with the constants of one node (r) or several (n), nothing for one replica;
/// T_step = (T_grad^gamma + T_sync^gamma)^(1/gamma). Seconds; gamma from 1 (no overlap) to 10 (nearly full).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IterationModel {
    pub compute: (f64, f64),
    pub between: (f64, f64),
    pub within: (f64, f64),
    pub gamma: f64,
}

impl IterationModel {
    /// Seconds of one forward and backward pass over `local` samples.
    pub fn grad_s(&self, local: u32) -> f64 {
        self.compute.0 + self.compute.1 * f64::from(local)
    }

    /// Seconds of a step in which `replicas` on `nodes` take `local` samples each.
    pub fn step_s(&self, nodes: u32, replicas: u32, local: u32) -> f64 {
        let (grad, sync) = (self.grad_s(local), self.sync_s(nodes, replicas));
        (grad.powf(self.gamma) + sync.powf(self.gamma)).powf(1.0 / self.gamma)
    }

    fn sync_s(&self, nodes: u32, replicas: u32) -> f64 {
        let (constant, growth) = match (nodes, replicas) {
            (_, 0..=1) => return LEAST,
            (0..=1, _) => self.within,
            _ => self.between,
        };
        constant + growth * f64::from(replicas - 2).max(LEAST)
    }

    /// Of at least one sample. Least root-mean-square errors of the logarithms, plus the priors; what was never measured is fixed:
    /// half of the time is constant where one local batch size was seen, synchronisation is free where none was.
    pub fn fit(samples: &[StepSample]) -> IterationModel {
        let mut values = [0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001];
        let mut fixed = [false; 7];
        let mut fix = |at: usize, value: f64| (values[at], fixed[at]) = (value, true);
        if samples.iter().all(|sample| sample.local == samples[0].local) {
            fix(0, samples.iter().map(|sample| sample.grad_s).sum::<f64>() / samples.len() as f64 / 2.0);
        }
        let several = samples.iter().any(|sample| sample.nodes > 1);
        let one = samples.iter().any(|sample| sample.nodes == 1 && sample.replicas > 1);
        let many = samples.iter().any(|sample| sample.replicas > 2);
        for (at, measured) in [(2, several), (3, several && many), (4, one), (5, one && many)] {
            if !measured {
                fix(at, LEAST);
            }
        }
        let found = descent::minimise(values, fixed, |values| error(values, samples));
        let mut model = of(&found);
        if !several {
            model.between.0 = model.between.0.max(BETWEEN_NODES * model.within.0);
            model.between.1 = model.between.1.max(BETWEEN_NODES * model.within.1);
        }
        model
    }
}

fn of(values: &[f64; 7]) -> IterationModel {
    let [a, b, c, d, e, f, gamma] = *values;
    IterationModel { compute: (a, b), between: (c, d), within: (e, f), gamma }
}

/// The error of parameters (in the order of `of`) and its gradient.
fn error(values: &[f64; 7], samples: &[StepSample]) -> (f64, [f64; 7]) {
    let model = of(values);
    let gamma = model.gamma;
    let (mut squares, mut slopes) = ([0.0; 2], [[0.0; 7]; 2]);
    for sample in samples {
        let (grad, sync) = (model.grad_s(sample.local), model.sync_s(sample.nodes, sample.replicas));
        let growth = f64::from(sample.replicas.max(2) - 2).max(LEAST);
        // d grad and d sync by each parameter.
        let (mut by_grad, mut by_sync) = ([0.0; 7], [0.0; 7]);
        (by_grad[0], by_grad[1]) = (1.0, f64::from(sample.local));
        if sample.replicas > 1 {
            let at = if sample.nodes > 1 { 2 } else { 4 };
            (by_sync[at], by_sync[at + 1]) = (1.0, growth);
        }
        let (powered_grad, powered_sync) = (grad.powf(gamma), sync.powf(gamma));
        let sum = powered_grad + powered_sync;
        let log_step = sum.ln() / gamma;
        let residuals = [grad.ln() - sample.grad_s.ln(), log_step - sample.step_s.ln()];
        for at in 0..7 {
            let mut by_step = (powered_grad / grad * by_grad[at] + powered_sync / sync * by_sync[at]) / sum;
            if at == 6 {
                by_step = ((powered_grad * grad.ln() + powered_sync * sync.ln()) / sum - log_step) / gamma;
            }
            slopes[0][at] += residuals[0] * by_grad[at] / grad;
            slopes[1][at] += residuals[1] * by_step;
        }
        squares[0] += residuals[0] * residuals[0];
        squares[1] += residuals[1] * residuals[1];
    }
    let count = samples.len() as f64;
    let (mut total, mut gradient) = (0.0, [0.0; 7]);
    for (square, slope) in squares.iter().zip(&slopes) {
        let rms = (square / count + 1e-16).sqrt();
        total += rms;
        for at in 0..7 {
            gradient[at] += slope[at] / count / rms;
        }
    }
    total += OVERLAP_PRIOR * (gamma - 1.0).powi(2);
    gradient[6] += 2.0 * OVERLAP_PRIOR * (gamma - 1.0);
    for at in [2, 4] {
        let ratio = values[at + 1] / values[at];
        total += GROWTH_PRIOR * ratio * ratio;
        gradient[at] -= 2.0 * GROWTH_PRIOR * ratio * ratio / values[at];
        gradient[at + 1] += 2.0 * GROWTH_PRIOR * ratio / values[at];
    }
    (total, gradient)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn measured(model: &IterationModel, places: &[(u32, u32)], locals: &[u32]) -> Vec<StepSample> {
        let sample = |(nodes, replicas): (u32, u32), local: u32| StepSample {
            nodes,
            replicas,
            local,
            grad_s: model.grad_s(local),
            step_s: model.step_s(nodes, replicas, local),
        };
        places.iter().flat_map(|&place| locals.iter().map(move |&local| sample(place, local))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn a_model_is_found_again_from_what_it_predicts(
            compute in (0.01f64..0.2, 1e-4f64..1e-2), within in (0.01f64..0.2, 1e-4f64..1e-2), between in (0.05f64..0.5, 1e-4f64..1e-2), gamma in 1.0f64..4.0,
        ) {
            let truth = IterationModel { compute, between, within, gamma };
            let places = [(1, 1), (1, 2), (1, 4), (2, 8), (4, 16), (2, 4)];
            let fitted = IterationModel::fit(&measured(&truth, &places, &[16, 64, 128]));
            for (nodes, replicas) in [(1, 1), (1, 3), (3, 12), (2, 8)] {
                let (want, got) = (truth.step_s(nodes, replicas, 100), fitted.step_s(nodes, replicas, 100));
                prop_assert!((got / want).ln().abs() < 0.15, "{nodes} {replicas}: {want} {got}");
            }
        }

        #[test]
        fn the_gradient_is_the_slope(values in prop::array::uniform6(1e-3f64..1.0), gamma in 1.1f64..9.0) {
            let truth = IterationModel { compute: (0.1, 0.01), between: (0.2, 0.01), within: (0.05, 0.01), gamma: 2.0 };
            let samples = measured(&truth, &[(1, 1), (1, 4), (2, 8)], &[16, 64]);
            let [a, b, c, d, e, f] = values;
            let at = [a, b, c, d, e, f, gamma];
            let (_, gradient) = error(&at, &samples);
            for i in 0..7 {
                let step = 1e-6 * at[i];
                let (mut up, mut down) = (at, at);
                (up[i], down[i]) = (at[i] + step, at[i] - step);
                let slope = (error(&up, &samples).0 - error(&down, &samples).0) / (2.0 * step);
                prop_assert!((slope - gradient[i]).abs() < 1e-4 * (1.0 + slope.abs()), "{i}: {slope} {}", gradient[i]);
            }
        }
    }

    #[test]
    fn what_was_never_measured_is_taken_to_be_free() {
        let one = [StepSample { nodes: 1, replicas: 1, local: 32, grad_s: 0.1, step_s: 0.1 }];
        let model = IterationModel::fit(&one);
        assert!((model.step_s(1, 1, 32) - 0.1).abs() < 1e-3);
        assert!(model.step_s(4, 16, 32) < 0.101, "optimism makes it try");
        assert!(model.grad_s(64) < 0.16, "half of the time is constant");
    }
}
