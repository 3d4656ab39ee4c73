//! Outside workers against two replicas of the service: nothing doubled, nothing lost.

use std::collections::BTreeSet;

use e2e::{Service, World, studies};
use elastune_api::client::Client;
use elastune_api::trial::{CompleteRequest, Measurement, ReportRequest, SuggestRequest};
use elastune_core::model::event::MetricValue;
use elastune_core::model::ids::StudyId;
use elastune_core::model::space::ParamValue;

const TRIALS: u32 = 200;
const WORKERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_hand_out_exactly_max_trials() {
    let world = World::new(64).await;
    let other = Service::start("replica", world.path(), &world.postgres.url()).await;
    let study = world.create(&studies::outside("outside", TRIALS)).await.id;
    let clients = [world.client().clone(), other.client.clone()];
    let workers = (0..WORKERS).map(|worker| tokio::spawn(work(clients[worker % 2].clone(), study, worker)));
    let mut numbers = Vec::new();
    for done in futures::future::join_all(workers).await {
        numbers.extend(done.expect("a worker ends"));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..TRIALS).collect::<Vec<_>>(), "every number once");
    let study = world.completed(study, 60).await;
    assert_eq!((study.counts.completed, study.counts.total()), (TRIALS, TRIALS));
    let ids: BTreeSet<_> = world.trials(study.id).await.iter().map(|t| t.id).collect();
    assert_eq!(ids.len(), TRIALS as usize);
}

/// Asks, measures and completes until there is nothing left; the numbers of its trials.
async fn work(client: Client, study: StudyId, worker: usize) -> Vec<u32> {
    let mut numbers = Vec::new();
    loop {
        let request = SuggestRequest { count: 1 + worker as u32 % 3, worker: format!("worker-{worker}"), wait_s: 5 };
        let answer = client.suggest(study, &request, None).await.expect("the service suggests");
        for trial in &answer.trials {
            let Some(ParamValue::Float(x)) = trial.parameters.get("x") else { panic!("x is a number: {trial:?}") };
            let metrics = [("loss".to_string(), MetricValue::Number(x * x))].into();
            let measurements = vec![Measurement { step: 1.0, metrics, elapsed_s: 0.0 }];
            client.report(trial.id, &ReportRequest { lease: Some(trial.lease), measurements }).await.expect("it is taken");
            let request = CompleteRequest { lease: Some(trial.lease), metrics: Default::default(), infeasible: None };
            client.complete(trial.id, &request, None).await.expect("it completes");
            numbers.push(trial.number);
        }
        if answer.exhausted && answer.trials.is_empty() {
            return numbers;
        }
    }
}
