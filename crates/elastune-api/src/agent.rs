//! Agent to service and back: registration, desired state, reports. An agent pulls; the service never calls it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use elastune_core::elastic::Fact;
use elastune_core::model::cluster::{Device, Slot};
use elastune_core::model::event::MetricValue;
pub use elastune_core::model::group::Exit;
use elastune_core::model::group::{Finish, Member, Order};
use elastune_core::model::ids::{Incarnation, NodeId, TrialId};
use elastune_core::model::space::Params;
use elastune_core::model::study::Workload;
use elastune_core::model::trial::{CheckpointRef, RateSample};
use elastune_core::rng::Seed;
use elastune_core::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /nodes/register` with a join token as bearer; again with the node's own token after an agent's restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegisterRequest {
    pub name: String,
    pub devices: Vec<Device>,
    /// Address at which other nodes reach this one's workers.
    pub advertise: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegisterResponse {
    pub node: NodeId,
    /// The node's bearer token from now on; answered once, hashed at rest. None if the caller already held it.
    pub token: Option<String>,
    pub epoch: u64,
    pub heartbeat_ms: u64,
}

/// `POST /nodes/{id}/heartbeat`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeHeartbeat {
    /// Processes alive now.
    pub workers: Vec<Incarnation>,
}

/// `GET /nodes/{id}/desired?after=<version>&wait_s=<n>`: long poll; 204 when nothing changed in that time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Desired {
    pub epoch: u64,
    pub plan: u64,
    /// Opaque; send it back as `after`.
    pub version: String,
    /// The processes this node should have. One that is not listed is to be ended.
    pub workers: Vec<DesiredWorker>,
    pub draining: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DesiredWorker {
    pub trial: TrialId,
    pub attempt: u32,
    pub incarnation: Incarnation,
    pub slot: Slot,
    pub launch: Launch,
    pub control: Control,
}

/// What a process needs to start; fixed within an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Launch {
    pub study_name: String,
    pub trial_number: u32,
    pub workload: Workload,
    #[schema(value_type = std::collections::BTreeMap<String, elastune_core::model::space::ParamValue>)]
    pub parameters: Params,
    /// Of the stream (study seed, "train", trial number); never of the attempt.
    #[schema(value_type = u64)]
    pub seed: Seed,
    /// Metric names that it must report; the first is the study's objective.
    pub metrics: Vec<String>,
    pub max_resource: f64,
    /// Where the attempt starts from; None: from the seed.
    pub checkpoint: Option<CheckpointRef>,
}

/// What may change while a process runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Control {
    /// The membership it is in, or 0.
    pub generation: u32,
    /// The order under way in its trial, if it takes part in it (as stayer, joiner or leaver).
    pub order: Option<Order>,
    pub run_until: f64,
    pub finish: Option<Finish>,
}

/// `POST /nodes/{id}/reports`: at most 1,000 at once, in `seq` order; a repeated `seq` is answered and dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReportBatch {
    /// New at each start of the agent's spool; `seq` counts within it.
    pub spool: uuid::Uuid,
    pub reports: Vec<AgentReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentReport {
    pub seq: u64,
    pub at: Time,
    pub trial: TrialId,
    pub attempt: u32,
    pub incarnation: Incarnation,
    pub body: ReportBody,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReportBody {
    /// The process has loaded, built its model and bound a socket for a store.
    Ready {
        #[schema(value_type = String)]
        address: SocketAddr,
    },
    /// The first step on a generation is committed (each rank says so); its next store socket.
    Committed {
        generation: u32,
        order: u32,
        step: u64,
        /// With whom, in rank order.
        #[serde(default)]
        members: Vec<Incarnation>,
        #[schema(value_type = String)]
        address: SocketAddr,
    },
    /// The group broke under this rank: it holds `step` committed steps and waits for an order. `address` is its next store socket.
    Broken {
        generation: u32,
        /// The highest that it took up.
        #[serde(default)]
        order: u32,
        step: u64,
        error: String,
        /// The generation on which it last committed, and with whom, in rank order; 0 and nobody if it never did.
        #[serde(default)]
        committed: u32,
        #[serde(default)]
        members: Vec<Member>,
        #[schema(value_type = String)]
        address: SocketAddr,
    },
    /// It could not take part in an order; the old group goes on. `address` is its next store socket.
    OrderFailed {
        generation: u32,
        order: u32,
        error: String,
        #[schema(value_type = String)]
        address: SocketAddr,
    },
    /// Of rank 0, about once a second and at every epoch.
    Progress {
        done: f64,
        step: u64,
        rates: Vec<RateSample>,
    },
    Measured {
        resource: f64,
        metrics: BTreeMap<String, MetricValue>,
        elapsed_s: f64,
    },
    /// `done` equals `run_until`: measured, checkpointed, holding the slot.
    Milestone {
        resource: f64,
    },
    /// The checkpoint is in the store.
    Checkpointed {
        checkpoint: CheckpointRef,
    },
    /// A line of its log.
    Log {
        source: String,
        line: String,
    },
    /// The process is gone.
    Exited {
        exit: Exit,
    },
}

impl ReportBody {
    /// What it means to those who steer the process's group, if anything.
    pub fn fact(&self, incarnation: Incarnation) -> Option<Fact> {
        Some(match self.clone() {
            ReportBody::Ready { address } => Fact::Ready { incarnation, address },
            ReportBody::Committed { generation, order, step, members, address } => {
                Fact::Committed { incarnation, generation, order, step, members, address }
            }
            ReportBody::Broken { generation, order, step, committed, members, address, .. } => {
                Fact::Broken { incarnation, generation, order, step, committed, members, address }
            }
            ReportBody::OrderFailed { generation, order, error, address } => {
                Fact::OrderFailed { incarnation, generation, order, error, address }
            }
            ReportBody::Exited { exit } => Fact::Exited { incarnation, exit },
            ReportBody::Progress { .. }
            | ReportBody::Measured { .. }
            | ReportBody::Milestone { .. }
            | ReportBody::Checkpointed { .. }
            | ReportBody::Log { .. } => return None,
        })
    }
}

/// What the service took. Dropped reports are answered, never an error: a late process is not a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReportAnswer {
    pub accepted_seq: u64,
    pub dropped: Vec<DroppedReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DroppedReport {
    pub seq: u64,
    pub reason: String,
}
