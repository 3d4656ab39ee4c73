//! The numbers of training: shards' gradients, their fold, the commit, validation. Knows no groups: `exchange` gives it the sums
//! of other ranks. Called by the session.

use std::collections::BTreeMap;

use elastune_core::model::event::MetricValue;
use elastune_core::rng::Seed;
use serde::{Deserialize, Serialize};
use tch::{Kind, Reduction, Tensor};

use crate::data::Data;
use crate::fold::Node;
use crate::models::{Layout, Network};
use crate::optimiser::Optimiser;
use crate::pulse::Pulse;
use crate::schedule::Schedule;
use crate::state::State;

/// Validation images per forward pass.
const VALIDATION_BATCH: usize = 500;

/// What moves with the flat state, apart from it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Optimiser steps committed.
    pub step: u64,
    /// Epochs measured.
    pub measured: u64,
    /// Bits of the f64 sum of the current epoch's sample losses; a NaN must travel too.
    pub loss_bits: u64,
    /// Of the last measured epoch: a new rank 0 tells it again, in case the one before could not.
    pub metrics: BTreeMap<String, MetricValue>,
}

/// Correct answers and summed losses of one shard's validation images.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Score {
    pub correct: u64,
    pub loss: f64,
}

#[derive(Debug)]
pub struct Trainer {
    pub state: State,
    pub counters: Counters,
    pub schedule: Schedule,
    pub layout: Layout,
    network: Network,
    optimiser: Optimiser,
    data: Data,
    seed: Seed,
    pulse: Pulse,
    /// One a level of the fold tree.
    scratch: Vec<Tensor>,
    start_buffers: Tensor,
    /// The epoch that it is of, and its permutation.
    order: (u64, Vec<i64>),
}

impl Trainer {
    pub fn new(
        network: Network,
        layout: Layout,
        optimiser: Optimiser,
        data: Data,
        schedule: Schedule,
        seed: Seed,
        pulse: Pulse,
    ) -> Trainer {
        let device = data.train.batch(&[0]).0.device();
        let state = State::new(&layout, optimiser.moments(), device);
        let start_buffers = state.buffer_region.zeros_like();
        let mut trainer = Trainer {
            order: (0, schedule.permutation(seed, 0)),
            counters: Counters::default(),
            scratch: Vec::new(),
            state,
            schedule,
            layout,
            network,
            optimiser,
            data,
            seed,
            pulse,
            start_buffers,
        };
        let depth = Node::root(schedule.shards).depth();
        trainer.scratch = (0..depth).map(|_| Tensor::zeros([trainer.sum_len()], (Kind::Float, device))).collect();
        trainer
    }

    /// Values in a shard's (and so in any node's) sum: gradient, buffer changes, loss.
    pub fn sum_len(&self) -> i64 {
        (self.state.parameter_region.numel() + self.state.buffer_region.numel() + 1) as i64
    }

    /// Puts the sum over the node's shards into `sum` (f32 [sum_len]). Leaves the state as it was.
    pub fn sum(&mut self, node: Node, sum: &Tensor) {
        let epoch = self.counters.step / self.schedule.steps_per_epoch();
        if self.order.0 != epoch {
            self.order = (epoch, self.schedule.permutation(self.seed, epoch));
        }
        self.sum_at(node, sum, 0);
    }

    fn sum_at(&mut self, node: Node, sum: &Tensor, depth: usize) {
        match node.children() {
            None => self.shard(node.lo, sum),
            Some((left, right)) => {
                self.sum_at(left, sum, depth);
                let other = self.scratch[depth].shallow_clone();
                self.sum_at(right, &other, depth + 1);
                let _ = sum.shallow_clone().g_add_(&other);
            }
        }
    }

