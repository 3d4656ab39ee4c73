//! What a client may get wrong: a clear 4xx that names field and reason; nothing lost, nothing half-stored.

use elastune_api::agent::{AgentReport, ReportBatch, ReportBody};
use elastune_api::trial::CompleteRequest;
use elastune_core::model::ids::{Incarnation, TrialId};
use elastune_core::time::Time;
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::*;

/// Both `studies` and `studies:validate` refuse it alike, and nothing is stored.
async fn refused_document(service: &Service, document: &str, status: u16, code: &str) -> Problem {
    let told = refused(service.document("/studies:validate", document), status, code).await;
    let again = refused(service.document("/studies", document), status, code).await;
    assert_eq!(told, again);
    assert_eq!(service.count("select count(*) from studies").await, 0);
    told
}

#[tokio::test]
async fn malformed_documents() {
    let service = Service::start().await;
    let long = format!("name: {}", "[".repeat(100));
    for document in ["a: [1, 2", "a: b: c", "\u{1}", "a: 1\n---\nb: 2", "a: *nowhere", "x: !mine abc", &long, "a: .nan"] {
        let told = refused_document(&service, document, 400, "malformed_yaml").await;
        assert_eq!(told.errors.len(), 1, "{document:?}: {told:?}");
    }
    for body in ["", "{", "{\"a\": NaN}", "[1] 2", "{\"a\": 1, \"a\": 2}"] {
        let request = service.ask(Method::POST, "/studies").header("content-type", "application/json").body(body);
        refused(request, 400, "malformed_json").await;
    }
    let invalid = service.ask(Method::POST, "/studies").header("content-type", "application/json").body(b"\"\xff\"".to_vec());
    refused(invalid, 400, "malformed_json").await;
    let form = service.ask(Method::POST, "/studies").header("content-type", "application/x-www-form-urlencoded").body("a=1");
    refused(form, 415, "unsupported_media_type").await;
    assert_eq!(service.count("select count(*) from studies").await, 0);
}

#[tokio::test]
async fn an_alias_bomb_is_refused_quickly() {
    let service = Service::start().await;
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", "));
    }
    let started = std::time::Instant::now();
    refused_document(&service, &bomb, 400, "malformed_yaml").await;
    assert!(started.elapsed().as_secs() < 20);
}

#[tokio::test]
async fn each_mistake_in_a_study_names_its_field() {
    let service = Service::start().await;
    // What is replaced in a good document, by what, and the field that must be named.
    let mistakes = [
        (FASHION, "min: 1.0e-4", "min: 2.0", "search_space.lr"),
        (FASHION, "min: 1.0e-4", "min: 0", "search_space.lr"),
        (FASHION, "min: 1.0e-4", "min: -1", "search_space.lr"),
        (FASHION, "name: fashion\n", "name: fashion\ncolour: red\n", "colour"),
        (FASHION, "{name: random, seed: 7}", "{name: pbt}", "algorithm.name"),
        (FASHION, "shards: 4", "shards: 3", "workload.shards"),
        (FASHION, "{name: val_accuracy, goal: maximize}", "{name: a, goal: maximize}, {name: a, goal: minimize}", "metrics"),
        (FASHION, "min: 1.0e-4", "min: \"1.0e-4\"", "search_space.lr.min"),
        (OUTSIDE, "min: 0, max: 1", "min: 0, max: 1, step: 0.3", "search_space.x"),
        (OUTSIDE, "max_trials: 4", "max_trials: 0", "budget.max_trials"),
        (OUTSIDE, "max_trials: 4", "max_trials: 4, max_cost: 5.0", "budget.max_cost"),
    ];
    for (document, good, bad, field) in mistakes {
        assert!(document.contains(good), "{good}");
        let told = refused_document(&service, &document.replacen(good, bad, 1), 422, "invalid_study").await;
        let found = fields(&told).into_iter().find(|(path, message)| path.starts_with(field) && !message.is_empty());
        assert!(found.is_some(), "{bad}: wanted {field}, got {:?}", told.errors);
        if bad.contains("max_cost") || bad.contains("pbt") {
            assert!(told.errors.iter().any(|error| error.message.contains("not supported in this version")), "{:?}", told.errors);
        }
    }
    let twice = OUTSIDE.replace("{x: {type: float, min: 0, max: 1}}", "{x: {type: float, min: 0, max: 1}, x: {type: int, min: 0, max: 1}}");
    let told = refused_document(&service, &twice, 400, "malformed_yaml").await;
    assert!(told.errors[0].message.contains("'x' stands twice"), "{told:?}");
}

