//! What the agent's tests run it against: a small service in the test's process, and the agent's program with its folders.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post, put};
use elastune_api::agent::{
    AgentReport, Control, Desired, DesiredWorker, Launch, NodeHeartbeat, RegisterRequest, RegisterResponse, ReportAnswer, ReportBatch,
    ReportBody,
};
use elastune_core::model::cluster::Slot;
use elastune_core::model::ids::{Incarnation, NodeId, TrialId};
use elastune_core::model::study::{Reduction, Workload, WorkloadKind};
use elastune_core::model::trial::CheckpointRef;
use elastune_core::rng::Seed;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use trial_agent::supervise::incarnations::Incarnations;
use trial_agent::supervise::process::Process;
use uuid::Uuid;

pub const JOIN_TOKEN: &str = "join-7f3a";
const NODE_TOKEN: &str = "node-91c2";
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Seen {
    pub registrations: Vec<RegisterRequest>,
    pub heartbeats: Vec<NodeHeartbeat>,
    /// In the order in which they were taken; repeated `seq`s are not.
    pub taken: Vec<AgentReport>,
    last: BTreeMap<Uuid, u64>,
    pub checkpoints: BTreeMap<String, Bytes>,
    pub refuses_uploads: bool,
}

impl Seen {
    /// Bodies of a process's reports, without logs.
    pub fn bodies(&self, worker: &DesiredWorker) -> Vec<ReportBody> {
        let of = |report: &&AgentReport| report.incarnation == worker.incarnation && !matches!(report.body, ReportBody::Log { .. });
        self.taken.iter().filter(of).map(|report| report.body.clone()).collect()
    }
    pub fn exits(&self, worker: &DesiredWorker) -> Vec<elastune_api::agent::Exit> {
        self.bodies(worker).into_iter().filter_map(|body| if let ReportBody::Exited { exit } = body { Some(exit) } else { None }).collect()
    }
    pub fn measured(&self, worker: &DesiredWorker) -> Vec<f64> {
        self.bodies(worker)
            .iter()
            .filter_map(|body| if let ReportBody::Measured { resource, .. } = body { Some(*resource) } else { None })
            .collect()
    }
    pub fn logs(&self, worker: &DesiredWorker) -> Vec<String> {
        let line = |report: &AgentReport| match &report.body {
            ReportBody::Log { line, .. } if report.incarnation == worker.incarnation => Some(line.clone()),
            _ => None,
        };
        self.taken.iter().filter_map(line).collect()
    }
}

struct Inner {
    seen: Mutex<Seen>,
    /// Counts changes of `seen`.
    changes: watch::Sender<u64>,
    desired: watch::Sender<Desired>,
}

/// The service, as far as an agent knows it.
pub struct Service {
    inner: Arc<Inner>,
    pub address: SocketAddr,
    /// A runtime of its own, so that dropping it cuts off whoever is connected.
    server: Option<tokio::runtime::Runtime>,
}

impl Service {
    pub async fn start() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        // An address of its own, so that its port is still free after an absence.
        let [low, high, ..] = std::process::id().to_le_bytes();
        let ip = Ipv4Addr::new(127, 100 + high % 100, low, NEXT.fetch_add(1, Ordering::Relaxed));
        let inner = Inner {
            seen: Mutex::default(),
            changes: watch::Sender::new(0),
            desired: watch::Sender::new(Desired { epoch: 1, plan: 0, version: "none".into(), workers: vec![], draining: false }),
        };
        let mut service = Service { inner: Arc::new(inner), address: SocketAddr::new(ip.into(), 0), server: None };
        service.come_back().await;
        service
    }

    pub async fn come_back(&mut self) {
        let router = Router::new()
            .route("/api/v1/nodes/register", post(register))
            .route("/api/v1/nodes/{id}/desired", get(desired))
            .route("/api/v1/nodes/{id}/heartbeat", post(heartbeat))
            .route("/api/v1/nodes/{id}/reports", post(reports))
            .route("/api/v1/checkpoints/{sha256}", put(put_checkpoint).get(get_checkpoint))
            .with_state(self.inner.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let address = self.address;
        let listener = runtime.spawn(tokio::net::TcpListener::bind(address)).await.expect("no panics").expect("loopback");
        self.address = listener.local_addr().expect("bound");
        runtime.spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        self.server = Some(runtime);
    }

    /// Its port is closed; what is connected is cut off.
    pub fn go_away(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
    }

    pub fn desire(&self, epoch: u64, plan: u64, workers: &[&DesiredWorker]) {
        let workers = workers.iter().map(|worker| (*worker).clone()).collect();
        self.inner.desired.send_replace(Desired { epoch, plan, version: Uuid::new_v4().to_string(), workers, draining: false });
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.inner.seen.lock().expect("no panics")
    }

    /// Returns once the condition holds; fails after a minute.
    pub async fn wait(&self, what: &str, condition: impl Fn(&Seen) -> bool) {
        let mut changes = self.inner.changes.subscribe();
        let waited = tokio::time::timeout(PATIENCE, async {
            while !condition(&self.seen()) {
                changes.changed().await.expect("the service lives");
            }
        });
        if waited.await.is_err() {
            panic!("waited for {what} in vain; taken: {:#?}", self.seen().taken);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.go_away();
    }
}

impl Inner {
    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().expect("no panics"));
        self.changes.send_modify(|count| *count += 1);
    }
}

