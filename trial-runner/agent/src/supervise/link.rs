//! The socket that workers connect to: one connection a process, JSON lines both ways. Reports go straight to the outbox and are
//! acknowledged once they are on disk; everything else goes to `agent`, which started the listener.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use elastune_api::agent::{Control, Exit, ReportBody};
use elastune_api::worker::{Activity, ToAgent, ToWorker};
use elastune_core::elastic::Fact;
use elastune_core::model::ids::{Incarnation, TrialId};
use elastune_core::model::trial::CheckpointRef;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};

use super::checkpoint;
use crate::agent::{Event, now};
use crate::outbox::{Draft, Outbox};
use crate::state::Trials;

/// Longest line that a worker may send, in bytes.
const LINE_BYTES: u64 = 1 << 20;
const HELLO: Duration = Duration::from_secs(10);
/// Workers connect again, and resend, after a fault of this side.
const RETRY: Duration = Duration::from_secs(1);

/// What the worker should know; each value replaces the one before, and only changes are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outgoing {
    pub control: Option<Control>,
    /// None: nothing to say yet.
    pub ack: Option<u64>,
    /// The collective in which it hangs, named by the counter of its signs of life, is to be aborted.
    pub abort: Option<u64>,
}

/// The process that a connection speaks for.
#[derive(Debug, Clone, Copy)]
pub struct Speaker {
    pub trial: TrialId,
    pub attempt: u32,
    pub incarnation: Incarnation,
}

/// What a connection tells the agent. `link` tells a worker's connections apart.
#[derive(Debug)]
pub enum Said {
    /// `peer` is the process at the other end, by the kernel's word; no answer: it isn't the incarnation's process.
    Hello {
        peer: i32,
        outgoing: watch::Sender<Outgoing>,
        accept: oneshot::Sender<Speaker>,
    },
    Alive {
        counter: u64,
        activity: Activity,
    },
    /// Something about its group, which is in the outbox already.
    Happened {
        fact: Fact,
    },
    Goodbye {
        exit: Exit,
    },
    Closed,
}

/// What every connection needs.
#[derive(Debug, Clone)]
pub struct Post {
    pub outbox: Arc<Outbox>,
    pub trials: Trials,
    pub events: mpsc::Sender<Event>,
    /// Peers reach the workers of this node here, whatever address they are bound to.
    pub advertise: IpAddr,
}