#[tokio::test]
async fn all_mistakes_are_told_at_once() {
    let service = Service::start().await;
    let bad = FASHION.replace("min: 1.0e-4", "min: 0").replace("shards: 4", "shards: 3").replace("max_trials: 4", "max_trials: -1");
    let told = refused_document(&service, &bad, 422, "invalid_study").await;
    for field in ["search_space.lr", "workload.shards", "budget.max_trials"] {
        assert!(told.errors.iter().any(|error| error.path.starts_with(field)), "{field}: {:?}", told.errors);
    }
}

#[tokio::test]
async fn a_good_study_is_stored_as_it_was_validated() {
    let service = Service::start().await;
    let valid = service.client.validate_study(FASHION).await.expect("valid");
    assert_eq!(service.count("select count(*) from studies").await, 0);
    let study = service.study(FASHION).await;
    assert_eq!(study.spec, Some(valid.spec));
}

#[tokio::test]
async fn a_report_for_a_finished_trial_is_a_conflict() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let trial = service.suggest(&study, 1).await.remove(0);
    let metrics = [("loss".to_string(), elastune_core::model::event::MetricValue::Number(1.0))].into();
    let done = CompleteRequest { lease: Some(trial.lease), metrics, infeasible: None };
    service.client.complete(trial.id, &done, None).await.expect("completed");
    let report = json!({"lease": trial.lease, "measurements": [{"step": 5, "metrics": {"loss": 0.5}}]});
    let told = refused(service.post(&format!("/trials/{}/measurements", trial.id), report), 409, "trial_finished").await;
    assert!(told.detail.contains("completed"), "{}", told.detail);
    let measured = service.client.measurements(trial.id).await.expect("measurements");
    assert_eq!(measured.len(), 1);
    refused(service.post(&format!("/trials/{}:heartbeat", trial.id), json!({"lease": trial.lease})), 409, "trial_finished").await;
}

#[tokio::test]
async fn a_late_process_is_answered_and_dropped() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let trial = service.suggest(&study, 1).await.remove(0);
    let (node, token) = service.node().await;
    let agent = service.client.with_token(&token).expect("a client");
    let report = |seq, trial| AgentReport {
        seq,
        at: Time(0),
        trial,
        attempt: 1,
        incarnation: Incarnation(Uuid::new_v4()),
        body: ReportBody::Progress { done: 1.0, step: 1, rates: Vec::new() },
    };
    let batch = ReportBatch { spool: Uuid::new_v4(), reports: vec![report(1, trial.id), report(2, TrialId(Uuid::new_v4()))] };
    let answer = agent.node_reports(node, &batch).await.expect("late is no error");
    assert_eq!((answer.accepted_seq, answer.dropped.len()), (2, 2), "{answer:?}");
    assert!(answer.dropped.iter().all(|dropped| !dropped.reason.is_empty()));
    let again = agent.node_reports(node, &batch).await.expect("repeated is no error");
    assert_eq!((again.accepted_seq, again.dropped.len()), (2, 2), "{again:?}");
    assert_eq!(service.client.trial(trial.id).await.expect("a trial").done, 0.0);
}

#[tokio::test]
async fn a_stale_lease_is_a_conflict() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let trial = service.suggest(&study, 1).await.remove(0);
    let stale = Uuid::new_v4();
    let report = json!({"lease": stale, "measurements": [{"step": 1, "metrics": {"loss": 0.5}}]});
    refused(service.post(&format!("/trials/{}/measurements", trial.id), report), 409, "stale_lease").await;
    refused(service.post(&format!("/trials/{}:complete", trial.id), json!({"lease": stale})), 409, "stale_lease").await;
    assert!(service.client.measurements(trial.id).await.expect("measurements").is_empty());
}

#[tokio::test]
async fn bodies_are_bounded() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let trial = service.suggest(&study, 1).await.remove(0);
    let huge = vec![b'x'; 100 << 20];
    let request = service.ask(Method::POST, "/studies").header("content-type", "application/yaml").body(huge.clone());
    refused(request, 413, "too_large").await;
    // The same without a length up front.
    let chunks = futures::stream::iter((0..100).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 1 << 20])));
    let request = service.ask(Method::POST, "/studies").header("content-type", "application/yaml");
    refused(request.body(reqwest::Body::wrap_stream(chunks)), 413, "too_large").await;
    let request = service.ask(Method::POST, &format!("/trials/{}/measurements", trial.id)).header("content-type", "application/json");
    refused(request.body(huge), 413, "too_large").await;
    service.client.health().await.expect("it lives");
}

