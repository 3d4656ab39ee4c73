//! A worker for the agent's tests: speaks the protocol by the script in its study's name and trains nothing. Steps, separated by `;`:
//! `ready`, `progress`, `measure:E`, `many:N` (measurements, 20 ms apart), `save:TEXT` (a durable checkpoint), `milestone:E`, `log:TEXT`,
//! `read` (logs its checkpoint), `exit`, `crash`, `mute` (no more signs of life), `stuck` (its counter stands still), `hang` (so, in a
//! collective), `break:MEMBERS` (its group of these, INCARNATION/DEVICE each, @elsewhere where on another node, broke), `deaf` (ignores SIGTERM), `slow` (takes half a second to end). After the last step it waits. In its data folder it appends to `trace`, and locks
//! its slot: `overlap` is written if another process holds it.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use elastune_api::agent::{Exit, ReportBody};
use elastune_api::worker::{Activity, ToAgent, ToWorker, WorkerConfig};
use elastune_core::model::cluster::Slot;
use elastune_core::model::event::MetricValue;
use elastune_core::model::group::Member;
use elastune_core::model::ids::{Incarnation, NodeId};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

#[derive(Default)]
struct Mind {
    /// Not acknowledged, by number.
    unacked: Mutex<VecDeque<(u64, ToAgent)>>,
    /// Sent on the current connection up to here.
    sent: AtomicU64,
    next: AtomicU64,
    changed: Notify,
    counter: AtomicU64,
    mute: AtomicBool,
    stuck: AtomicBool,
    hangs: AtomicBool,
    deaf: AtomicBool,
    slow: AtomicBool,
    goodbye: Mutex<Option<Exit>>,
}

impl Mind {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst) + 1
    }
    fn tell(&self, number: u64, message: ToAgent) {
        self.unacked.lock().expect("no panics").push_back((number, message));
        self.changed.notify_one();
    }
    fn report(&self, body: ReportBody) {
        let number = self.number();
        self.tell(number, ToAgent::Report { number, body });
    }
}

fn trace(config: &WorkerConfig, line: &str) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(config.data.join("trace")).expect("the test's folder");
    file.write_all(format!("{} {line}\n", config.incarnation).as_bytes()).expect("room");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let path = std::env::args().nth(1).expect("a configuration");
    let config: WorkerConfig = serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("a configuration");
    let lock = std::fs::File::create(config.data.join(format!("slot-{}", config.slot.device))).expect("the test's folder");
    if lock.try_lock().is_err() {
        std::fs::write(config.data.join("overlap"), config.incarnation.to_string()).expect("room");
    }
    let has_token = std::env::var_os("ELASTUNE_TOKEN").is_some();
    trace(
        &config,
        &format!("start {} threads={} omp={:?} token={has_token}", std::process::id(), config.threads, std::env::var("OMP_NUM_THREADS")),
    );
    let mind = Arc::new(Mind::default());
    tokio::spawn(talk(config.clone(), mind.clone()));
    let mut terminate = signal(SignalKind::terminate()).expect("signals");
    let ending = async {
        loop {
            terminate.recv().await;
            if !mind.deaf.load(Ordering::SeqCst) {
                break;
            }
        }
        if mind.slow.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Exit::Clean
    };
    let exit = tokio::select! {
        exit = perform(&config, &mind) => exit,
        exit = ending => exit,
    };
    *mind.goodbye.lock().expect("no panics") = Some(exit);
    mind.changed.notify_one();
    // `talk` exits once it is said; without an agent nobody is told.
    tokio::time::sleep(Duration::from_secs(20)).await;
    std::process::exit(1);
}

