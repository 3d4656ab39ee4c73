//! How attempts end: lost, out of memory, unusable; and what users do to single trials.

use elastune_core::model::event::{Event, MetricValue};
use elastune_core::model::group::Exit;
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::{Reason, TrialState};
use serde_json::json;

use super::{World, document};
use crate::reconcile::verbs;

fn lost() -> Exit {
    Exit::Lost { message: "killed".into() }
}

#[tokio::test]
async fn a_crashed_trial_starts_again_from_its_checkpoint_three_times_and_then_fails() {
    let world = World::new().await;
    let mut agent = world.node(2).await;
    agent.fate.insert(0, vec![lost(); 3]);
    agent.fate.insert(1, vec![lost(); 4]);
    let mut spec = document(2, json!({}));
    spec.resources.max_width = 1;
    let study = world.study(&spec).await;
    world.run(study, &mut agent).await;
    let trials = world.trials(study).await;
    assert_eq!((trials[0].state, trials[0].attempt, trials[0].failures), (TrialState::Completed, 4, 3));
    assert_eq!((trials[1].state, trials[1].reason, trials[1].failures), (TrialState::Failed, Some(Reason::WorkerLost), 4));
    assert_eq!(trials[1].message.as_deref(), Some("killed"));
    assert_eq!(world.state(study).await, StudyState::Completed);
}

#[tokio::test]
async fn out_of_memory_is_tried_once_more_alone() {
    let world = World::new().await;
    let mut agent = world.node(1).await;
    agent.fate.insert(0, vec![Exit::OutOfMemory { peak_bytes: 77 }]);
    agent.fate.insert(1, vec![Exit::OutOfMemory { peak_bytes: 99 }, Exit::OutOfMemory { peak_bytes: 88 }]);
    let study = world.study(&document(2, json!({}))).await;
    world.run(study, &mut agent).await;
    let trials = world.trials(study).await;
    assert_eq!((trials[0].state, trials[0].alone, trials[0].peak_bytes), (TrialState::Completed, true, 77));
    assert_eq!((trials[1].state, trials[1].reason, trials[1].peak_bytes), (TrialState::Failed, Some(Reason::OutOfMemory), 99));
    assert_eq!(trials[0].failures, 0);
}

#[tokio::test]
async fn what_cannot_work_fails_at_once_and_may_be_retried() {
    let world = World::new().await;
    let mut agent = world.node(1).await;
    agent.fate.insert(0, vec![Exit::Unusable { message: "no such optimiser".into() }]);
    let study = world.study(&document(2, json!({}))).await;
    let mut failed = None;
    for _ in 0..20 {
        world.reconcile(study).await;
        agent.step(&mut *world.conn().await).await;
        failed = world.trials(study).await.into_iter().find(|trial| trial.state == TrialState::Failed);
        if failed.is_some() {
            break;
        }
    }
    let failed = failed.expect("it failed");
    assert_eq!((failed.reason, failed.message.as_deref(), failed.attempt), (Some(Reason::Error), Some("no such optimiser"), 1));
    let mut conn = world.conn().await;
    let again = verbs::retry_trial(&mut conn, failed.id).await.expect("it may be tried again");
    assert_eq!((again.state, again.attempt, again.failures), (TrialState::Waiting, 2, 0));
    assert!(verbs::retry_trial(&mut conn, failed.id).await.is_err(), "it waits already");
    world.run(study, &mut agent).await;
    assert_eq!(world.count(study, TrialState::Completed).await, 2);
}

#[tokio::test]
async fn users_stop_cancel_and_exclude_trials() {
    let world = World::new().await;
    let mut agent = world.node(2).await;
    let mut spec = document(3, json!({}));
    spec.resources.max_width = 1;
    let study = world.study(&spec).await;
    for _ in 0..5 {
        world.reconcile(study).await;
        agent.step(&mut *world.conn().await).await;
    }
    let mut conn = world.conn().await;
    let trials = world.trials(study).await;
    let stopping = verbs::end_trial(&mut conn, trials[0].id, TrialState::Pruned).await.expect("it stops");
    assert_eq!(stopping.state, TrialState::Stopping, "its processes are still there");
    assert!(verbs::exclude_trial(&mut conn, trials[0].id, true).await.is_err(), "it has not ended");
    let stopping = verbs::end_trial(&mut conn, trials[1].id, TrialState::Cancelled).await.expect("it stops");
    assert_eq!(stopping.state, TrialState::Stopping);
    world.run(study, &mut agent).await;
    let trials = world.trials(study).await;
    assert_eq!((trials[0].state, trials[0].reason), (TrialState::Pruned, Some(Reason::User)));
    assert_eq!((trials[1].state, trials[1].reason), (TrialState::Cancelled, Some(Reason::User)));
    assert_eq!(trials[2].state, TrialState::Completed);
    assert!(verbs::end_trial(&mut conn, trials[2].id, TrialState::Cancelled).await.is_err(), "it has ended");
    assert!(verbs::exclude_trial(&mut conn, trials[2].id, true).await.expect("it is hidden").excluded);
    verbs::exclude_trial(&mut conn, trials[2].id, true).await.expect("again changes nothing");
    let hidden = world.events(study).await.into_iter().filter(|event| matches!(event, Event::Excluded { .. })).count();
    assert_eq!(hidden, 1);
}

#[tokio::test]
async fn a_final_value_that_is_not_finite_fails_the_trial_and_breaks_nothing() {
    let world = World::new().await;
    let mut agent = world.node(1).await;
    let study = world
        .study(&document(1, json!({"workload": {"kind": "builtin", "name": "fashion-mnist-mlp", "batch_size": 64, "epochs": 1}})))
        .await;
    for _ in 0..10 {
        world.reconcile(study).await;
        if agent.alive.values().any(|process| process.generation > 0) {
            break;
        }
        agent.step(&mut *world.conn().await).await;
    }
    let (incarnation, _) = agent.alive.iter().next().map(|(i, p)| (*i, p.clone())).expect("it runs");
    let mut batch = Vec::new();
    let metrics = [("val_accuracy".to_string(), MetricValue::new(f64::NAN))].into();
    agent.report(incarnation, elastune_api::agent::ReportBody::Measured { resource: 1.0, metrics, elapsed_s: 1.0 }, &mut batch);
    agent.report(incarnation, elastune_api::agent::ReportBody::Milestone { resource: 1.0 }, &mut batch);
    let answer = agent.send(&mut *world.conn().await, batch).await;
    assert_eq!(answer.dropped, []);
    let trial = &world.trials(study).await[0];
    assert_eq!((trial.state, trial.reason, trial.value), (TrialState::Failed, Some(Reason::NoMetric), None));
    world.run(study, &mut agent).await;
}
