//! One group of ranks as the session sees it: exchanges sums, scores and words; at width 1 without any communication, by the same
//! logic. Buffers are allocated once. Called by the session.

use c10d::Group;
use elastune_api::worker::Activity;
use tch::{Device, Kind, Tensor};

use crate::control::{Agreed, WORDS, Words, agree};
use crate::fold::{Node, block, cover, fold};
use crate::pulse::Pulse;
use crate::train::{Score, Trainer};

/// Why an exchange did not come about; the group is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Group(#[from] c10d::Error),
    #[error("the ranks are at different steps")]
    Astray,
}

#[derive(Debug)]
pub struct Exchange {
    pub rank: u32,
    pub width: u32,
    /// None at width 1.
    group: Option<Group>,
    shards: u32,
    /// The subtrees that each rank folds.
    covers: Vec<Vec<Node>>,
    sum_len: i64,
    /// [subtrees (padded to the most of any rank) x sum | words], on the CPU: Gloo's side.
    send: Tensor,
    receive: Vec<Tensor>,
    pulse: Pulse,
}

impl Exchange {
    /// `group` is None for width 1 only.
    pub fn new(group: Option<Group>, shards: u32, sum_len: i64, pulse: Pulse) -> Exchange {
        let (rank, width) = group.as_ref().map_or((0, 1), |group| (group.rank() as u32, group.size() as u32));
        let covers: Vec<Vec<Node>> = (0..width).map(|rank| cover(shards, block(shards, width, rank))).collect();
        let most = covers.iter().map(Vec::len).max().unwrap_or(1) as i64;
        let buffer = || Tensor::zeros([most * sum_len + WORDS as i64], (Kind::Float, Device::Cpu));
        let receive = if width > 1 { (0..width).map(|_| buffer()).collect() } else { Vec::new() };
        Exchange { rank, width, group, shards, covers, sum_len, send: buffer(), receive, pulse }
    }

    fn gather(&mut self, receive: &mut [Tensor], send: &Tensor) -> Result<(), Broken> {
        let Some(group) = &self.group else { return Ok(()) };
        self.pulse.set(Activity::InCollective);
        group.all_gather(receive, send)?;
        self.pulse.set(Activity::Computing);
        Ok(())
    }

    /// Computes this rank's shards of the next step, exchanges, folds and commits. `words` is asked as late as can be.
    /// Nothing is committed when it fails.
    pub fn step(&mut self, trainer: &mut Trainer, words: impl FnOnce() -> Words) -> Result<Agreed, Broken> {
        let mine = self.covers[self.rank as usize].clone();
        let device = trainer.state.flat.device();
        for (slot, node) in mine.into_iter().enumerate() {
            let mut place = self.send.narrow(0, slot as i64 * self.sum_len, self.sum_len);
            if device == Device::Cpu {
                trainer.sum(node, &place);
            } else {
                let sum = Tensor::zeros([self.sum_len], (Kind::Float, device));
                trainer.sum(node, &sum);
                place.copy_(&sum);
            }
        }
        let own = words();
        self.put(&own);
        let send = self.send.shallow_clone();
        let mut receive = std::mem::take(&mut self.receive);
        let gathered = self.gather(&mut receive, &send);
        self.receive = receive;
        gathered?;
        let agreed = self.agree(own)?;
        let folded = self.fold().to_device(device);
        trainer.commit(&folded);
        Ok(agreed)
    }

    fn put(&mut self, words: &Words) {
        let at = self.send.numel() as i64 - WORDS as i64;
        self.send.narrow(0, at, WORDS as i64).copy_(&Tensor::from_slice(&words.encode()));
    }

    fn agree(&self, own: Words) -> Result<Agreed, Broken> {
        let ranks: Vec<Words> = if self.group.is_none() { vec![own] } else { self.receive.iter().map(read_words).collect() };
        agree(&ranks).ok_or(Broken::Astray)
    }

    /// In place, over what was received.
    fn fold(&self) -> Tensor {
        if self.group.is_none() {
            return self.send.narrow(0, 0, self.sum_len);
        }
        let known = &mut |node: Node| {
            let place =
                self.covers.iter().zip(&self.receive).find_map(|(cover, sums)| Some((cover.iter().position(|of| *of == node)?, sums)));
            place.map(|(slot, sums)| sums.narrow(0, slot as i64 * self.sum_len, self.sum_len))
        };
        let sum = fold(Node::root(self.shards), known, &mut |mut left: Tensor, right: Tensor| left.g_add_(&right));
        sum.expect("the ranks' blocks cover all shards")
    }

    /// Words alone: the first thing on a new group, and the rounds of ranks that wait at a milestone.
    pub fn control(&mut self, words: Words) -> Result<Agreed, Broken> {
        let Some(group) = &self.group else { return agree(&[words]).ok_or(Broken::Astray) };
        let mut ranks: Vec<Tensor> = (0..self.width).map(|_| Tensor::zeros([WORDS as i64], (Kind::Float, Device::Cpu))).collect();
        group.all_gather(&mut ranks, &Tensor::from_slice(&words.encode()))?;
        agree(&ranks.iter().map(read_words).collect::<Vec<_>>()).ok_or(Broken::Astray)
    }

    /// Scores of all shards, in shard order, from each rank's own.
    pub fn scores(&mut self, trainer: &mut Trainer) -> Result<Vec<Score>, Broken> {
        let blocks: Vec<_> = (0..self.width).map(|rank| block(self.shards, self.width, rank)).collect();
        let mine: Vec<Score> = blocks[self.rank as usize].clone().map(|shard| trainer.score(shard)).collect();
        if self.group.is_none() {
            return Ok(mine);
        }
        let most = blocks.iter().map(ExactSizeIterator::len).max().unwrap_or(1);
        let mut values = vec![0f64; 2 * most];
        for (pair, score) in values.chunks_exact_mut(2).zip(&mine) {
            pair.copy_from_slice(&[score.correct as f64, score.loss]);
        }
        let mut all: Vec<Tensor> = (0..self.width).map(|_| Tensor::zeros([2 * most as i64], (Kind::Double, Device::Cpu))).collect();
        self.gather(&mut all, &Tensor::from_slice(&values))?;
        let read = |(tensor, block): (&Tensor, &std::ops::Range<u32>)| {
            let mut values = vec![0f64; 2 * most];
            tensor.copy_data(&mut values, 2 * most);
            values.chunks_exact(2).take(block.len()).map(|pair| Score { correct: pair[0] as u64, loss: pair[1] }).collect::<Vec<_>>()
        };
        Ok(all.iter().zip(&blocks).flat_map(read).collect())
    }
}

fn read_words(tensor: &Tensor) -> Words {
    let mut slots = [0f32; WORDS];
    tensor.narrow(0, tensor.numel() as i64 - WORDS as i64, WORDS as i64).copy_data(&mut slots, WORDS);
    Words::decode(&slots)
}

/// The whole test set's score: answers counted as integers, losses folded along the shards' tree.
pub fn total(scores: &[Score]) -> Score {
    let loss = &mut |node: Node| if node.children().is_none() { scores.get(node.lo as usize).map(|score| score.loss) } else { None };
    Score {
        correct: scores.iter().map(|score| score.correct).sum(),
        loss: fold(Node::root(scores.len() as u32), loss, &mut |left, right| left + right).unwrap_or_default(),
    }
}
