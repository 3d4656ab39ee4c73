//! `fashion-mnist-mlp`: `layers` hidden linear layers of one size. Called through `models::Network`.

use elastune_core::model::space::Params;
use tch::Tensor;

use super::{Affine, Layout, Norm, Pass, flag, number, size};
use crate::data::{CLASSES, SIDE};

#[derive(Debug)]
pub struct Mlp {
    layers: Vec<(Affine, Option<Norm>)>,
    output: Affine,
    dropout: f64,
}

impl Mlp {
    pub fn new(parameters: &Params, layout: &mut Layout) -> Mlp {
        let hidden = size(parameters, "hidden");
        let layers = (1..=size(parameters, "layers"))
            .map(|number| {
                let inputs = if number == 1 { SIDE * SIDE } else { hidden };
                let affine = layout.affine(&format!("layer{number}"), &[hidden, inputs]);
                (affine, flag(parameters, "batch_norm").then(|| layout.norm(&format!("norm{number}"), hidden)))
            })
            .collect();
        Mlp { layers, output: layout.affine("output", &[CLASSES, hidden]), dropout: number(parameters, "dropout") }
    }

    pub fn forward(&self, pass: Pass, images: &Tensor) -> Tensor {
        let input = images.flatten(1, -1);
        let hidden = self
            .layers
            .iter()
            .fold(input, |x, (affine, norm)| pass.drop(pass.normalise(pass.linear(&x, *affine), *norm).relu(), self.dropout));
        pass.linear(&hidden, self.output)
    }
}