fn is_bearer(headers: &HeaderMap, token: &str) -> bool {
    headers.get("authorization").and_then(|value| value.to_str().ok()) == Some(&format!("Bearer {token}"))
}

async fn register(
    State(inner): State<Arc<Inner>>,
    headers: HeaderMap,
    Json(request): Json<RegisterRequest>,
) -> Result<Json<RegisterResponse>, StatusCode> {
    let joins = is_bearer(&headers, JOIN_TOKEN);
    if !joins && !is_bearer(&headers, NODE_TOKEN) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    inner.change(|seen| seen.registrations.push(request));
    Ok(Json(RegisterResponse { node: node(), token: joins.then(|| NODE_TOKEN.to_owned()), epoch: 1, heartbeat_ms: 200 }))
}

#[derive(serde::Deserialize)]
struct Question {
    after: Option<String>,
    wait_s: u64,
}

async fn desired(
    State(inner): State<Arc<Inner>>,
    headers: HeaderMap,
    Query(question): Query<Question>,
) -> Result<Json<Desired>, StatusCode> {
    if !is_bearer(&headers, NODE_TOKEN) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let mut versions = inner.desired.subscribe();
    let news = versions.wait_for(|desired| Some(&desired.version) != question.after.as_ref());
    match tokio::time::timeout(Duration::from_secs(question.wait_s), news).await {
        Ok(desired) => Ok(Json(desired.expect("the service lives").clone())),
        Err(_) => Err(StatusCode::NO_CONTENT),
    }
}

async fn heartbeat(State(inner): State<Arc<Inner>>, Json(heartbeat): Json<NodeHeartbeat>) -> StatusCode {
    inner.change(|seen| seen.heartbeats.push(heartbeat));
    StatusCode::NO_CONTENT
}

async fn reports(State(inner): State<Arc<Inner>>, Json(batch): Json<ReportBatch>) -> Json<ReportAnswer> {
    let mut accepted_seq = 0;
    inner.change(|seen| {
        let last = seen.last.entry(batch.spool).or_default();
        for report in batch.reports {
            if report.seq > *last {
                assert_eq!(report.seq, *last + 1, "no gaps");
                *last = report.seq;
                seen.taken.push(report);
            }
        }
        accepted_seq = *last;
    });
    Json(ReportAnswer { accepted_seq, dropped: vec![] })
}

