//! A trial's whole numeric state as ONE flat f32 tensor: parameters, buffers, optimiser moments. Hashed, broadcast and saved as
//! one piece; networks see views of it. Called by `train`, `form`, `checkpoint`.

use elastune_core::rng::Seed;
use tch::{Device, Kind, Tensor};

use crate::models::{Init, Layout, Part, Pass};

/// [parameters | buffers | moment 1 | moment 2 ...], each moment as long as the parameters.
#[derive(Debug)]
pub struct State {
    pub flat: Tensor,
    /// Leaves of autograd, detached views of `flat`.
    parameters: Vec<Tensor>,
    buffers: Vec<Tensor>,
    pub parameter_region: Tensor,
    pub buffer_region: Tensor,
    pub moments: Vec<Tensor>,
}

fn count(parts: &[Part]) -> i64 {
    parts.iter().map(|part| part.shape.iter().product::<i64>()).sum()
}

fn views(flat: &Tensor, parts: &[Part], mut at: i64, trains: bool) -> Vec<Tensor> {
    let mut view = |part: &Part| {
        let len: i64 = part.shape.iter().product();
        let view = flat.narrow(0, at, len).view(part.shape.as_slice()).detach();
        at += len;
        view.set_requires_grad(trains)
    };
    parts.iter().map(&mut view).collect()
}

impl State {
    /// All zero; `seed` or a copy from elsewhere gives it values.
    pub fn new(layout: &Layout, moments: usize, device: Device) -> State {
        let (parameters, buffers) = (count(&layout.parameters), count(&layout.buffers));
        let flat = Tensor::zeros([parameters * (1 + moments as i64) + buffers], (Kind::Float, device));
        State {
            parameters: views(&flat, &layout.parameters, 0, true),
            buffers: views(&flat, &layout.buffers, parameters, false),
            parameter_region: flat.narrow(0, 0, parameters),
            buffer_region: flat.narrow(0, parameters, buffers),
            moments: (0..moments as i64).map(|moment| flat.narrow(0, parameters + buffers + moment * parameters, parameters)).collect(),
            flat,
        }
    }

    /// The first values, from the trial's seed alone.
    pub fn seed(&mut self, layout: &Layout, seed: Seed) {
        tch::manual_seed(seed.child("init", 0).0 as i64);
        tch::no_grad(|| {
            let _ = self.flat.zero_();
            let tensors = self.parameters.iter_mut().chain(&mut self.buffers);
            for (tensor, part) in tensors.zip(layout.parameters.iter().chain(&layout.buffers)) {
                let _ = match part.init {
                    Init::Constant(value) => tensor.fill_(value),
                    Init::Uniform(bound) => tensor.uniform_(-bound, bound),
                };
            }
        });
    }

    pub fn pass(&self, training: bool) -> Pass<'_> {
        Pass { parameters: &self.parameters, buffers: &self.buffers, training }
    }

    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// Takes on what `bytes` once gave. `bytes` are as many as this state has.
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        self.set(&Tensor::from_slice(bytes).view_dtype(Kind::Float));
    }

    pub fn set(&mut self, flat: &Tensor) {
        tch::no_grad(|| self.flat.copy_(flat));
    }
}

/// A flat f32 tensor's bytes, in this machine's order (little-endian wherever libtorch runs).
pub fn bytes(flat: &Tensor) -> Vec<u8> {
    let bytes = flat.to_device(Device::Cpu).view_dtype(Kind::Uint8);
    let mut values = vec![0u8; bytes.numel()];
    bytes.copy_data(&mut values, bytes.numel());
    values
}
