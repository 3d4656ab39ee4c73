//! Plays agent and service for real workers: a Unix socket, real processes, and the real `carry_out` that steers them.

#![allow(dead_code)]

pub mod data;
pub mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;

use elastune_core::model::ids::TrialId;
use elastune_core::model::space::{ParamValue, Params};

/// One trial to train.
#[derive(Debug, Clone)]
pub struct Trial {
    pub workload: &'static str,
    pub shards: u32,
    pub batch_size: u32,
    pub parameters: Params,
    pub checkpoint: Option<PathBuf>,
    pub id: TrialId,
}

impl Trial {
    /// Parameters as in JSON.
    pub fn new(workload: &'static str, shards: u32, parameters: &str) -> Trial {
        let parameters: BTreeMap<String, ParamValue> = serde_json::from_str(parameters).expect("parameters are JSON");
        Trial { workload, shards, batch_size: 64, parameters, checkpoint: None, id: TrialId(uuid::Uuid::from_u128(7)) }
    }
}
