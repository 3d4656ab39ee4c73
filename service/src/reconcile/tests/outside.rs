//! Outside workers: many at once, two replicas, early stopping by hand, and completing twice.

use std::collections::BTreeSet;

use elastune_api::trial::{Action, CompleteRequest, Measurement, ReportRequest};
use elastune_core::judge::Verdict;
use elastune_core::model::event::{Event, MetricValue};
use elastune_core::model::ids::StudyId;
use elastune_core::model::space::ParamValue;
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::TrialState;
use serde_json::json;
use sqlx::Connection;
use tokio_util::sync::CancellationToken;

use super::agent::accuracy;
use super::{World, asha, document};
use crate::db::notify::Wakes;
use crate::db::{Conn, Error, studies};
use crate::reconcile::{driver, outside};

fn complete_with(lease: uuid::Uuid, value: f64) -> CompleteRequest {
    let metrics = [("val_accuracy".to_string(), MetricValue::new(value))].into();
    CompleteRequest { lease: Some(lease), metrics, infeasible: None }
}

fn report_of(lease: uuid::Uuid, step: f64, value: f64) -> ReportRequest {
    let metrics = [("val_accuracy".to_string(), MetricValue::new(value))].into();
    ReportRequest { lease: Some(lease), measurements: vec![Measurement { step, metrics, elapsed_s: step }] }
}

