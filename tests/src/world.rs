//! A whole cluster in a temporary folder: Postgres, a service, agents. What most tests start with.

use std::path::{Path, PathBuf};

use elastune_api::client::Client;
use elastune_api::study::{Study, StudyEventLine};
use elastune_api::trial::{Measurement, Trial};
use elastune_core::model::cluster::NodeState;
use elastune_core::model::event::Event;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::CheckpointRef;
use elastune_core::model::width::Width;

use crate::agent::{Agent, Node};
use crate::{Postgres, Service, data, seconds, until};

/// A trial's end, without how long it took.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    step: u64,
    /// Of the last state saved: weights, moments, counters.
    sha256: String,
    measurements: Vec<Measurement>,
}

/// Fields are dropped in order: agents before their service, it before its database, the folder last.
#[derive(Debug)]
pub struct World {
    pub agents: Vec<Agent>,
    pub service: Service,
    pub postgres: Postgres,
    data: PathBuf,
    folder: tempfile::TempDir,
}

impl World {
    /// Postgres and a service; `train` images to learn from.
    pub async fn new(train: u32) -> World {
        let folder = tempfile::Builder::new().prefix("elastune-e2e-").tempdir().expect("a temporary folder");
        // Postgres may run as another user, who must get to its folder in this one.
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).expect("it is ours");
        let data = folder.path().join("data");
        data::small(&data, train, 512);
        let postgres = Postgres::start(&folder.path().join("postgres")).await;
        let service = Service::start("service", folder.path(), &postgres.url()).await;
        World { agents: Vec::new(), service, postgres, data, folder }
    }

    /// As `new`, with one node of `slots` CPU slots.
    pub async fn with_node(train: u32, slots: u16) -> World {
        let mut world = World::new(train).await;
        world.join(Node::new("one", slots)).await;
        world
    }

    pub async fn join(&mut self, node: Node) {
        let name = node.name.clone();
        let token = self.service.join_token().await;
        self.agents.push(Agent::start(node, self.folder.path(), &self.data, &self.service.server(), &token));
        until("the node has joined", seconds(30), async || {
            let nodes = self.client().nodes().await.expect("nodes are listed");
            nodes.iter().any(|n| n.name == name && n.state == NodeState::Ready).then_some(())
        })
        .await;
    }

    pub fn client(&self) -> &Client {
        &self.service.client
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub async fn create(&self, document: &str) -> Study {
        self.client().create_study(document, None).await.expect("the service takes the study")
    }

    /// Waits until the study is final.
    pub async fn ended(&self, study: StudyId, limit_s: u64) -> Study {
        until("the study ends", seconds(limit_s), async || {
            // The service may be down for a while: that is what some tests are about.
            let study = self.client().study(study).await.ok()?;
            study.state.is_final().then_some(study)
        })
        .await
    }

    /// Waits until the study is final; panics if that isn't `completed`.
    pub async fn completed(&self, study: StudyId, limit_s: u64) -> Study {
        let last = self.ended(study, limit_s).await;
        assert_eq!(last.state, StudyState::Completed, "{last:?}");
        last
    }

    pub async fn trials(&self, study: StudyId) -> Vec<Trial> {
        self.client().all_trials(study).await.expect("trials are listed")
    }

    /// Resources that the trial has measured; nothing while the service is down.
    pub async fn measured(&self, trial: TrialId) -> Vec<f64> {
        self.client().measurements(trial).await.unwrap_or_default().iter().map(|measurement| measurement.step).collect()
    }

    /// Waits until the trial has measured `more` times more than now.
    pub async fn trained(&self, trial: TrialId, more: usize) {
        let before = self.measured(trial).await.len();
        until("it trains", seconds(120), async || (self.measured(trial).await.len() >= before + more).then_some(())).await;
    }

    pub async fn width_becomes(&self, trial: TrialId, width: u16) {
        until(&format!("width {width}"), seconds(120), async || {
            (self.client().trial(trial).await.ok()?.width == Width::Devices(width)).then_some(())
        })
        .await;
    }

    /// What the study's only trial came to.
    pub async fn result(&self, study: StudyId) -> Outcome {
        let trial = self.trials(study).await.remove(0).id;
        let checkpoints = self.client().checkpoints(trial).await.expect("checkpoints are listed");
        let last = checkpoints.into_iter().map(|listed| listed.checkpoint).max_by_key(|checkpoint| checkpoint.step);
        let CheckpointRef { step, sha256, .. } = last.expect("it has saved at its end");
        let mut measurements = self.client().measurements(trial).await.expect("measurements are listed");
        measurements.iter_mut().for_each(|measurement| measurement.elapsed_s = 0.0);
        Outcome { step, sha256, measurements }
    }

    /// Every event up to now.
    pub async fn events(&self, study: StudyId) -> Vec<Event> {
        let until = self.client().study(study).await.expect("the study is there").seq;
        let mut stream = self.client().events(study, 0).await.expect("events stream");
        let mut events = Vec::new();
        let mut seq = 0;
        while seq < until {
            let line: StudyEventLine = stream.next_json().await.expect("the stream goes on").expect("it is an event");
            assert_eq!(line.seq, seq + 1, "events have no gaps");
            seq = line.seq;
            events.push(serde_json::from_value(line.event).expect("an event of this version"));
        }
        events
    }

    /// Widths of running trials over time, of every trial in turn: starts are no change.
    pub async fn resizes(&self, study: StudyId) -> (u32, u32) {
        let (mut grows, mut shrinks) = (0, 0);
        for trial in self.trials(study).await {
            let widths = self.client().widths(trial.id).await.expect("widths are listed");
            for pair in widths.windows(2).filter(|pair| pair[0].attempt == pair[1].attempt) {
                grows += u32::from(pair[1].width > pair[0].width);
                shrinks += u32::from(pair[1].width < pair[0].width);
            }
        }
        (grows, shrinks)
    }
}