async fn put_checkpoint(State(inner): State<Arc<Inner>>, Path(sha256): Path<String>, body: Bytes) -> StatusCode {
    if inner.seen.lock().expect("no panics").refuses_uploads {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    if hex::encode(Sha256::digest(&body)) != sha256 {
        return StatusCode::BAD_REQUEST;
    }
    inner.change(|seen| drop(seen.checkpoints.insert(sha256, body)));
    StatusCode::CREATED
}

async fn get_checkpoint(State(inner): State<Arc<Inner>>, Path(sha256): Path<String>) -> Result<Bytes, StatusCode> {
    inner.seen.lock().expect("no panics").checkpoints.get(&sha256).cloned().ok_or(StatusCode::NOT_FOUND)
}

/// The agent's program with its state and its workers' data folder.
pub struct Agent {
    pub folder: tempfile::TempDir,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Agent {
    /// With `arguments` beside the usual ones.
    pub fn start(service: &Service, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::fs::create_dir(folder.path().join("data")).expect("writable");
        let mut all: Vec<String> = ["--name", "n1", "--devices", "cpu:2", "--service"].map(str::to_owned).into();
        all.push(format!("http://{}", service.address));
        all.extend(["--state".to_owned(), path("state"), "--data".to_owned(), path("data")]);
        all.extend(["--worker".to_owned(), worker_program().to_string_lossy().into_owned()]);
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let mut agent = Agent { folder, arguments: all, child: None };
        agent.start_again();
        agent
    }

    pub fn start_again(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).expect("writable");
        let command = Command::new(env!("CARGO_BIN_EXE_trial-agent"))
            .args(&self.arguments)
            .env("ELASTUNE_TOKEN", JOIN_TOKEN)
            .env("ELASTUNE_LOG", "debug")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(command.expect("the agent's program"));
    }

    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    /// As `kill -9` of the worker.
    pub fn kill_worker(&self, worker: &DesiredWorker) {
        let started = self.trace(worker).into_iter().find_map(|line| line.strip_prefix("start ").map(str::to_owned));
        let pid: i32 = started.and_then(|line| line.split(' ').next()?.parse().ok()).expect("it has started");
        let process = self.processes().into_iter().find(|process| process.pid.pid == pid);
        process.expect("it lives").kill();
    }

    /// SIGTERM, then its exit status.
    pub async fn terminate(&mut self) -> std::process::ExitStatus {
        let mut child = self.child.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("ours");
        tokio::task::spawn_blocking(move || child.wait().expect("ours")).await.expect("no panics")
    }

    /// Lines that the worker wrote about itself.
    pub fn trace(&self, worker: &DesiredWorker) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("data/trace")).unwrap_or_default();
        let incarnation = worker.incarnation.to_string();
        text.lines().filter_map(|line| line.strip_prefix(&incarnation)).map(|line| line.trim().to_owned()).collect()
    }

    pub fn starts(&self, worker: &DesiredWorker) -> usize {
        self.trace(worker).iter().filter(|line| line.starts_with("start ")).count()
    }

    /// Returns once the worker has written the line.
    pub async fn traced(&self, worker: &DesiredWorker, line: &str) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !self.trace(worker).iter().any(|traced| traced == line) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(waited.await.is_ok(), "waited for {line:?} in vain; trace: {:#?}", self.trace(worker));
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("it logs")
    }

    /// Two processes were on one slot at once.
    pub fn overlapped(&self) -> bool {
        self.folder.path().join("data/overlap").exists()
    }

    pub fn processes(&self) -> Vec<Process> {
        let copy = self.folder.path().join("incarnations.copy");
        if std::fs::copy(self.folder.path().join("state/incarnations.jsonl"), &copy).is_err() {
            return Vec::new();
        }
        let alive = Incarnations::open(&copy).expect("readable").alive();
        alive.iter().filter_map(|record| Process::find(record.pid?)).collect()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for process in self.processes() {
            process.kill();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn worker_program() -> PathBuf {
    let path = std::env::current_exe().expect("this test").parent().expect("deps").with_file_name("examples").join("fake-worker");
    assert!(path.exists(), "{} is missing: run `cargo test -p trial-agent`, which builds it", path.display());
    path
}

fn node() -> NodeId {
    NodeId(Uuid::from_u128(0xabc))
}

/// A worker that follows the script; see `worker.rs`.
pub fn scripted(device: u16, script: &str) -> DesiredWorker {
    DesiredWorker {
        trial: TrialId(Uuid::new_v4()),
        attempt: 1,
        incarnation: Incarnation(Uuid::new_v4()),
        slot: Slot { node: node(), device, parts: 1 },
        launch: Launch {
            study_name: script.into(),
            trial_number: 0,
            workload: Workload {
                kind: WorkloadKind::Builtin,
                name: "fashion-mnist-mlp".into(),
                batch_size: 64,
                shards: 4,
                reduction: Reduction::Exact,
                epochs: None,
            },
            parameters: BTreeMap::new(),
            seed: Seed(1),
            metrics: vec!["loss".into()],
            max_resource: 4.0,
            checkpoint: None,
        },
        control: Control { generation: 0, order: None, run_until: 1.0, finish: None },
    }
}

pub fn checkpoint_of(content: &str) -> CheckpointRef {
    CheckpointRef { sha256: hex::encode(Sha256::digest(content)), resource: 1.0, step: 1, bytes: content.len() as u64 }
}