async fn perform(config: &WorkerConfig, mind: &Mind) -> Exit {
    for step in config.launch.study_name.split(';') {
        let (what, argument) = step.split_once(':').unwrap_or((step, ""));
        let amount = argument.parse::<f64>().unwrap_or(0.0);
        match what {
            "ready" => mind.report(ReportBody::Ready { address: "0.0.0.0:4711".parse().expect("an address") }),
            "progress" => mind.report(ReportBody::Progress { done: 0.5, step: 1, rates: vec![] }),
            "measure" => mind.report(measured(amount)),
            "many" => {
                for epoch in 1..=amount as u64 {
                    mind.report(measured(epoch as f64));
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            "save" => {
                let number = mind.number();
                let path = config.folder.join(format!("{}-{number}", config.incarnation));
                std::fs::write(&path, argument).expect("room");
                let sha256 = hex::encode(Sha256::digest(argument));
                let bytes = argument.len() as u64;
                mind.tell(number, ToAgent::Saved { number, path, sha256, bytes, resource: 1.0, step: number, durable: true });
            }
            "milestone" => mind.report(ReportBody::Milestone { resource: amount }),
            "log" => println!("{argument}"),
            "read" => {
                let path = config.checkpoint.as_ref().expect("the script says so");
                println!("checkpoint {}", std::fs::read_to_string(path).expect("the agent put it there"));
            }
            "exit" => return Exit::Clean,
            "crash" => std::process::abort(),
            "mute" => mind.mute.store(true, Ordering::SeqCst),
            "stuck" => mind.stuck.store(true, Ordering::SeqCst),
            "hang" => {
                mind.stuck.store(true, Ordering::SeqCst);
                mind.hangs.store(true, Ordering::SeqCst);
            }
            "break" => mind.report(broken(config, argument)),
            "deaf" => mind.deaf.store(true, Ordering::SeqCst),
            "slow" => mind.slow.store(true, Ordering::SeqCst),
            other => panic!("no such step: {other}"),
        }
    }
    std::future::pending().await
}

/// On generation 1, made by order 2.
fn broken(config: &WorkerConfig, members: &str) -> ReportBody {
    let member = |member: &str| {
        let (incarnation, device) = member.split_once('/').expect("INCARNATION/DEVICE");
        let (device, node) = match device.strip_suffix("@elsewhere") {
            Some(device) => (device, NodeId(uuid::Uuid::from_u128(5))),
            None => (device, config.slot.node),
        };
        let slot = Slot { node, device: device.parse().expect("a device"), parts: 1 };
        Member { incarnation: Incarnation(incarnation.parse().expect("an incarnation")), slot, address: None }
    };
    let members = members.split(',').map(member).collect();
    let address = "0.0.0.0:4712".parse().expect("an address");
    ReportBody::Broken { generation: 1, order: 2, step: 9, error: "a peer is gone".into(), committed: 1, members, address }
}

fn measured(resource: f64) -> ReportBody {
    ReportBody::Measured { resource, metrics: [("loss".to_owned(), MetricValue::Number(1.0 / resource))].into(), elapsed_s: 0.0 }
}

/// Connects again and again; resends what is not acknowledged.
async fn talk(config: WorkerConfig, mind: Arc<Mind>) {
    loop {
        if let Ok(stream) = UnixStream::connect(&config.socket).await {
            let _ = converse(stream, &config, &mind).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn converse(stream: UnixStream, config: &WorkerConfig, mind: &Mind) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    mind.sent.store(0, Ordering::SeqCst);
    send(&mut write, &ToAgent::Hello { incarnation: config.incarnation, pid: std::process::id() }).await?;
    let mut beat = tokio::time::interval(Duration::from_millis(100));
    loop {
        let waiting: Vec<_> = mind.unacked.lock().expect("no panics").iter().cloned().collect();
        for (number, message) in waiting.into_iter().filter(|(number, _)| *number > mind.sent.load(Ordering::SeqCst)) {
            send(&mut write, &message).await?;
            mind.sent.store(number, Ordering::SeqCst);
        }
        let goodbye = mind.goodbye.lock().expect("no panics").clone();
        if let Some(exit) = goodbye
            && mind.unacked.lock().expect("no panics").is_empty()
        {
            send(&mut write, &ToAgent::Goodbye { exit }).await?;
            trace(config, "end");
            std::process::exit(0);
        }
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line? else { return Ok(()) };
                match serde_json::from_str(&line).expect("the agent writes messages") {
                    ToWorker::Control { control } => {
                        trace(config, &format!("control {}", control.run_until));
                        if let Some(order) = control.order {
                            trace(config, &format!("order {} generation {} of {}", order.order, order.generation, order.members.len()));
                        }
                    }
                    ToWorker::Abort { counter } => trace(config, &format!("abort {counter}")),
                    ToWorker::Ack { count } => mind.unacked.lock().expect("no panics").retain(|(number, _)| *number > count),
                }
            }
            _ = beat.tick(), if !mind.mute.load(Ordering::SeqCst) => {
                let counter = if mind.stuck.load(Ordering::SeqCst) { 1 } else { mind.counter.fetch_add(1, Ordering::SeqCst) + 2 };
                let activity = if mind.hangs.load(Ordering::SeqCst) { Activity::InCollective } else { Activity::Computing };
                send(&mut write, &ToAgent::Alive { counter, activity }).await?;
            }
            () = mind.changed.notified() => {}
        }
    }
}

async fn send(write: &mut tokio::net::unix::OwnedWriteHalf, message: &ToAgent) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message).expect("a message");
    line.push(b'\n');
    write.write_all(&line).await
}
