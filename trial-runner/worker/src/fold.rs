//! The one fixed binary tree along which shards' sums are folded, and how shards and samples are cut. Pure; called by `train`,
//! `exchange` and `validate`.
//!
//! Floating-point addition isn't associative, so the tree's shape must depend on the number of shards alone. A rank folds the
//! largest subtrees that lie wholly in its block; the ranks exchange those few sums and fold the rest, each for itself.

use std::ops::Range;

/// A node of the tree: the shards `lo..hi`, never none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    pub lo: u32,
    pub hi: u32,
}

impl Node {
    pub fn root(shards: u32) -> Node {
        Node { lo: 0, hi: shards.max(1) }
    }

    /// None for a leaf, which is one shard. The left child holds the largest power of two of shards that leaves some to the right.
    pub fn children(self) -> Option<(Node, Node)> {
        let len = self.hi - self.lo;
        if len < 2 {
            return None;
        }
        let middle = self.lo + len.next_power_of_two() / 2;
        Some((Node { lo: self.lo, hi: middle }, Node { lo: middle, hi: self.hi }))
    }

    /// Nodes on the longest way down, this one not counted: the scratch buffers that a fold in place needs.
    pub fn depth(self) -> usize {
        (self.hi - self.lo).next_power_of_two().trailing_zeros() as usize
    }
}

/// The contiguous shards of a rank; blocks differ by at most one shard.
pub fn block(shards: u32, width: u32, rank: u32) -> Range<u32> {
    let edge = |rank: u32| (u64::from(rank) * u64::from(shards) / u64::from(width.max(1))) as u32;
    edge(rank)..edge(rank + 1)
}

/// The largest nodes that lie wholly in `block`, from left to right.
pub fn cover(shards: u32, block: Range<u32>) -> Vec<Node> {
    fn descend(node: Node, block: &Range<u32>, found: &mut Vec<Node>) {
        if block.start <= node.lo && node.hi <= block.end {
            found.push(node);
        } else if let Some((left, right)) = node.children()
            && node.lo < block.end
            && block.start < node.hi
        {
            descend(left, block, found);
            descend(right, block, found);
        }
    }
    let mut found = Vec::new();
    descend(Node::root(shards), &block, &mut found);
    found
}

/// Folds `node` from the sums that `known` has; it must have every leaf that no known node covers.
pub fn fold<T>(node: Node, known: &mut impl FnMut(Node) -> Option<T>, add: &mut impl FnMut(T, T) -> T) -> Option<T> {
    if let Some(sum) = known(node) {
        return Some(sum);
    }
    let (left, right) = node.children()?;
    let left = fold(left, known, add)?;
    let right = fold(right, known, add)?;
    Some(add(left, right))
}

/// The part of `total` items that a shard gets: contiguous, in shard order, sizes within one of each other.
pub fn slice(total: u64, shards: u32, shard: u32) -> Range<u64> {
    let edge = |shard: u32| (u128::from(shard) * u128::from(total) / u128::from(shards.max(1))) as u64;
    edge(shard)..edge(shard + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values whose sum depends on the order of the additions.
    fn leaf(shard: u32) -> f32 {
        1.0 / (shard as f32 + 0.3)
    }

    fn whole(shards: u32) -> f32 {
        fold(Node::root(shards), &mut |node| node.children().is_none().then(|| leaf(node.lo)), &mut |a, b| a + b).expect("leaves are known")
    }

    #[test]
    fn every_width_folds_to_the_same_bits() {
        for shards in 1..=64 {
            for width in 1..=shards {
                let mut sums = Vec::new();
                for rank in 0..width {
                    for node in cover(shards, block(shards, width, rank)) {
                        let sum = fold(node, &mut |node| node.children().is_none().then(|| leaf(node.lo)), &mut |a, b| a + b);
                        sums.push((node, sum.expect("leaves are known")));
                    }
                }
                let known = &mut |node: Node| sums.iter().find(|(of, _)| *of == node).map(|(_, sum)| *sum);
                let folded = fold(Node::root(shards), known, &mut |a, b| a + b).expect("blocks cover all shards");
                assert_eq!(folded.to_bits(), whole(shards).to_bits(), "{shards} shards at width {width}");
            }
        }
    }

    #[test]
    fn a_running_sum_would_give_other_bits() {
        let running = (0..64).map(leaf).fold(0f32, |sum, value| sum + value);
        assert_ne!(running.to_bits(), whole(64).to_bits());
    }

    #[test]
    fn blocks_and_slices_partition() {
        for shards in 1..=64u32 {
            for width in 1..=shards {
                let blocks: Vec<u32> = (0..width).flat_map(|rank| block(shards, width, rank)).collect();
                assert_eq!(blocks, (0..shards).collect::<Vec<_>>());
                let longest = (0..width).map(|rank| block(shards, width, rank).len()).max();
                assert_eq!(longest, Some(shards.div_ceil(width) as usize));
            }
            for total in [0u64, 1, 63, 96, 256, 10_000] {
                let sizes: Vec<u64> = (0..shards).map(|shard| slice(total, shards, shard)).map(|range| range.end - range.start).collect();
                assert_eq!(sizes.iter().sum::<u64>(), total);
                assert!(sizes.iter().max().zip(sizes.iter().min()).is_some_and(|(most, least)| most - least <= 1));
            }
        }
    }

    #[test]
    fn depth_counts_the_levels_below() {
        for (shards, depth) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (64, 6)] {
            assert_eq!(Node::root(shards).depth(), depth);
        }
    }
}
