//! The service around the API: health, outages, request ids, compression, the page, and its own start and stop.

use std::time::Duration;

use reqwest::Method;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::*;

#[tokio::test]
async fn without_a_database_it_lives_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = PgConnectOptions::new().host("127.0.0.1").port(1);
    let pool = PgPoolOptions::new().acquire_timeout(Duration::from_millis(500)).connect_lazy_with(nowhere);
    let service = Service::with(pool, "elastune_admin_x".into(), folder).await;
    service.client.health().await.expect("the process answers");
    for request in [service.bare(Method::GET, "/readyz"), service.ask(Method::GET, "/studies"), service.document("/studies", OUTSIDE)] {
        let response = request.send().await.expect("an answer");
        assert_eq!(response.headers()["retry-after"], "2");
        problem(response, 503, "unavailable").await;
    }
    assert!(service.client.metrics().await.expect("metrics").contains("elastune_database_up 0"));
}

#[tokio::test]
async fn lost_connections_are_replaced() {
    let service = Service::start().await;
    service.client.ready().await.expect("ready");
    let study = service.study(OUTSIDE).await;
    let mut stream = service.client.events(study.id, 1).await.expect("a stream");
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    sqlx::query(kill).execute(&service.pool).await.expect("killed");
    let mut answered = false;
    for _ in 0..20 {
        answered = service.client.study_verb(study.id, "pause").await.is_ok();
        if answered {
            break;
        }
    }
    assert!(answered, "it never found its database again");
    let next = tokio::time::timeout(Duration::from_secs(30), stream.next()).await.expect("in time");
    assert_eq!(next.expect("the stream goes on").expect("an event").event.as_deref(), Some("study_state"));
}

#[tokio::test]
async fn answers_carry_request_ids_and_are_compressed() {
    let service = Service::start().await;
    let own = service.ask(Method::GET, "/studies").header("x-request-id", "mine-1").send().await.expect("an answer");
    assert_eq!(own.headers()["x-request-id"], "mine-1");
    let bad = service.ask(Method::GET, "/studies").header("x-request-id", "a b").send().await.expect("an answer");
    assert!(bad.headers()["x-request-id"].to_str().expect("text").parse::<uuid::Uuid>().is_ok());
    let packed = service.bare(Method::GET, "/openapi.json").header("accept-encoding", "gzip").send().await.expect("an answer");
    assert_eq!(packed.headers()["content-encoding"], "gzip");
}

#[tokio::test]
async fn metrics_count_what_there_is() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    service.suggest(&study, 3).await;
    service.node().await;
    let text = service.client.metrics().await.expect("metrics");
    for line in [
        "elastune_studies{state=\"active\"} 1",
        "elastune_trials{state=\"running\"} 3",
        "elastune_nodes{state=\"ready\"} 1",
        "elastune_plan_number 0",
        "elastune_database_up 1",
        "elastune_http_request_duration_seconds_count{method=\"POST\",route=\"/api/v1/studies\",status=\"201\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn the_page_is_served_with_its_headers() {
    let service = Service::start().await;
    for path in ["/", "/studies/0190b6d5-0000-7000-8000-000000000001"] {
        let page = service.bare(Method::GET, path).send().await.expect("an answer");
        assert_eq!(page.status(), 200, "{path}");
        assert!(page.headers()["content-type"].to_str().expect("text").starts_with("text/html"));
        assert!(page.headers()["content-security-policy"].to_str().expect("text").contains("default-src 'self'"));
    }
    refused(service.bare(Method::GET, "/no/such.js"), 404, "not_found").await;
    refused(service.bare(Method::POST, "/"), 405, "method_not_allowed").await;
}
