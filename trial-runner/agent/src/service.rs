//! Calls to the service: register, desired state, reports, heartbeats, checkpoints. One try each; callers decide about the next.

use std::path::Path;
use std::sync::RwLock;
use std::time::Duration;

use elastune_api::agent::{Desired, NodeHeartbeat, RegisterRequest, RegisterResponse, ReportAnswer, ReportBatch};
use elastune_api::problem::Problem;
use elastune_core::model::ids::{Incarnation, NodeId};
use futures::StreamExt;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use crate::cli::Secret;

/// Longest answer that is read, in bytes; checkpoints are not bound by it.
const ANSWER_BYTES: usize = 32 << 20;
const CALL: Duration = Duration::from_secs(15);
/// A checkpoint's transfer may pause this long.
const STILL: Duration = Duration::from_secs(30);

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No answer, or one that says to come again.
    #[error("the service does not answer: {0}")]
    Away(String),
    /// The token isn't valid (any more).
    #[error("the service refuses the token: {0}")]
    Denied(String),
    /// It would answer the same again.
    #[error("the service refuses: {status} {detail}")]
    Refused { status: u16, detail: String },
}

/// Who this node is to the service.
#[derive(Debug, Clone)]
pub struct Identity {
    pub node: NodeId,
    pub token: Secret,
}

#[derive(Debug)]
pub struct Service {
    http: reqwest::Client,
    base: String,
    identity: RwLock<Option<Identity>>,
}

impl Service {
    /// `address` without a slash at its end.
    pub fn new(address: &str, identity: Option<Identity>) -> anyhow::Result<Self> {
        let mut http = reqwest::Client::builder().connect_timeout(Duration::from_secs(5)).read_timeout(STILL + Duration::from_secs(15));
        let host = reqwest::Url::parse(address)?.host_str().unwrap_or_default().to_owned();
        if host == "localhost" || host.starts_with("127.") || host == "[::1]" {
            http = http.no_proxy();
        }
        Ok(Service { http: http.build()?, base: format!("{address}/api/v1"), identity: RwLock::new(identity) })
    }

    pub fn identity(&self) -> Option<Identity> {
        self.identity.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn set_identity(&self, identity: Option<Identity>) {
        *self.identity.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = identity;
    }

    /// With `token` as bearer: the join token, or the node's own.
    pub async fn register(&self, request: &RegisterRequest, token: &Secret) -> Result<RegisterResponse, Failure> {
        let call = self.http.post(format!("{}/nodes/register", self.base)).bearer_auth(token.reveal()).json(request).timeout(CALL);
        json(send(call).await?).await
    }

    /// Waits up to `wait_s` for a version other than `after`; None if there is none.
    pub async fn desired(&self, after: Option<&str>, wait_s: u64) -> Result<Option<Desired>, Failure> {
        let mut call = self.node_call(Method::GET, "desired")?.query(&[("wait_s", wait_s)]).timeout(CALL + Duration::from_secs(wait_s));
        if let Some(after) = after {
            call = call.query(&[("after", after)]);
        }
        let response = send(call).await?;
        if response.status() == StatusCode::NO_CONTENT { Ok(None) } else { json(response).await.map(Some) }
    }

    pub async fn heartbeat(&self, workers: Vec<Incarnation>) -> Result<(), Failure> {
        send(self.node_call(Method::POST, "heartbeat")?.json(&NodeHeartbeat { workers }).timeout(CALL)).await.map(drop)
    }

    pub async fn reports(&self, batch: &ReportBatch) -> Result<ReportAnswer, Failure> {
        json(send(self.node_call(Method::POST, "reports")?.json(batch).timeout(CALL)).await?).await
    }

    /// Stores the file under its hash.
    pub async fn put_checkpoint(&self, sha256: &str, file: tokio::fs::File, bytes: u64) -> Result<(), Failure> {
        let call = self.checkpoint_call(Method::PUT, sha256)?.header("content-type", "application/octet-stream");
        send(call.header("content-length", bytes).body(file)).await.map(drop)
    }

    /// Writes the checkpoint to `path` (a temporary name; the caller renames it) and flushes it. The hash is checked on the way.
    pub async fn get_checkpoint(&self, sha256: &str, path: &Path) -> Result<(), Failure> {
        let response = send(self.checkpoint_call(Method::GET, sha256)?).await?;
        let mut file = tokio::fs::File::create(path).await.map_err(local)?;
        let mut hash = Sha256::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(away)?;
            hash.update(&chunk);
            file.write_all(&chunk).await.map_err(local)?;
        }
        file.sync_all().await.map_err(local)?;
        let found = hex::encode(hash.finalize());
        if found == sha256 { Ok(()) } else { Err(Failure::Away(format!("checkpoint {sha256} arrived as {found}"))) }
    }

    fn node_call(&self, method: Method, what: &str) -> Result<RequestBuilder, Failure> {
        let identity = self.identity().ok_or_else(|| Failure::Away("not registered yet".into()))?;
        let address = format!("{}/nodes/{}/{what}", self.base, identity.node);
        Ok(self.http.request(method, address).bearer_auth(identity.token.reveal()))
    }

    fn checkpoint_call(&self, method: Method, sha256: &str) -> Result<RequestBuilder, Failure> {
        let identity = self.identity().ok_or_else(|| Failure::Away("not registered yet".into()))?;
        Ok(self.http.request(method, format!("{}/checkpoints/{sha256}", self.base)).bearer_auth(identity.token.reveal()))
    }
}

async fn send(call: RequestBuilder) -> Result<Response, Failure> {
    let response = call.send().await.map_err(away)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let text = body(response, 64 << 10).await.unwrap_or_default();
    let detail = match serde_json::from_slice::<Problem>(&text) {
        Ok(problem) => problem.detail,
        Err(_) => status.canonical_reason().unwrap_or("no reason given").to_owned(),
    };
    Err(match status.as_u16() {
        401 | 403 => Failure::Denied(detail),
        408 | 425 | 429 | 500.. => Failure::Away(format!("{} {detail}", status.as_u16())),
        status => Failure::Refused { status, detail },
    })
}

async fn json<T: DeserializeOwned>(response: Response) -> Result<T, Failure> {
    let text = body(response, ANSWER_BYTES).await?;
    serde_json::from_slice(&text)
        .map_err(|error| Failure::Away(format!("its answer is not understood ({error}); are both of the same version?")))
}

async fn body(response: Response, limit_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        text.extend_from_slice(&chunk.map_err(away)?);
        if text.len() > limit_bytes {
            return Err(Failure::Away(format!("its answer is longer than {limit_bytes} bytes")));
        }
    }
    Ok(text)
}

fn away(error: reqwest::Error) -> Failure {
    // The address may hold nothing secret, but the chain of causes says more.
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Failure::Away(text)
}

fn local(error: std::io::Error) -> Failure {
    Failure::Away(format!("cannot write the checkpoint here: {error}"))
}
