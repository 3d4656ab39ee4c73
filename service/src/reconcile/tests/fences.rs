//! Reports that come twice, late, or from nowhere: answered, dropped, harmless.

use elastune_api::agent::{AgentReport, ReportBody};
use elastune_core::model::event::MetricValue;
use elastune_core::model::group::Exit;
use elastune_core::model::ids::{Incarnation, TrialId};
use elastune_core::model::trial::CheckpointRef;
use elastune_core::time::Time;
use serde_json::json;
use uuid::Uuid;

use super::agent::Agent;
use super::{World, document};
use crate::db::{checkpoints, logs, measurements};

fn measured(resource: f64, value: f64) -> ReportBody {
    let metrics = [("val_accuracy".to_string(), MetricValue::new(value))].into();
    ReportBody::Measured { resource, metrics, elapsed_s: 1.0 }
}

fn checkpoint(resource: f64) -> ReportBody {
    ReportBody::Checkpointed { checkpoint: CheckpointRef { sha256: "ab".repeat(32), resource, step: 7, bytes: 1 } }
}

/// One trial of many epochs that runs on one slot.
async fn running(world: &World) -> (Agent, Incarnation, TrialId) {
    let mut agent = world.node(1).await;
    let study = world
        .study(&document(1, json!({"workload": {"kind": "builtin", "name": "fashion-mnist-mlp", "batch_size": 64, "epochs": 100}})))
        .await;
    for _ in 0..20 {
        world.reconcile(study).await;
        if let Some((incarnation, process)) = agent.alive.iter().find(|(_, process)| process.generation > 0) {
            let (incarnation, trial) = (*incarnation, process.trial);
            return (agent, incarnation, trial);
        }
        agent.step(&mut *world.conn().await).await;
    }
    panic!("the trial does not start");
}

#[tokio::test]
async fn a_batch_that_comes_twice_is_taken_once() {
    let world = World::new().await;
    let (mut agent, incarnation, trial) = running(&world).await;
    let mut batch = Vec::new();
    agent.report(incarnation, measured(1.0, 0.1), &mut batch);
    agent.report(incarnation, ReportBody::Log { source: "rank 0".into(), line: "hello\0".into() }, &mut batch);
    let mut conn = world.conn().await;
    let first = agent.send(&mut conn, batch.clone()).await;
    assert_eq!((first.accepted_seq, first.dropped.len()), (agent.seq, 0));
    let again = agent.send(&mut conn, batch).await;
    assert_eq!((again.accepted_seq, again.dropped.len()), (agent.seq, 2));
    assert_eq!(logs::list_page(&mut conn, trial, 0, 10).await.expect("logs").len(), 1);

    // The same measurement under a new number: the first stays.
    let mut batch = Vec::new();
    agent.report(incarnation, measured(1.0, 0.9), &mut batch);
    agent.send(&mut conn, batch).await;
    let kept = measurements::list_page(&mut conn, trial, 0.0, 10).await.expect("measurements");
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].metrics["val_accuracy"], MetricValue::Number(0.1));
}

#[tokio::test]
async fn late_and_unknown_processes_are_dropped_with_a_reason() {
    let world = World::new().await;
    let (mut agent, incarnation, trial) = running(&world).await;
    let mut conn = world.conn().await;
    let stranger = Incarnation(Uuid::now_v7());
    let mut batch = Vec::new();
    agent.report_as(trial, 1, stranger, measured(1.0, 0.1), &mut batch);
    agent.report_as(trial, 9, incarnation, measured(1.0, 0.1), &mut batch);
    agent.report_as(trial, 1, stranger, ReportBody::Exited { exit: Exit::Clean }, &mut batch);
    agent.report_as(TrialId(Uuid::now_v7()), 1, incarnation, measured(1.0, 0.1), &mut batch);
    agent.report(incarnation, measured(f64::NAN, 0.1), &mut batch);
    agent.report(incarnation, ReportBody::Progress { done: f64::INFINITY, step: 1, rates: Vec::new() }, &mut batch);
    agent.report(incarnation, ReportBody::Milestone { resource: 2.0 }, &mut batch);
    let answer = agent.send(&mut conn, batch).await;
    assert_eq!(answer.dropped.len(), 7, "{:?}", answer.dropped);
    assert!(answer.dropped.iter().all(|dropped| !dropped.reason.is_empty()));
    assert!(measurements::list_page(&mut conn, trial, -1.0, 10).await.expect("measurements").is_empty());
}

#[tokio::test]
async fn a_checkpoint_never_comes_before_the_measurements_up_to_its_step() {
    let world = World::new().await;
    let (mut agent, incarnation, trial) = running(&world).await;
    let mut conn = world.conn().await;
    let mut batch = Vec::new();
    agent.report(incarnation, checkpoint(1.4), &mut batch);
    let answer = agent.send(&mut conn, batch).await;
    assert_eq!(answer.dropped.len(), 1, "epoch 1 is not measured yet");
    let mut batch = Vec::new();
    agent.report(incarnation, measured(1.0, 0.1), &mut batch);
    agent.report(incarnation, checkpoint(1.4), &mut batch);
    agent.report(incarnation, checkpoint(1.4), &mut batch);
    let answer = agent.send(&mut conn, batch).await;
    assert_eq!(answer.dropped, []);
    assert_eq!(checkpoints::list(&mut conn, trial, 10).await.expect("checkpoints").len(), 1);
}

#[tokio::test]
async fn numbers_count_within_a_spool() {
    let world = World::new().await;
    let (mut agent, incarnation, trial) = running(&world).await;
    let mut conn = world.conn().await;
    let spool = Uuid::now_v7();
    let body = measured(1.0, 0.2);
    let report = AgentReport { seq: 1, at: Time(0), trial, attempt: 1, incarnation, body };
    let batch = elastune_api::agent::ReportBatch { spool, reports: vec![report] };
    let answer = crate::reconcile::ingest::apply(&mut conn, agent.node, &batch).await.expect("reports are taken");
    assert_eq!((answer.accepted_seq, answer.dropped.len()), (1, 0), "a new spool starts at 1");
    assert_eq!(measurements::list_page(&mut conn, trial, 0.0, 10).await.expect("measurements").len(), 1);
    agent.exit(incarnation, Exit::Clean, &mut Vec::new());
}
