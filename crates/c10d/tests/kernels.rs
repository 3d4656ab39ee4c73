//! Pinned kernels: the settings hold, and on the CPU they change no bit.

use c10d::kernels;
use tch::{Device, Kind, Tensor};

/// The gradients of a small network with every kind of layer that the built-in workloads have.
fn gradients() -> Vec<f32> {
    tch::manual_seed(7);
    let normal = |shape: &[i64]| Tensor::randn(shape, (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let (images, filters, weights) = (normal(&[16, 1, 28, 28]), normal(&[8, 1, 3, 3]), normal(&[10, 8 * 14 * 14]));
    let (scale, shift) = (normal(&[8]), normal(&[8]));
    let answers = Tensor::arange(16, (Kind::Int64, Device::Cpu)).remainder(10);
    let hidden = images.conv2d(&filters, None::<Tensor>, [2, 2], [1, 1], [1, 1], 1);
    let hidden = hidden.batch_norm(Some(&scale), Some(&shift), None::<&Tensor>, None::<&Tensor>, true, 0.1, 1e-5, false).relu();
    let scores = hidden.dropout(0.2, true).view([16, -1]).linear(&weights, None::<Tensor>);
    scores.cross_entropy_for_logits(&answers).backward();
    [filters, weights, scale, shift].iter().flat_map(|of| Vec::<f32>::try_from(of.grad().view(-1)).expect("numbers")).collect()
}

#[test]
fn pinned_kernels_change_no_bit_on_the_cpu() {
    tch::set_num_threads(1);
    let before = gradients();
    assert!(!kernels::are_pinned().expect("it answers"));
    kernels::pin().expect("it can be set");
    assert!(kernels::are_pinned().expect("it answers"));
    let after = gradients();
    assert!(before.iter().any(|gradient| *gradient != 0.0));
    assert!(before.iter().zip(&after).all(|(before, after)| before.to_bits() == after.to_bits()));
}
