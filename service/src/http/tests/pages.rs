//! Listings page by page: every line once, in order, whatever the order.

use elastune_api::client::{StudyQuery, TrialQuery};
use elastune_core::model::trial::TrialState;

use super::*;

#[tokio::test]
async fn a_thousand_trials_are_walked_without_gap_or_repeat() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    // Every seventh has no value, and values tie.
    sqlx::query(
        "insert into trials (id, study, number, parameters, state, run_until, created_ms, ended_ms, value)
         select gen_random_uuid(), $1, n, '{\"x\": 0.5}', case when n % 10 = 0 then 'failed' else 'completed' end, 1, 0, 1,
                case when n % 7 = 0 then null else (n * 37 % 100)::float8 end
         from generate_series(0, 999) n",
    )
    .bind(study.id.0)
    .execute(&service.pool)
    .await
    .expect("trials");
    for order_by in ["number", "-number", "value", "-value"] {
        for limit in [137, 1000] {
            let mut query = TrialQuery { order_by: Some(order_by.into()), limit: Some(limit), ..TrialQuery::default() };
            let mut seen = Vec::new();
            loop {
                let page = service.client.trials(study.id, &query).await.expect("a page");
                assert!(page.items.len() <= limit as usize);
                seen.extend(page.items);
                query.page_token = page.next_page_token;
                if query.page_token.is_none() {
                    break;
                }
            }
            let mut numbers: Vec<_> = seen.iter().map(|trial| trial.number).collect();
            let values: Vec<_> = seen.iter().filter_map(|trial| trial.value).collect();
            match order_by {
                "number" => assert!(numbers.is_sorted()),
                "-number" => assert!(numbers.iter().rev().is_sorted()),
                "value" => assert!(values.is_sorted()),
                _ => assert!(values.iter().rev().is_sorted()),
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (0..1000).collect::<Vec<_>>(), "{order_by} by {limit}");
        }
    }
    let query = TrialQuery { state: Some("failed,cancelled".into()), limit: Some(1000), ..TrialQuery::default() };
    let failed = service.client.trials(study.id, &query).await.expect("a page").items;
    assert_eq!(failed.len(), 100);
    assert!(failed.iter().all(|trial| trial.state == TrialState::Failed));

    let page = service.client.trials(study.id, &TrialQuery { limit: Some(10), ..TrialQuery::default() }).await.expect("a page");
    let token = page.next_page_token.expect("there is more");
    let mixed = service.ask(reqwest::Method::GET, &format!("/studies/{}/trials?order_by=value&page_token={token}", study.id));
    refused(mixed, 422, "invalid_value").await;
    assert_eq!(service.client.parallel(study.id).await.expect("lines").lines.len(), 1000);
}

#[tokio::test]
async fn studies_are_listed_newest_first() {
    let service = Service::start().await;
    let mut made = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        made.push(service.study(&OUTSIDE.replace("quad", name)).await.id);
    }
    let mut query = StudyQuery { limit: Some(2), ..StudyQuery::default() };
    let mut seen = Vec::new();
    loop {
        let page = service.client.studies(&query).await.expect("a page");
        seen.extend(page.items.into_iter().map(|study| study.id));
        query.page_token = page.next_page_token;
        if query.page_token.is_none() {
            break;
        }
    }
    made.reverse();
    assert_eq!(seen, made);
    assert_eq!(service.client.find_study("c").await.expect("found").name, "c");
    assert!(service.client.find_study("z").await.is_err());
}
