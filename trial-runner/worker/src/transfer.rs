//! Ranks of a new group say what they hold, and a donor's state reaches those that lack it: from memory to memory, hashed.
//! Called by `assembly` and the session; every rank of the group makes the same calls.

use c10d::Group;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tch::{Device, Kind, Tensor};

use crate::identity::Identity;
use crate::state;
use crate::train::Counters;

/// Bytes of the message that goes with a state: a length and JSON.
const MESSAGE: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("{0}")]
    Group(#[from] c10d::Error),
    #[error("the state that arrived is not the one that was sent")]
    Damaged,
    /// Silent otherwise: its results would differ by a few bits.
    #[error("this rank has other threads or another instruction set than the one that gave the state")]
    Unlike,
    #[error("a rank could not take the state")]
    Refused,
}

/// What a rank holds when a group begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Introduction {
    /// Verified, or seeded, or loaded.
    pub has_state: bool,
    pub step: u64,
    pub measured: u64,
}

/// Goes with the flat state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    pub counters: Counters,
    /// Seconds of training in this attempt.
    pub elapsed_s: f64,
    pub identity: Identity,
}

#[derive(Debug, Serialize, Deserialize)]
struct Message {
    carried: Carried,
    sha256: [u8; 32],
}

/// A verified state on the CPU.
#[derive(Debug)]
pub struct Received {
    pub carried: Carried,
    pub flat: Tensor,
}

/// Everybody's introduction, in rank order.
pub fn introduce(group: Option<&Group>, own: Introduction) -> c10d::Result<Vec<Introduction>> {
    let Some(group) = group else { return Ok(vec![own]) };
    let values = [i64::from(own.has_state), own.step as i64, own.measured as i64];
    let mut all: Vec<Tensor> = (0..group.size()).map(|_| Tensor::zeros([3], (Kind::Int64, Device::Cpu))).collect();
    group.all_gather(&mut all, &Tensor::from_slice(&values))?;
    let read = |tensor: &Tensor| {
        let mut values = [0i64; 3];
        tensor.copy_data(&mut values, 3);
        Introduction { has_state: values[0] > 0, step: values[1] as u64, measured: values[2] as u64 }
    };
    Ok(all.iter().map(read).collect())
}

/// The rank whose state counts: whoever committed most, the lowest of equals. None: nobody has one.
pub fn donor(all: &[Introduction]) -> Option<usize> {
    let best = all.iter().filter(|one| one.has_state).map(|one| (one.step, one.measured)).max()?;
    all.iter().position(|one| one.has_state && (one.step, one.measured) == best)
}

/// Whether a donor's state must travel.
pub fn differs(all: &[Introduction]) -> bool {
    all.windows(2).any(|pair| (pair[0].has_state, pair[0].step, pair[0].measured) != (pair[1].has_state, pair[1].step, pair[1].measured))
}

/// The donor's part.
pub fn give(group: &Group, flat: &Tensor, carried: Carried) -> Result<(), TransferError> {
    let mut flat = flat.to_device(Device::Cpu);
    group.broadcast(&mut flat, group.rank())?;
    let message = Message { carried, sha256: Sha256::digest(state::bytes(&flat)).into() };
    let text = serde_json::to_vec(&message).unwrap_or_default();
    let fits = !text.is_empty() && text.len() <= MESSAGE - 4;
    let mut bytes = vec![0u8; MESSAGE];
    if fits {
        bytes[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        bytes[4..4 + text.len()].copy_from_slice(&text);
    }
    group.broadcast(&mut Tensor::from_slice(&bytes), group.rank())?;
    all_well(group, fits)
}

/// The part of everybody else, also of ranks that need nothing; `values` long is the flat state.
pub fn receive(group: &Group, root: usize, values: usize, identity: &Identity) -> Result<Received, TransferError> {
    let mut flat = Tensor::zeros([values as i64], (Kind::Float, Device::Cpu));
    group.broadcast(&mut flat, root)?;
    let sha256: [u8; 32] = Sha256::digest(state::bytes(&flat)).into();
    let mut message = Tensor::zeros([MESSAGE as i64], (Kind::Uint8, Device::Cpu));
    group.broadcast(&mut message, root)?;
    let mut bytes = vec![0u8; MESSAGE];
    message.copy_data(&mut bytes, MESSAGE);
    let (len, text) = bytes.split_at(4);
    let len = len.iter().rev().fold(0usize, |len, byte| len << 8 | usize::from(*byte));
    let message: Option<Message> = text.get(..len).and_then(|text| serde_json::from_slice(text).ok());
    let verified = match message.filter(|message| message.sha256 == sha256) {
        None => Err(TransferError::Damaged),
        Some(message) if message.carried.identity != *identity => Err(TransferError::Unlike),
        Some(message) => Ok(message.carried),
    };
    let all_well = all_well(group, verified.is_ok());
    let carried = verified?;
    all_well?;
    Ok(Received { carried, flat })
}

/// Everyone hears whether everyone is content, so that a donor may leave.
fn all_well(group: &Group, own: bool) -> Result<(), TransferError> {
    let mut all: Vec<Tensor> = (0..group.size()).map(|_| Tensor::zeros([1], (Kind::Int64, Device::Cpu))).collect();
    group.all_gather(&mut all, &Tensor::from_slice(&[i64::from(own)]))?;
    match all.iter().all(|one| one.int64_value(&[0]) == 1) {
        true => Ok(()),
        false => Err(TransferError::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(has_state: bool, step: u64) -> Introduction {
        Introduction { has_state, step, measured: 0 }
    }

    #[test]
    fn the_donor_is_the_lowest_of_those_that_committed_most() {
        assert_eq!(donor(&[one(true, 7), one(true, 8), one(true, 8)]), Some(1));
        assert_eq!(donor(&[one(false, 99), one(true, 7)]), Some(1));
        assert_eq!(donor(&[one(false, 0)]), None);
        assert!(differs(&[one(true, 7), one(true, 8)]) && differs(&[one(false, 0), one(true, 0)]));
        assert!(!differs(&[one(true, 7), one(true, 7)]) && !differs(&[one(true, 7)]));
    }
}
