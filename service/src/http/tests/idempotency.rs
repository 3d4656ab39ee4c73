//! `Idempotency-Key`: sent twice, done once.

use elastune_api::trial::{CompleteRequest, SuggestResponse, Trial};
use elastune_core::model::event::MetricValue;
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_study_is_created_once_however_often_it_is_sent() {
    let service = Service::start().await;
    let send = || service.document("/studies", OUTSIDE).header("idempotency-key", "k1");
    // All at once: one creates, the others wait for it and answer the same.
    let answers = futures::future::join_all((0..5).map(|_| send().send())).await;
    let mut bodies = Vec::new();
    for answer in answers {
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 201);
        bodies.push(answer.text().await.expect("a body"));
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(service.count("select count(*) from studies").await, 1);
    let again = send().send().await.expect("an answer");
    assert_eq!(again.headers()["idempotent-replayed"], "true");

    let other = service.document("/studies", OUTSIDE.replace("quad", "other")).header("idempotency-key", "k1");
    refused(other, 422, "idempotency_key_reused").await;
    let long = service.document("/studies", OUTSIDE).header("idempotency-key", "k".repeat(256));
    refused(long, 422, "invalid_value").await;
    assert_eq!(service.count("select count(*) from studies").await, 1);
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_its_key() {
    let service = Service::start().await;
    let bad = service.document("/studies", OUTSIDE.replace("max_trials: 4", "max_trials: 0")).header("idempotency-key", "k");
    refused(bad, 422, "invalid_study").await;
    let good = service.document("/studies", OUTSIDE).header("idempotency-key", "k").send().await.expect("an answer");
    assert_eq!(good.status(), 201);
}

#[tokio::test]
async fn suggestions_and_completions_are_replayed() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let suggest = SuggestRequest { count: 2, worker: "w".into(), wait_s: 0 };
    let first = service.client.suggest(study.id, &suggest, Some("s")).await.expect("suggestions");
    let again: SuggestResponse = service.client.suggest(study.id, &suggest, Some("s")).await.expect("the same");
    assert_eq!(first, again);
    assert_eq!(service.count("select count(*) from trials").await, 2);

    let trial = &first.trials[0];
    let done =
        CompleteRequest { lease: Some(trial.lease), metrics: [("loss".to_string(), MetricValue::Number(0.25))].into(), infeasible: None };
    let completed: Trial = service.client.complete(trial.id, &done, Some("c")).await.expect("completed");
    assert_eq!(completed, service.client.complete(trial.id, &done, Some("c")).await.expect("the same"));
    assert_eq!(service.count("select count(*) from measurements").await, 1);
    let other = service.post(&format!("/trials/{}:complete", trial.id), json!({"lease": trial.lease})).header("idempotency-key", "c");
    refused(other, 422, "idempotency_key_reused").await;
}

#[tokio::test]
async fn an_empty_suggestion_is_not_kept() {
    let service = Service::start().await;
    let document = OUTSIDE.replace("max_trials: 4", "max_trials: 4, max_parallel: 1");
    let study = service.study(&document).await;
    let held = service.suggest(&study, 1).await.remove(0);
    let suggest = SuggestRequest { count: 1, worker: "w".into(), wait_s: 0 };
    let none = service.client.suggest(study.id, &suggest, Some("s")).await.expect("an answer");
    assert_eq!((none.trials.len(), none.exhausted), (0, false));
    let metrics = [("loss".to_string(), MetricValue::Number(1.0))].into();
    let done = CompleteRequest { lease: Some(held.lease), metrics, infeasible: None };
    service.client.complete(held.id, &done, None).await.expect("completed");
    let some = service.client.suggest(study.id, &suggest, Some("s")).await.expect("an answer");
    assert_eq!(some.trials.len(), 1);
}
