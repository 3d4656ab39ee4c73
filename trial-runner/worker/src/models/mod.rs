//! The built-in networks: what tensors they have and their forward pass. Called by `state` (layout) and `train` (forward).

mod cnn;
mod mlp;

use elastune_core::model::space::{ParamValue, Params};
use tch::Tensor;

pub use cnn::Cnn;
pub use mlp::Mlp;

/// A tensor of a network: its name in checkpoints, shape and first values.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub name: String,
    pub shape: Vec<i64>,
    pub init: Init,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    Constant(f64),
    /// Uniform within plus and minus this.
    Uniform(f64),
}

/// Tensors in the order in which they lie in the flat state: those that train, and those that only follow (batch norm).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layout {
    pub parameters: Vec<Part>,
    pub buffers: Vec<Part>,
}

/// Weights and bias with PyTorch's default bounds, 1/sqrt(inputs of one output).
#[derive(Debug, Clone, Copy)]
struct Affine {
    weight: usize,
    bias: usize,
}

/// Batch norm over dimension 1.
#[derive(Debug, Clone, Copy)]
struct Norm {
    affine: Affine,
    mean: usize,
    variance: usize,
}

impl Layout {
    fn parameter(&mut self, name: String, shape: &[i64], init: Init) -> usize {
        self.parameters.push(Part { name, shape: shape.to_vec(), init });
        self.parameters.len() - 1
    }

    fn buffer(&mut self, name: String, shape: &[i64], value: f64) -> usize {
        self.buffers.push(Part { name, shape: shape.to_vec(), init: Init::Constant(value) });
        self.buffers.len() - 1
    }

    /// `shape` is [outputs, inputs...].
    fn affine(&mut self, name: &str, shape: &[i64]) -> Affine {
        let inputs: i64 = shape[1..].iter().product();
        let bound = 1.0 / (inputs as f64).sqrt();
        let weight = self.parameter(format!("{name}.weight"), shape, Init::Uniform(bound));
        Affine { weight, bias: self.parameter(format!("{name}.bias"), &shape[..1], Init::Uniform(bound)) }
    }

    fn norm(&mut self, name: &str, channels: i64) -> Norm {
        let weight = self.parameter(format!("{name}.weight"), &[channels], Init::Constant(1.0));
        let bias = self.parameter(format!("{name}.bias"), &[channels], Init::Constant(0.0));
        let mean = self.buffer(format!("{name}.running_mean"), &[channels], 0.0);
        Norm { affine: Affine { weight, bias }, mean, variance: self.buffer(format!("{name}.running_var"), &[channels], 1.0) }
    }
}

/// The tensors of one state, in the layout's order, and how a pass uses them.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    pub parameters: &'a [Tensor],
    pub buffers: &'a [Tensor],
    pub training: bool,
}

impl Pass<'_> {
    fn linear(&self, input: &Tensor, affine: Affine) -> Tensor {
        input.linear(&self.parameters[affine.weight], Some(&self.parameters[affine.bias]))
    }

    /// Stride 2, so that each convolution also halves the picture.
    fn convolve(&self, input: &Tensor, affine: Affine, padding: i64) -> Tensor {
        input.conv2d(&self.parameters[affine.weight], Some(&self.parameters[affine.bias]), 2, padding, 1, 1)
    }

    /// A shard of one sample has no variance of its own: it is normalised by the running values, whatever the width.
    fn normalise(&self, input: Tensor, norm: Option<Norm>) -> Tensor {
        let Some(norm) = norm else { return input };
        let training = self.training && input.size()[0] > 1;
        let (weight, bias) = (&self.parameters[norm.affine.weight], &self.parameters[norm.affine.bias]);
        let (mean, variance) = (&self.buffers[norm.mean], &self.buffers[norm.variance]);
        input.batch_norm(Some(weight), Some(bias), Some(mean), Some(variance), training, 0.1, 1e-5, false)
    }

    fn drop(&self, input: Tensor, probability: f64) -> Tensor {
        if self.training && probability > 0.0 { input.dropout(probability, true) } else { input }
    }
}

#[derive(Debug)]
pub enum Network {
    Cnn(Cnn),
    Mlp(Mlp),
}

impl Network {
    /// The network of a workload for bound parameters (`workload::bind`), and its tensors. None: there is no such workload.
    pub fn new(workload: &str, parameters: &Params) -> Option<(Network, Layout)> {
        let mut layout = Layout::default();
        let network = match workload {
            "fashion-mnist-cnn" => Network::Cnn(Cnn::new(parameters, &mut layout)),
            "fashion-mnist-mlp" => Network::Mlp(Mlp::new(parameters, &mut layout)),
            _ => return None,
        };
        Some((network, layout))
    }

    /// Images f32 [k, 1, 28, 28] to logits f32 [k, 10].
    pub fn forward(&self, pass: Pass, images: &Tensor) -> Tensor {
        match self {
            Network::Cnn(network) => network.forward(pass, images),
            Network::Mlp(network) => network.forward(pass, images),
        }
    }
}

/// Bound parameters by name. Binding gave each declared one a value of its type; another name reads as zero, false or nothing.
pub fn number(parameters: &Params, name: &str) -> f64 {
    parameters.get(name).and_then(ParamValue::as_f64).unwrap_or_default()
}

fn size(parameters: &Params, name: &str) -> i64 {
    (number(parameters, name) as i64).max(1)
}

fn flag(parameters: &Params, name: &str) -> bool {
    matches!(parameters.get(name), Some(ParamValue::Bool(true)))
}

pub fn text<'a>(parameters: &'a Params, name: &str) -> &'a str {
    match parameters.get(name) {
        Some(ParamValue::Text(value)) => value,
        _ => "",
    }
}