#[tokio::test]
async fn wrong_requests_name_the_field() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await.id;
    let trial = TrialId(Uuid::new_v4());
    let get = |path: String| service.ask(Method::GET, &path);
    let nowhere = Uuid::nil();
    refused(get("/studies/nonsense".into()), 400, "invalid_id").await;
    refused(get("/trials/nonsense:stop".into()), 405, "method_not_allowed").await;
    refused(get(format!("/studies/{nowhere}")), 404, "not_found").await;
    refused(get(format!("/trials/{nowhere}")), 404, "not_found").await;
    refused(get(format!("/nodes/{nowhere}")), 404, "not_found").await;
    refused(get("/plans/99".into()), 404, "not_found").await;
    refused(get("/plans/x".into()), 400, "invalid_plan").await;
    refused(get("/nothing/here".into()), 404, "not_found").await;
    refused(get(format!("/studies/{study}/~pause")), 404, "not_found").await;
    refused(get(format!("/studies/{study}:pause")), 405, "method_not_allowed").await;
    let told = refused(service.ask(Method::POST, &format!("/studies/{study}:dance")), 404, "not_found").await;
    assert!(told.detail.contains(":dance"), "{}", told.detail);
    refused(service.ask(Method::DELETE, "/studies"), 405, "method_not_allowed").await;
    for query in ["limit=0", "limit=1001", "order_by=colour", "state=red", "page_token=abc"] {
        let told = refused(get(format!("/studies/{study}/trials?{query}")), 422, "invalid_value").await;
        assert!(query.starts_with(told.errors[0].path.as_str()), "{told:?}");
    }
    for query in ["limit=many", "colour=red"] {
        refused(get(format!("/studies/{study}/trials?{query}")), 400, "invalid_query").await;
    }
    let told =
        refused(service.ask(Method::PATCH, &format!("/studies/{study}")).json(&json!({"max_trials": "many"})), 422, "invalid_body").await;
    assert_eq!(told.errors[0].path, "max_trials");
    let told = refused(
        service.ask(Method::PATCH, &format!("/studies/{study}")).json(&json!({"max_trials": 0, "weight": -1.0})),
        422,
        "invalid_study",
    )
    .await;
    assert_eq!(told.errors.len(), 2, "{told:?}");
    let suggest = json!({"count": 0, "worker": "", "wait_s": 31});
    let told = refused(service.post(&format!("/studies/{study}/trials:suggest"), suggest), 422, "invalid_request").await;
    assert_eq!(told.errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), ["count", "worker", "wait_s"]);
    let report = json!({"measurements": []});
    refused(service.post(&format!("/trials/{trial}/measurements"), report), 422, "invalid_measurement").await;
}

#[tokio::test]
async fn measurements_are_checked_and_stored_whole_or_not_at_all() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let trial = service.suggest(&study, 1).await.remove(0);
    let path = format!("/trials/{}/measurements", trial.id);
    let good = json!({"step": 1, "metrics": {"loss": 0.5}});
    let wrong = [
        (json!({"step": 2, "metrics": {"loss": "high"}}), "measurements[1].metrics.loss"),
        (json!({"step": -1, "metrics": {"loss": 1}}), "measurements[1].step"),
        (json!({"step": 2, "metrics": {}}), "measurements[1].metrics"),
        (json!({"step": 2, "metrics": {"": 1}}), "measurements[1].metrics"),
        (json!({"step": 2, "metrics": {"loss": 1}, "elapsed_s": -5}), "measurements[1].elapsed_s"),
    ];
    for (bad, field) in wrong {
        let told = refused(service.post(&path, json!({"measurements": [good, bad]})), 422, "invalid_measurement").await;
        assert_eq!(told.errors[0].path, field, "{told:?}");
    }
    let many: Vec<_> = (0..1001).map(|step| json!({"step": step, "metrics": {"loss": 1}})).collect();
    refused(service.post(&path, json!({"measurements": many})), 422, "invalid_measurement").await;
    assert_eq!(service.count("select count(*) from measurements").await, 0);
}

#[tokio::test]
async fn a_bad_registration_is_told_everything_at_once() {
    let service = Service::start().await;
    let join = service.join_token().await;
    let body = json!({"name": "", "advertise": "not a host!", "devices": [
        {"index": 5, "kind": "cpu", "name": "cpu", "memory_bytes": 1, "max_sharers": 0}]});
    let request = service.bare(Method::POST, "/api/v1/nodes/register").bearer_auth(&join).json(&body);
    let told = refused(request, 422, "invalid_node").await;
    let paths: Vec<_> = fields(&told).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["name", "advertise", "devices[0].index", "devices[0].max_sharers"]);
    assert_eq!(service.count("select count(*) from nodes").await, 0);
}
