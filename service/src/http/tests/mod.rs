//! The REST API on a real Postgres, asked over a real socket.

mod auth;
mod bad_input;
mod checkpoints;
mod idempotency;
mod nodes;
mod openapi;
mod outside;
mod pages;
mod reads;
mod service;
mod sse;

use elastune_api::agent::{RegisterRequest, RegisterResponse};
use elastune_api::client::Client;
use elastune_api::cluster::JoinRequest;
use elastune_api::problem::Problem;
use elastune_api::study::Study;
use elastune_api::trial::{SuggestRequest, Suggestion};
use elastune_core::model::cluster::Device;
use elastune_core::model::ids::NodeId;
use elastune_core::model::study::DeviceKind;
use reqwest::{Method, RequestBuilder, Response};
use sqlx::PgPool;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::auth::new_secret;
use crate::app::App;
use crate::checkpoints::CheckpointStore;
use crate::db;
use crate::db::tokens::{self, Kind, Token};
use crate::testing;

/// Trials for outside workers.
const OUTSIDE: &str = "
name: quad
metrics: [{name: loss, goal: minimize}]
search_space: {x: {type: float, min: 0, max: 1}}
algorithm: {name: random, seed: 7}
budget: {max_trials: 4}
";

/// Trials that agents run.
const FASHION: &str = "
name: fashion
metrics: [{name: val_accuracy, goal: maximize}]
search_space: {lr: {type: float, min: 1.0e-4, max: 1.0e-1, scale: log}}
algorithm: {name: random, seed: 7}
workload: {kind: builtin, name: fashion-mnist-mlp, batch_size: 256, shards: 4, epochs: 2}
budget: {max_trials: 4}
";

/// A service of one test's own. It ends with the test.
struct Service {
    base: String,
    admin: String,
    client: Client,
    http: reqwest::Client,
    pool: PgPool,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.cancel();
        self.serving.abort();
    }
}

impl Service {
    async fn start() -> Service {
        let pool = testing::database().await.pool;
        Service::on(pool).await
    }

    /// A replica on a database.
    async fn on(pool: PgPool) -> Service {
        let folder = tempfile::tempdir().expect("a folder");
        let (admin, hash) = new_secret("admin").expect("randomness");
        let mut conn = pool.acquire().await.expect("a connection");
        let now = db::now(&mut conn).await.expect("a clock");
        tokens::insert(&mut conn, &hash, &Token { kind: Kind::Admin, node: None, expires: None }, now).await.expect("a token");
        drop(conn);
        Service::with(pool, admin, folder).await
    }

    async fn with(pool: PgPool, admin: String, folder: tempfile::TempDir) -> Service {
        let stop = CancellationToken::new();
        let checkpoints = CheckpointStore::folder(&folder.path().join("checkpoints")).expect("a store");
        let app = App::new(pool.clone(), checkpoints, stop.clone());
        app.set_prepared();
        let router = super::router(app);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let stopped = stop.clone().cancelled_owned();
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).with_graceful_shutdown(stopped).await.expect("it serves");
        });
        let client = Client::new(&base, Some(&admin)).expect("a client");
        Service { base, admin, client, http: reqwest::Client::new(), pool, stop, serving, _folder: folder }
    }

    /// A request without a token.
    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// A request of the admin's under `/api/v1`.
    fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, &format!("/api/v1{path}")).bearer_auth(&self.admin)
    }

    fn post(&self, path: &str, body: serde_json::Value) -> RequestBuilder {
        self.ask(Method::POST, path).json(&body)
    }

    fn document(&self, path: &str, document: impl Into<String>) -> RequestBuilder {
        self.ask(Method::POST, path).header("content-type", "application/yaml").body(document.into())
    }

    async fn study(&self, document: &str) -> Study {
        self.client.create_study(document, None).await.expect("a valid study")
    }

    async fn suggest(&self, study: &Study, count: u32) -> Vec<Suggestion> {
        let request = SuggestRequest { count, worker: "w".into(), wait_s: 0 };
        self.client.suggest(study.id, &request, None).await.expect("suggestions").trials
    }

    async fn join_token(&self) -> String {
        self.client.join_token(&JoinRequest::default()).await.expect("a join token").token
    }

    /// A node with two CPU slots, and its token.
    async fn node(&self) -> (NodeId, String) {
        let join = self.join_token().await;
        let RegisterResponse { node, token, .. } =
            Client::new(&self.base, Some(&join)).expect("a client").register(&registration()).await.expect("a node");
        (node, token.expect("a new node gets a token"))
    }

    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.expect("a count")
    }
}

fn registration() -> RegisterRequest {
    let device = |index| Device { index, kind: DeviceKind::Cpu, name: "cpu".into(), memory_bytes: 1 << 30, max_sharers: 1 };
    RegisterRequest { name: "n1".into(), devices: vec![device(0), device(1)], advertise: "127.0.0.1".into() }
}

/// The answer is a problem of this status and code; gives it.
async fn refused(request: RequestBuilder, status: u16, code: &str) -> Problem {
    let response = request.send().await.expect("an answer");
    problem(response, status, code).await
}

async fn problem(response: Response, status: u16, code: &str) -> Problem {
    let (url, got) = (response.url().to_string(), response.status().as_u16());
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().expect("text").to_string());
    let text = response.text().await.expect("a body");
    assert_eq!((got, kind.as_deref()), (status, Some("application/problem+json")), "{url}: {text}");
    let problem: Problem = serde_json::from_str(&text).expect("a problem");
    assert_eq!((problem.status, problem.code.as_str()), (status, code), "{url}: {text}");
    assert!(!problem.detail.is_empty() && !problem.title.is_empty(), "{text}");
    problem
}

/// (path, message) of its errors.
fn fields(problem: &Problem) -> Vec<(&str, &str)> {
    problem.errors.iter().map(|error| (error.path.as_str(), error.message.as_str())).collect()
}
