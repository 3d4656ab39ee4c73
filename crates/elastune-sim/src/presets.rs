//! Workloads that benchmarks and tests share.

use elastune_core::model::cluster::{Device, NodeState, NodeView};
use elastune_core::model::ids::NodeId;
use elastune_core::model::study::{DeviceKind, PolicyName, StudySpec};
use elastune_core::time::{Span, Time};
use uuid::Uuid;

use crate::{Arrival, Costs, Population};

/// `count` nodes of `devices` GPUs, each of which `max_sharers` trials may share.
pub fn gpu_nodes(count: u32, devices: u16, max_sharers: u8) -> Vec<NodeView> {
    let device = |index| Device { index, kind: DeviceKind::Gpu, name: "simulated".into(), memory_bytes: 16 << 30, max_sharers };
    let node = |number: u32| NodeView {
        id: NodeId(Uuid::from_u128(u128::from(number) + 1)),
        name: format!("node-{number}"),
        state: NodeState::Ready,
        devices: (0..devices).map(device).collect(),
    };
    (0..count).map(node).collect()
}

/// Fluid's case (MLSys 2021): synchronous halving of 81 trials by 3, each rung training only what it adds; widths 1/2, 1, 2, 4.
pub fn halving(policy: PolicyName) -> StudySpec {
    let document = serde_json::json!({
        "name": "halving",
        "metrics": [{"name": "loss", "goal": "minimize"}],
        "search_space": {"lr": {"type": "float", "min": 1e-4, "max": 0.1, "scale": "log"}},
        "algorithm": {"name": "random"},
        "early_stopping": {"name": "successive_halving", "min_resource": 1.0, "max_resource": 81.0, "reduction_factor": 3.0},
        "workload": {"kind": "builtin", "name": "fashion-mnist-mlp", "batch_size": 256, "shards": 4},
        "resources": {"min_width": 1, "max_width": 4, "share": 0.5},
        "budget": {"max_trials": 81, "max_parallel": 81},
    });
    let mut spec: StudySpec = serde_json::from_value(document).expect("the document is a study");
    spec.scheduling.policy = policy;
    spec
}

/// The same as one study that arrives at once, of trials with lognormal(0.5) seconds a unit, 300 at the median, S(w) = w^0.8.
pub fn halving_arrival(policy: PolicyName) -> Arrival {
    Arrival { at: Time(0), spec: halving(policy), population: Population { median_s: 300.0, sigma: 0.5, alpha: 0.8 } }
}

/// 30 s for any change of width, two trials on a device at 0.65 speed each.
pub fn costs() -> Costs {
    Costs { resize: Span::from_secs(30), relabel: Span::from_secs(30), start: Span::ZERO, shared_speed: vec![1.0, 0.65] }
}
