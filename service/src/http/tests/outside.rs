//! A user's own loop: suggest, measure, ask whether to stop, complete.

use std::time::{Duration, Instant};

use elastune_api::trial::{Action, CompleteRequest, Measurement, ReportRequest};
use elastune_core::model::event::MetricValue;
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::{Reason, TrialState};
use reqwest::Method;

use super::*;

fn loss(value: f64) -> std::collections::BTreeMap<String, MetricValue> {
    [("loss".to_string(), MetricValue::new(value))].into()
}

fn done(suggestion: &Suggestion, value: f64) -> CompleteRequest {
    CompleteRequest { lease: Some(suggestion.lease), metrics: loss(value), infeasible: None }
}

#[tokio::test]
async fn a_loop_runs_until_the_trials_are_spent() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let mut numbers = Vec::new();
    loop {
        let request = SuggestRequest { count: 3, worker: "w".into(), wait_s: 0 };
        let response = service.client.suggest(study.id, &request, None).await.expect("an answer");
        if response.exhausted {
            break;
        }
        for suggestion in response.trials {
            let report = ReportRequest {
                lease: Some(suggestion.lease),
                measurements: vec![Measurement { step: 1.0, metrics: loss(1.0), elapsed_s: 0.5 }],
            };
            let reported = service.client.report(suggestion.id, &report).await.expect("stored");
            assert_eq!((reported.stored, reported.repeated), (1, 0));
            let reported = service.client.report(suggestion.id, &report).await.expect("repeated");
            assert_eq!((reported.stored, reported.repeated), (0, 1));
            assert_eq!(service.client.should_stop(suggestion.id, Some(suggestion.lease)).await.expect("advice").action, Action::Continue);
            let lease = service.client.heartbeat(suggestion.id, suggestion.lease).await.expect("alive");
            assert!(lease.lease_expires >= suggestion.lease_expires);
            let trial =
                service.client.complete(suggestion.id, &done(&suggestion, f64::from(suggestion.number)), None).await.expect("completed");
            assert_eq!((trial.state, trial.value), (TrialState::Completed, Some(f64::from(suggestion.number))));
            assert!(trial.max_resource.is_infinite());
            numbers.push(suggestion.number);
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let best = service.client.study(study.id).await.expect("a study").best.expect("a best trial");
    assert_eq!((best.number, best.value), (0, 0.0));
    let optimal = service.client.optimal_trials(study.id).await.expect("trials");
    assert_eq!(optimal.iter().map(|trial| trial.number).collect::<Vec<_>>(), [0]);
}

#[tokio::test]
async fn not_a_number_is_stored_and_as_a_final_value_fails_the_trial() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let trial = service.suggest(&study, 1).await.remove(0);
    let path = format!("/trials/{}", trial.id);
    // As Python's json module writes it.
    let body = format!(
        r#"{{"lease": "{}", "measurements": [{{"step": 1, "metrics": {{"loss": NaN, "up": Infinity, "down": -Infinity}}}}]}}"#,
        trial.lease
    );
    let json = |request: RequestBuilder, body: String| request.header("content-type", "application/json").body(body);
    let response = json(service.ask(Method::POST, &format!("{path}/measurements")), body).send().await.expect("an answer");
    assert_eq!(response.status(), 200, "{:?}", response.text().await);
    let measured = service.client.measurements(trial.id).await.expect("measurements");
    let words = ["nan", "inf", "-inf"].map(|word| MetricValue::NotFinite(word.into()));
    let [nan, up, down] = &words;
    assert_eq!([&measured[0].metrics["loss"], &measured[0].metrics["up"], &measured[0].metrics["down"]], [nan, up, down]);
    let curves = service.client.curves(study.id, None).await.expect("curves");
    assert_eq!(curves.curves[0].points, [(1.0, None)]);
    assert!(curves.best_so_far.is_empty());

    let body = format!(r#"{{"lease": "{}", "metrics": {{"loss": NaN}}}}"#, trial.lease);
    let response = json(service.ask(Method::POST, &format!("{path}:complete")), body).send().await.expect("an answer");
    assert_eq!(response.status(), 200, "{:?}", response.text().await);
    let ended = service.client.trial(trial.id).await.expect("a trial");
    assert_eq!((ended.state, ended.reason, ended.value), (TrialState::Failed, Some(Reason::NoMetric), None));
}

#[tokio::test]
async fn a_long_poll_ends_when_there_is_room() {
    let service = Service::start().await;
    let study = service.study(&OUTSIDE.replace("max_trials: 4", "max_trials: 4, max_parallel: 1")).await;
    let held = service.suggest(&study, 1).await.remove(0);
    let request = SuggestRequest { count: 1, worker: "w2".into(), wait_s: 30 };
    let started = Instant::now();
    let (polled, _) = tokio::join!(service.client.suggest(study.id, &request, None), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        service.client.complete(held.id, &done(&held, 1.0), None).await.expect("completed")
    });
    assert_eq!(polled.expect("an answer").trials.len(), 1);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_study_with_a_workload_lends_nothing() {
    let service = Service::start().await;
    let study = service.study(FASHION).await;
    let request = serde_json::json!({"worker": "w"});
    refused(service.post(&format!("/studies/{}/trials:suggest", study.id), request), 409, "study_has_workload").await;
}

#[tokio::test]
async fn studies_and_trials_obey_verbs() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let id = study.id;
    let verb = |verb: &'static str| service.client.study_verb(id, verb);
    for _ in 0..2 {
        assert_eq!(verb("pause").await.expect("paused").state, StudyState::Paused);
    }
    assert!(service.suggest(&study, 1).await.is_empty());
    assert_eq!(verb("resume").await.expect("resumed").state, StudyState::Active);
    let lent = service.suggest(&study, 2).await;
    let stopping = service.client.trial_verb(lent[0].id, "cancel").await.expect("cancelled");
    assert!(matches!(stopping.state, TrialState::Stopping | TrialState::Cancelled));
    assert_eq!(service.client.should_stop(lent[0].id, None).await.expect("advice").action, Action::Stop);
    service.client.complete(lent[1].id, &done(&lent[1], 1.0), None).await.expect("completed");
    let hidden = service.client.exclude(lent[1].id, true).await.expect("excluded");
    assert!(hidden.excluded);
    assert_eq!(service.client.study(id).await.expect("a study").best, None);
    refused(service.ask(Method::DELETE, &format!("/studies/{id}")), 409, "study_live").await;
    let patch = elastune_api::study::StudyPatch { max_trials: Some(9), ..Default::default() };
    assert_eq!(service.client.change_study(id, &patch).await.expect("changed").max_trials, 9);
    verb("archive").await.expect("archived");
    assert!(service.client.studies(&Default::default()).await.expect("studies").items.is_empty());
}
