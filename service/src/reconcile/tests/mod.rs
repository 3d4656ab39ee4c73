//! Tests of the reconcilers on a real Postgres, with a pretended agent that does what desired state says.

mod agent;
mod chains;
mod ends;
mod fences;
mod flow;
mod lost;
mod outside;
mod retention;

use elastune_core::model::cluster::Device;
use elastune_core::model::event::Event;
use elastune_core::model::ids::{NodeId, StudyId};
use elastune_core::model::study::{DeviceKind, StudySpec, StudyState};
use elastune_core::model::trial::TrialState;
use serde_json::{Value, json};
use sqlx::Connection;
use uuid::Uuid;

use super::{decide, driver, verbs};
use crate::db::trials::{self, Order, Trial};
use crate::db::{Conn, events, nodes, studies};
use crate::testing::{Database, database};
use agent::Agent;

/// A database with the parts of a cluster that a test gives it.
struct World {
    database: Database,
}

/// A study of at most `max_trials` trials of the fashion-mnist workload, with `more` put over it.
fn document(max_trials: u32, more: Value) -> StudySpec {
    let mut document = json!({
        "name": "s",
        "metrics": [{"name": "val_accuracy", "goal": "maximize"}],
        "search_space": {"lr": {"type": "float", "min": 0.0, "max": 1.0}},
        "algorithm": {"name": "sobol", "seed": 7},
        "workload": {"kind": "builtin", "name": "fashion-mnist-mlp", "batch_size": 64, "shards": 4, "epochs": 3},
        "budget": {"max_trials": max_trials, "max_parallel": 8}
    });
    let Value::Object(more) = more else { panic!("`more` is an object") };
    for (key, value) in more {
        document[key] = value;
    }
    document["workload"].is_null().then(|| document.as_object_mut().map(|o| o.remove("workload")));
    serde_json::from_value(document).expect("the document is a study")
}

fn asha(max_resource: f64) -> Value {
    json!({"name": "asha", "min_resource": 1.0, "max_resource": max_resource, "reduction_factor": 2.0})
}

impl World {
    async fn new() -> World {
        World { database: database().await }
    }

    async fn conn(&self) -> Conn {
        self.database.pool.acquire().await.expect("a connection")
    }

    async fn study(&self, spec: &StudySpec) -> StudyId {
        let id = StudyId(Uuid::now_v7());
        let mut conn = self.conn().await;
        let mut tx = conn.begin().await.expect("a transaction");
        verbs::create_study(&mut tx, id, spec).await.expect("the study is stored");
        tx.commit().await.expect("it is committed");
        id
    }

    async fn node(&self, slots: u16) -> Agent {
        let id = NodeId(Uuid::now_v7());
        let device = |index| Device { index, kind: DeviceKind::Cpu, name: "cpu".into(), memory_bytes: 0, max_sharers: 1 };
        let devices: Vec<Device> = (0..slots).map(device).collect();
        let mut conn = self.conn().await;
        let now = crate::db::now(&mut conn).await.expect("the time");
        nodes::insert(&mut conn, id, "n", &devices, "127.0.0.1", now).await.expect("the node is stored");
        Agent::new(id)
    }

    /// Every reconciler once. Races with other replicas are none of its concern.
    async fn reconcile(&self, study: StudyId) {
        let mut conn = self.conn().await;
        driver::one_study(&mut conn, study).await.expect("the study is looked after");
        match decide::run(&mut conn).await {
            Ok(decide::Outcome::Refused { problem, .. }) => panic!("{problem}"),
            Ok(_) | Err(crate::db::Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Until the study is over.
    async fn run(&self, study: StudyId, agent: &mut Agent) {
        for _ in 0..400 {
            self.reconcile(study).await;
            agent.step(&mut *self.conn().await).await;
            if self.state(study).await.is_final() {
                return;
            }
        }
        panic!("the study does not end: {:#?}", self.trials(study).await);
    }

    async fn state(&self, study: StudyId) -> StudyState {
        studies::get(&mut *self.conn().await, study).await.expect("the study is there").state
    }

    async fn trials(&self, study: StudyId) -> Vec<Trial> {
        let order = Order::Number { descending: false };
        trials::list_page(&mut *self.conn().await, study, &[], order, None, 10_000).await.expect("a list")
    }

    async fn count(&self, study: StudyId, state: TrialState) -> usize {
        self.trials(study).await.into_iter().filter(|trial| trial.state == state).count()
    }

    /// All events, checked to be numbered from 1 without a gap.
    async fn events(&self, study: StudyId) -> Vec<Event> {
        let events = events::after(&mut *self.conn().await, study, 0, 1_000_000).await.expect("events");
        for (index, event) in events.iter().enumerate() {
            assert_eq!(event.seq, index as u64 + 1, "events are numbered without a gap");
        }
        assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at), "time does not run backwards");
        events.into_iter().map(|event| event.event).collect()
    }
}