/// A worker's whole life: asks, trains, asks whether to go on, until the study has nothing more.
async fn work(mut conn: Conn, study: StudyId, name: String) -> usize {
    let mut trained = 0;
    loop {
        let mut tx = conn.begin().await.expect("a transaction");
        let answer = outside::suggest(&mut tx, study, &name, 2).await.expect("an answer");
        tx.commit().await.expect("it is committed");
        if answer.exhausted {
            return trained;
        }
        if answer.trials.is_empty() {
            tokio::task::yield_now().await;
        }
        for suggestion in answer.trials {
            trained += 1;
            let Some(ParamValue::Float(lr)) = suggestion.parameters.get("lr") else { panic!("no lr") };
            let mut step = suggestion.resume_from.unwrap_or(0.0);
            loop {
                step += 1.0;
                let request = report_of(suggestion.lease, step, accuracy(*lr, step));
                let taken = outside::report(&mut conn, suggestion.id, request).await;
                taken.expect("whoever was told to continue holds the trial").expect("it is fine");
                let answer = outside::should_stop(&mut conn, suggestion.id, Some(suggestion.lease)).await.expect("an answer");
                if answer.action != Action::Continue {
                    break;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workers_and_two_replicas_double_nothing() {
    let world = World::new().await;
    let spec = document(60, json!({"workload": null, "early_stopping": asha(8.0), "budget": {"max_trials": 60, "max_parallel": 100}}));
    let study = world.study(&spec).await;
    let stop = CancellationToken::new();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let pool = world.database.another_pool().await;
        let wakes = Wakes::listen(pool.clone(), stop.clone());
        replicas.push(driver::spawn(pool, &wakes, stop.clone()));
    }
    let mut workers = tokio::task::JoinSet::new();
    let pool = world.database.another_pool().await;
    for worker in 0..8 {
        let conn = pool.acquire().await.expect("a connection");
        workers.spawn(work(conn, study, format!("worker {worker}")));
    }
    let trained: usize = workers.join_all().await.into_iter().sum();
    assert!(trained >= 60);
    // The workers know that nothing comes any more a moment before the study's end is written.
    let ended = async {
        while world.state(study).await != StudyState::Completed {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), ended).await.expect("the study completes");
    stop.cancel();
    for replica in replicas {
        replica.join_all().await;
    }

    let trials = world.trials(study).await;
    let numbers: Vec<u32> = trials.iter().map(|trial| trial.number).collect();
    assert_eq!(numbers, (0..60).collect::<Vec<_>>(), "as many as asked for, numbered without a gap");
    let parameters: BTreeSet<String> = trials.iter().map(|trial| format!("{:?}", trial.parameters)).collect();
    assert_eq!(parameters.len(), 60, "no two trials try the same");
    assert!(trials.iter().all(|trial| trial.state.is_final()), "{trials:#?}");
    let mut promoted = BTreeSet::new();
    for event in world.events(study).await {
        if let Event::Judged { trial, verdict: Verdict::Promote { run_until }, .. } = event {
            assert!(promoted.insert((trial, run_until as u64)), "trial {trial} was promoted twice to {run_until}");
        }
    }
    assert!(promoted.len() >= 30 + 15 + 7, "only {} promotions", promoted.len());
    assert_eq!(world.state(study).await, StudyState::Completed);
}

#[tokio::test]
async fn completing_is_idempotent_and_the_last_value_counts() {
    let world = World::new().await;
    let study = world.study(&document(3, json!({"workload": null}))).await;
    let mut conn = world.conn().await;
    let trials = outside::suggest(&mut conn, study, "w", 3).await.expect("trials").trials;
    assert_eq!(trials.len(), 3);
    assert!(trials.iter().all(|trial| trial.run_until.is_none()), "nothing stops them");

    let (id, lease) = (trials[0].id, trials[0].lease);
    outside::report(&mut conn, id, report_of(lease, 1.0, 0.5)).await.expect("it is held").expect("it is fine");
    let done = outside::complete(&mut conn, id, complete_with(lease, 0.8)).await.expect("it is held").expect("it is fine");
    assert_eq!((done.state, done.value), (TrialState::Completed, Some(0.8)));
    let again = outside::complete(&mut conn, id, complete_with(lease, 0.1)).await.expect("an answer").expect("it is fine");
    assert_eq!((again.state, again.value), (TrialState::Completed, Some(0.8)));
    let late = outside::report(&mut conn, id, report_of(lease, 2.0, 0.5)).await.expect_err("it has ended");
    assert!(matches!(late, Error::Conflict { code: "trial_finished", .. }), "{late}");

    let (id, lease) = (trials[1].id, trials[1].lease);
    let bare = CompleteRequest { lease: Some(lease), metrics: Default::default(), infeasible: None };
    let done = outside::complete(&mut conn, id, bare).await.expect("it is held").expect("it is fine");
    assert_eq!(done.state, TrialState::Failed, "it never reported the metric");
    let (id, lease) = (trials[2].id, trials[2].lease);
    let infeasible = CompleteRequest { lease: Some(lease), metrics: Default::default(), infeasible: Some("too wide".into()) };
    let done = outside::complete(&mut conn, id, infeasible).await.expect("it is held").expect("it is fine");
    assert_eq!((done.state, done.message.as_deref()), (TrialState::Failed, Some("too wide")));

    let answer = outside::suggest(&mut conn, study, "w", 1).await.expect("an answer");
    assert!(answer.exhausted && answer.trials.is_empty());
    driver::one_study(&mut conn, study).await.expect("a look");
    assert_eq!(world.state(study).await, StudyState::Completed);
    let row = studies::get(&mut conn, study).await.expect("the study");
    let best = studies::best(&mut conn, &row).await.expect("a query").expect("a best");
    assert_eq!((best.number, best.value), (0, 0.8));
}

#[tokio::test]
async fn a_batch_with_one_bad_measurement_is_refused_whole() {
    let world = World::new().await;
    let study = world.study(&document(1, json!({"workload": null}))).await;
    let mut conn = world.conn().await;
    let trial = outside::suggest(&mut conn, study, "w", 1).await.expect("a trial").trials.remove(0);
    let mut request = report_of(trial.lease, 1.0, 0.5);
    request.measurements.push(Measurement { step: -1.0, metrics: Default::default(), elapsed_s: 0.0 });
    let fault = outside::report(&mut conn, trial.id, request).await.expect("it is held").expect_err("one is bad");
    assert!(fault.starts_with("measurements[1].step"), "{fault}");
    assert_eq!(world.trials(study).await[0].measured, None);
    let workload = world.study(&document(1, json!({}))).await;
    let error = outside::suggest(&mut conn, workload, "w", 1).await.expect_err("its trials are run by the runner");
    assert!(matches!(error, Error::Conflict { code: "study_has_workload", .. }));
}
