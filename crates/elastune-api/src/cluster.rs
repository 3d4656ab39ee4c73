//! Nodes, plans and the cluster over REST.

use elastune_core::model::cluster::{Device, NodeState};
use elastune_core::model::ids::{NodeId, StudyId, TrialId};
use elastune_core::model::plan::{Plan, Report};
use elastune_core::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /nodes` (a list) and `GET /nodes/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub id: NodeId,
    pub name: String,
    pub state: NodeState,
    pub devices: Vec<Device>,
    pub joined: Time,
    pub last_seen: Time,
    /// Where peers reach its workers.
    pub address: String,
}

/// `GET /cluster`: devices and who is on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    pub epoch: u64,
    pub plan: u64,
    pub nodes: Vec<Node>,
    pub occupants: Vec<Occupant>,
    pub devices: u32,
    pub devices_in_use: f64,
    pub waiting_trials: u32,
    /// Set while the newest decision failed its check and the plan before it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Occupant {
    pub node: NodeId,
    pub device: u16,
    /// 1/parts of the device.
    pub parts: u8,
    pub study: StudyId,
    pub study_name: String,
    pub trial: TrialId,
    pub trial_number: u32,
    pub rank: u32,
    /// It joins or leaves right now.
    pub switching: bool,
}

/// `GET /plans/{n}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanPage {
    pub plan: Plan,
    pub report: Report,
    pub created: Time,
}

/// `POST /nodes`; an empty body will do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JoinRequest {
    /// How long the token may be used, in seconds: 60 to 30 days; a day if absent.
    pub ttl_s: Option<u32>,
}

/// `POST /nodes` answers a token for one more agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JoinToken {
    /// Shown once; hashed at rest.
    pub token: String,
    pub expires: Time,
    /// The command to run on the new machine.
    pub command: String,
}

/// `POST /login-links`: a one-time address that logs a browser in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoginLink {
    /// Path and query, to be put behind the service's address.
    pub path: String,
    pub expires: Time,
}