    /// One shard alone: its own random stream, buffers as the step found them, a sum (not a mean) over its samples.
    fn shard(&mut self, shard: u32, sum: &Tensor) {
        let samples = self.schedule.shard(self.counters.step, shard);
        if samples.is_empty() {
            let _ = sum.shallow_clone().zero_();
            return;
        }
        self.start_buffers.copy_(&self.state.buffer_region);
        tch::manual_seed(self.seed.child("step", self.counters.step).child("shard", u64::from(shard)).0 as i64);
        let (images, labels) = self.data.train.batch(&self.order.1[samples.start as usize..samples.end as usize]);
        let logits = self.network.forward(self.state.pass(true), &images);
        let loss = logits.cross_entropy_loss::<Tensor>(&labels, None, Reduction::Sum, -100, 0.0);
        let gradients = Tensor::run_backward(&[&loss], self.state.parameters(), false, false);
        tch::no_grad(|| {
            let mut at = 0;
            let mut put = |values: &Tensor| {
                let len = values.numel() as i64;
                sum.narrow(0, at, len).copy_(&values.reshape([len]));
                at += len;
            };
            gradients.iter().for_each(&mut put);
            put(&(&self.state.buffer_region - &self.start_buffers));
            put(&loss);
            self.state.buffer_region.copy_(&self.start_buffers);
        });
        self.pulse.tick();
    }

    /// Makes the step whose folded sum this is. `folded` is spent.
    pub fn commit(&mut self, folded: &Tensor) {
        let batch = self.schedule.batch(self.counters.step);
        let samples = batch.end - batch.start;
        let shards = samples.min(u64::from(self.schedule.shards));
        let (parameters, buffers) = (self.state.parameter_region.numel() as i64, self.state.buffer_region.numel() as i64);
        let mut gradient = folded.narrow(0, 0, parameters);
        let _ = gradient.g_mul_scalar_(1.0 / samples as f64);
        self.optimiser.apply(&mut self.state, &mut gradient, self.counters.step);
        if buffers > 0 {
            let change = folded.narrow(0, parameters, buffers) * (1.0 / shards as f64);
            let _ = self.state.buffer_region.g_add_(&change);
        }
        let loss = folded.double_value(&[parameters + buffers]);
        self.counters.loss_bits = (f64::from_bits(self.counters.loss_bits) + loss).to_bits();
        self.counters.step += 1;
    }

    /// The shard's part of the test images, no dropout, running statistics.
    pub fn score(&mut self, shard: u32) -> Score {
        let samples = crate::fold::slice(self.data.test.len, self.schedule.shards, shard);
        let indices: Vec<i64> = (samples.start as i64..samples.end as i64).collect();
        tch::no_grad(|| {
            indices.chunks(VALIDATION_BATCH).fold(Score::default(), |score, chunk| {
                let (images, labels) = self.data.test.batch(chunk);
                let logits = self.network.forward(self.state.pass(false), &images);
                let loss = logits.cross_entropy_loss::<Tensor>(&labels, None, Reduction::Sum, -100, 0.0).double_value(&[]);
                let correct = logits.argmax(1, false).eq_tensor(&labels).sum(Kind::Int64).int64_value(&[]);
                self.pulse.tick();
                Score { correct: score.correct + correct as u64, loss: score.loss + loss }
            })
        })
    }

    /// Whether an epoch has ended that isn't measured yet.
    pub fn to_measure(&self) -> bool {
        self.counters.step / self.schedule.steps_per_epoch() > self.counters.measured
            && self.counters.step.is_multiple_of(self.schedule.steps_per_epoch())
    }

    /// Closes the epoch's books with the whole test set's score.
    pub fn measured(&mut self, score: Score) {
        let tests = self.data.test.len as f64;
        let train_loss = f64::from_bits(self.counters.loss_bits) / self.schedule.samples as f64;
        let values = [("val_accuracy", score.correct as f64 / tests), ("val_loss", score.loss / tests), ("train_loss", train_loss)];
        self.counters.metrics = values.into_iter().map(|(name, value)| (name.into(), MetricValue::new(value))).collect();
        self.counters.loss_bits = 0f64.to_bits();
        self.counters.measured = self.counters.step / self.schedule.steps_per_epoch();
    }

    /// Runs a step's first shard once and forgets it, so that libtorch's kernels are chosen before they are needed.
    pub fn warm_up(&mut self) {
        let sum = Tensor::zeros([self.sum_len()], (Kind::Float, self.state.flat.device()));
        self.shard(0, &sum);
    }
}