/// Accepts connections forever. Errors: the socket can't be made.
pub fn listen(path: &Path, post: Post) -> Result<impl Future<Output = ()> + use<>> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", path.display()));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    Ok(async move {
        let links = AtomicU64::new(1);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (post, link) = (post.clone(), links.fetch_add(1, Ordering::Relaxed));
                    tokio::spawn(async move {
                        if let Err(error) = converse(stream, link, post).await {
                            tracing::warn!("a worker's connection ends: {error:#}");
                        }
                    });
                }
                Err(error) => {
                    tracing::error!("cannot accept a worker's connection: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    })
}

async fn converse(stream: UnixStream, link: u64, post: Post) -> Result<()> {
    let peer = stream.peer_cred()?.pid().context("the kernel does not say who connects")?;
    let (read, write) = stream.into_split();
    let mut lines = Lines { reader: BufReader::new(read), line: Vec::new() };
    let hello = tokio::time::timeout(HELLO, lines.next()).await.context("no hello in time")??;
    let Some(ToAgent::Hello { incarnation, .. }) = hello else { bail!("the first line is no hello") };
    let first = Outgoing { ack: Some(post.outbox.number(incarnation)), ..Outgoing::default() };
    let (outgoing, changes) = watch::channel(first);
    let (accept, accepted) = oneshot::channel();
    let said = |said| Event::Said { incarnation, link, said };
    post.events.send(said(Said::Hello { peer, outgoing: outgoing.clone(), accept })).await?;
    let Ok(speaker) = accepted.await else { bail!("process {peer} is not {incarnation}") };
    let writer = tokio::spawn(write_changes(write, changes));
    let (taken, positions) = watch::channel((0, 0));
    let acker = tokio::spawn(acknowledge(post.outbox.clone(), positions, outgoing));
    let result = read_all(&mut lines, speaker, link, &post, &taken).await;
    writer.abort();
    acker.abort();
    post.events.send(said(Said::Closed)).await?;
    result
}

async fn read_all(lines: &mut Lines, speaker: Speaker, link: u64, post: &Post, taken: &watch::Sender<(u64, u64)>) -> Result<()> {
    while let Some(message) = lines.next().await? {
        let said = match message {
            ToAgent::Hello { .. } => continue,
            ToAgent::Alive { counter, activity } => Said::Alive { counter, activity },
            ToAgent::Goodbye { exit } => Said::Goodbye { exit },
            ToAgent::Saved { durable: false, .. } => continue,
            ToAgent::Saved { number, path, sha256, bytes, resource, step, .. } => {
                let checkpoint = CheckpointRef { sha256, resource, step, bytes };
                take(post, speaker, taken, || saved(post, speaker, number, &path, checkpoint)).await?;
                continue;
            }
            ToAgent::Report { body: ReportBody::Exited { .. } | ReportBody::Checkpointed { .. }, .. } => {
                bail!("{} reports what is the agent's to say", speaker.incarnation)
            }
            ToAgent::Report { number, body } => {
                let body = advertised(body, post.advertise);
                let fact = body.fact(speaker.incarnation);
                take(post, speaker, taken, || Ok(draft(speaker, number, body, None))).await?;
                match fact {
                    Some(fact) => Said::Happened { fact },
                    None => continue,
                }
            }
        };
        post.events.send(Event::Said { incarnation: speaker.incarnation, link, said }).await?;
    }
    Ok(())
}

/// Puts a report in the outbox; its Ack follows. An error closes the connection, and the worker resends over its next.
async fn take(post: &Post, speaker: Speaker, taken: &watch::Sender<(u64, u64)>, draft: impl FnOnce() -> Result<Draft>) -> Result<()> {
    let put = draft().and_then(|draft| {
        let number = draft.number;
        Ok((post.outbox.put(draft)?, number))
    });
    match put {
        Ok((position, number)) => {
            taken.send_modify(|(last, highest)| (*last, *highest) = (position, number.max(*highest)));
            Ok(())
        }
        Err(error) => {
            tokio::time::sleep(RETRY).await;
            Err(error).with_context(|| format!("cannot take a report of {}", speaker.incarnation))
        }
    }
}

fn saved(post: &Post, speaker: Speaker, number: u64, path: &Path, checkpoint: CheckpointRef) -> Result<Draft> {
    let kept = checkpoint::secure(&post.trials, speaker.trial, path, &checkpoint.sha256)
        .with_context(|| format!("cannot keep the checkpoint {}", path.display()));
    let kept = match kept {
        Ok(kept) => kept,
        // Taken and given up: a resend of a file that is gone would fail the same way, forever.
        Err(error) => {
            tracing::error!("{error:#}");
            let line = format!("a checkpoint was lost: {error:#}");
            return Ok(draft(speaker, number, ReportBody::Log { source: "agent".into(), line }, None));
        }
    };
    checkpoint::prune(&post.trials.durable(speaker.trial), |path| path == kept || post.outbox.upload_waits_for(path));
    Ok(draft(speaker, number, ReportBody::Checkpointed { checkpoint }, Some(kept)))
}

fn draft(speaker: Speaker, number: u64, body: ReportBody, upload: Option<std::path::PathBuf>) -> Draft {
    Draft { at: now(), trial: speaker.trial, attempt: speaker.attempt, incarnation: speaker.incarnation, number, body, upload }
}

fn advertised(mut body: ReportBody, ip: IpAddr) -> ReportBody {
    match &mut body {
        ReportBody::Ready { address }
        | ReportBody::Committed { address, .. }
        | ReportBody::Broken { address, .. }
        | ReportBody::OrderFailed { address, .. } => *address = SocketAddr::new(ip, address.port()),
        _ => {}
    }
    body
}

/// Acknowledges what has reached the disk; while one flush runs, the next ones' numbers gather.
async fn acknowledge(outbox: Arc<Outbox>, mut positions: watch::Receiver<(u64, u64)>, outgoing: watch::Sender<Outgoing>) {
    while positions.changed().await.is_ok() {
        let (position, number) = *positions.borrow_and_update();
        match outbox.durable(position).await {
            Ok(()) => outgoing.send_modify(|outgoing| outgoing.ack = outgoing.ack.max(Some(number))),
            Err(error) => tracing::error!("cannot flush the outbox: {error:#}"),
        }
    }
}

async fn write_changes(mut write: OwnedWriteHalf, mut changes: watch::Receiver<Outgoing>) {
    let mut told = Outgoing::default();
    loop {
        let next = changes.borrow_and_update().clone();
        let mut text = Vec::new();
        if let Some(control) = next.control.as_ref().filter(|_| next.control != told.control) {
            push_line(&mut text, &ToWorker::Control { control: control.clone() });
        }
        if let Some(counter) = next.abort.filter(|_| next.abort != told.abort) {
            push_line(&mut text, &ToWorker::Abort { counter });
        }
        if let Some(count) = next.ack.filter(|_| next.ack != told.ack) {
            push_line(&mut text, &ToWorker::Ack { count });
        }
        if write.write_all(&text).await.is_err() || changes.changed().await.is_err() {
            return;
        }
        told = next;
    }
}

fn push_line<T: Serialize>(text: &mut Vec<u8>, message: &T) {
    match serde_json::to_vec(message) {
        Ok(line) => {
            text.extend(line);
            text.push(b'\n');
        }
        Err(error) => tracing::error!("cannot write a message: {error}"),
    }
}

struct Lines {
    reader: BufReader<OwnedReadHalf>,
    line: Vec<u8>,
}

impl Lines {
    /// None at the end. A line that isn't understood is skipped with a warning; one that is too long is an error.
    async fn next(&mut self) -> Result<Option<ToAgent>> {
        loop {
            self.line.clear();
            // A worker that dies closes with a reset where it left lines unread: an end like any other.
            let read = (&mut self.reader).take(LINE_BYTES).read_until(b'\n', &mut self.line).await.unwrap_or(0);
            if read == 0 {
                return Ok(None);
            }
            if !self.line.ends_with(b"\n") {
                if read as u64 == LINE_BYTES {
                    bail!("a line is longer than {LINE_BYTES} bytes");
                }
                return Ok(None);
            }
            match serde_json::from_slice(&self.line) {
                Ok(message) => return Ok(Some(message)),
                Err(error) => tracing::warn!("a worker's line is not understood: {error}"),
            }
        }
    }
}
