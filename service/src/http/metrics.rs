//! `/metrics` in Prometheus' text form: what this process did, and what the database holds. Called by the router.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::db;
use crate::error::Result;
use crate::http::openapi::Problems;

/// Upper bounds of the duration buckets, in seconds.
const BUCKETS_S: [f64; 10] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Durations of requests by method, route and status.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(String, String, u16), Histogram>>,
}

#[derive(Debug, Default, Clone)]
struct Histogram {
    buckets: [u64; BUCKETS_S.len()],
    count: u64,
    sum_s: f64,
}

impl Metrics {
    pub fn observe(&self, method: &str, route: &str, status: u16, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let histogram = requests.entry((method.into(), route.into(), status)).or_default();
        let seconds = took.as_secs_f64();
        for (count, bound) in histogram.buckets.iter_mut().zip(BUCKETS_S) {
            *count += u64::from(seconds <= bound);
        }
        histogram.count += 1;
        histogram.sum_s += seconds;
    }

    fn write(&self, text: &mut String) {
        let requests = self.requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        text.push_str("# TYPE elastune_http_request_duration_seconds histogram\n");
        for ((method, route, status), histogram) in requests {
            let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
            for (count, bound) in histogram.buckets.iter().zip(BUCKETS_S) {
                line(text, format_args!("elastune_http_request_duration_seconds_bucket{{{labels},le=\"{bound}\"}} {count}"));
            }
            let Histogram { count, sum_s, .. } = histogram;
            line(text, format_args!("elastune_http_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} {count}"));
            line(text, format_args!("elastune_http_request_duration_seconds_sum{{{labels}}} {sum_s}"));
            line(text, format_args!("elastune_http_request_duration_seconds_count{{{labels}}} {count}"));
        }
    }
}

fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{args}");
}

/// Needs no token: counts and durations only.
#[utoipa::path(get, path = "/metrics", tag = "service", security(()), responses((status = 200, description = "Prometheus' text form", body = String, content_type = "text/plain"), Problems))]
pub async fn metrics(State(app): State<App>) -> Result<Response> {
    let mut text = String::new();
    app.metrics.write(&mut text);
    let up = match app.pool.acquire().await {
        Ok(mut conn) => {
            let totals = db::totals::read(&mut conn).await?;
            for (name, kind, counts) in [
                ("elastune_studies", "state", totals.studies),
                ("elastune_trials", "state", totals.trials),
                ("elastune_nodes", "state", totals.nodes),
            ] {
                line(&mut text, format_args!("# TYPE {name} gauge"));
                for (value, count) in counts {
                    line(&mut text, format_args!("{name}{{{kind}=\"{value}\"}} {count}"));
                }
            }
            line(&mut text, format_args!("# TYPE elastune_plan_number counter\nelastune_plan_number {}", totals.plan));
            line(&mut text, format_args!("# TYPE elastune_cluster_epoch gauge\nelastune_cluster_epoch {}", totals.epoch));
            1
        }
        Err(_) => 0,
    };
    line(&mut text, format_args!("# TYPE elastune_database_up gauge\nelastune_database_up {up}"));
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
