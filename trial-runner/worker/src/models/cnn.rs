//! `fashion-mnist-cnn`: two strided convolutions and two linear layers. Called through `models::Network`.

use elastune_core::model::space::Params;
use tch::Tensor;

use super::{Affine, Layout, Norm, Pass, flag, number, size};
use crate::data::{CLASSES, SIDE};

#[derive(Debug)]
pub struct Cnn {
    convolutions: [(Affine, Option<Norm>); 2],
    hidden: Affine,
    output: Affine,
    dropout: f64,
}

impl Cnn {
    pub fn new(parameters: &Params, layout: &mut Layout) -> Cnn {
        let channels = size(parameters, "channels");
        let hidden = size(parameters, "hidden");
        let convolution = |name: &str, shape: &[i64], layout: &mut Layout| {
            let affine = layout.affine(&format!("conv{name}"), shape);
            (affine, flag(parameters, "batch_norm").then(|| layout.norm(&format!("norm{name}"), shape[0])))
        };
        let first = convolution("1", &[channels, 1, 5, 5], layout);
        let second = convolution("2", &[2 * channels, channels, 3, 3], layout);
        let pixels = (SIDE / 4) * (SIDE / 4);
        Cnn {
            convolutions: [first, second],
            hidden: layout.affine("hidden", &[hidden, 2 * channels * pixels]),
            output: layout.affine("output", &[CLASSES, hidden]),
            dropout: number(parameters, "dropout"),
        }
    }

    pub fn forward(&self, pass: Pass, images: &Tensor) -> Tensor {
        let [(first, first_norm), (second, second_norm)] = self.convolutions;
        let x = pass.normalise(pass.convolve(images, first, 2), first_norm).relu();
        let x = pass.normalise(pass.convolve(&x, second, 1), second_norm).relu();
        let x = pass.drop(x.flatten(1, -1), self.dropout);
        let x = pass.drop(pass.linear(&x, self.hidden).relu(), self.dropout);
        pass.linear(&x, self.output)
    }
}
