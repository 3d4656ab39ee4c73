//! Event streams: in order, complete, resumable from any event, and live.

use std::time::Duration;

use elastune_api::client::SseStream;
use elastune_api::study::StudyEventLine;
use elastune_api::trial::LogLine;
use reqwest::Method;

use super::*;

async fn take(stream: &mut SseStream, count: usize) -> Vec<StudyEventLine> {
    let mut lines = Vec::new();
    while lines.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(30), stream.next_json()).await.expect("in time");
        lines.push(next.expect("the stream goes on").expect("an event"));
    }
    lines
}

#[tokio::test]
async fn a_stream_resumes_after_any_event_and_goes_on_live() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    service.suggest(&study, 2).await;
    let known = service.client.study(study.id).await.expect("a study").seq;
    let mut stream = service.client.events(study.id, 0).await.expect("a stream");
    let all = take(&mut stream, known as usize).await;
    assert_eq!(all.iter().map(|line| line.seq).collect::<Vec<_>>(), (1..=known).collect::<Vec<_>>());
    assert_eq!(all[0].kind, "study_created");
    for after in 0..known {
        let mut resumed = service.client.events(study.id, after).await.expect("a stream");
        assert_eq!(take(&mut resumed, (known - after) as usize).await, all[after as usize..]);
    }
    // Live, through another replica.
    let replica = Service::on(service.pool.clone()).await;
    replica.client.study_verb(study.id, "pause").await.expect("paused");
    let live = take(&mut stream, 1).await.remove(0);
    assert_eq!((live.seq, live.kind.as_str()), (known + 1, "study_state"));
}

#[tokio::test]
async fn a_stream_says_what_is_wrong_before_it_starts_and_ends_with_the_service() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let path = format!("/studies/{}/events", study.id);
    refused(service.ask(Method::GET, &path).header("last-event-id", "x"), 422, "invalid_value").await;
    refused(service.ask(Method::GET, &format!("/studies/{}/events", uuid::Uuid::nil())), 404, "not_found").await;
    let mut stream = service.client.events(study.id, 0).await.expect("a stream");
    take(&mut stream, 1).await;
    service.stop.cancel();
    let end = tokio::time::timeout(Duration::from_secs(10), stream.next()).await.expect("it ends");
    assert!(end.is_none(), "{end:?}");
}

#[tokio::test]
async fn logs_are_paged_and_followed() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let trial = service.suggest(&study, 1).await.remove(0).id;
    let write = |from: i32, to: i32| {
        let sql =
            "insert into logs (trial, attempt, at_ms, source, line) select $1, 1, 0, '0', 'line ' || n from generate_series($2, $3) n";
        sqlx::query(sql).bind(trial.0).bind(from).bind(to).execute(&service.pool)
    };
    write(0, 9).await.expect("lines");
    let page = service.client.logs(trial, 0, 4).await.expect("a page");
    assert_eq!(page.iter().map(|line| line.line.as_str()).collect::<Vec<_>>(), ["line 0", "line 1", "line 2", "line 3"]);
    let after = page[3].id;
    let mut stream = service.client.follow_logs(trial, after).await.expect("a stream");
    write(10, 11).await.expect("lines");
    let mut seen = Vec::new();
    while seen.len() < 8 {
        let next = tokio::time::timeout(Duration::from_secs(30), stream.next_json::<LogLine>()).await.expect("in time");
        seen.push(next.expect("it goes on").expect("a line").line);
    }
    assert_eq!(seen, (4..12).map(|n| format!("line {n}")).collect::<Vec<_>>());
}
