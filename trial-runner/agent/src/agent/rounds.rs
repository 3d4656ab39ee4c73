//! The agent's calls that come round: register, then the desired state and heartbeats for as long as the token holds. Run by `agent`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use elastune_api::agent::{RegisterRequest, RegisterResponse};
use elastune_core::model::ids::Incarnation;
use tokio::sync::{mpsc, watch};

use super::Event;
use crate::backoff::Backoff;
use crate::cli::{Config, Secret};
use crate::devices::LocalDevice;
use crate::service::{Failure, Identity, Service};
use crate::state::StateFolder;

/// Seconds that the service may hold a question for the desired state.
const WAIT_S: u64 = 25;
/// Between two questions at the least.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn request(config: &Config, devices: &[LocalDevice]) -> RegisterRequest {
    RegisterRequest {
        name: config.name.clone(),
        devices: devices.iter().map(|device| device.device.clone()).collect(),
        advertise: config.advertise.to_string(),
    }
}

/// Forever: registers, then asks and tells until the service no longer knows this node.
pub(super) async fn talk(
    config: Arc<Config>,
    state: Arc<StateFolder>,
    service: Arc<Service>,
    request: RegisterRequest,
    alive: watch::Receiver<Vec<Incarnation>>,
    events: mpsc::Sender<Event>,
) {
    let mut backoff = Backoff::new();
    loop {
        let answer = match register(&config, &state, &service, &request).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!("cannot register: {error:#}");
                tokio::time::sleep(backoff.fail()).await;
                continue;
            }
        };
        tracing::info!(node = %answer.node, epoch = answer.epoch, "registered");
        let heartbeat = Duration::from_millis(answer.heartbeat_ms.clamp(100, 60_000));
        let failure = tokio::select! {
            failure = ask(&service, &events, &mut backoff) => failure,
            failure = beat(&service, heartbeat, alive.clone()) => failure,
        };
        tracing::warn!("{failure}; registers again");
        tokio::time::sleep(backoff.fail()).await;
    }
}

/// With the node's own token if there is one; where that is refused, with the join token.
async fn register(config: &Config, state: &StateFolder, service: &Service, request: &RegisterRequest) -> Result<RegisterResponse> {
    let own = service.identity().map(|identity| identity.token);
    let join = config.join_token.clone();
    let answer = match (&own, &join) {
        (Some(own), _) => match (service.register(request, own).await, &join) {
            (Err(Failure::Denied(_)), Some(join)) => service.register(request, join).await?,
            (answer, _) => answer?,
        },
        (None, Some(join)) => service.register(request, join).await?,
        (None, None) => anyhow::bail!("there is no token yet; give --token (from `elastune nodes add`, or the service's page)"),
    };
    let token = answer.token.clone().map(Secret::new).or(own);
    let Some(token) = token else { anyhow::bail!("the service gave no token; is it of the same version?") };
    let identity = Identity { node: answer.node, token };
    state.keep_identity(&identity)?;
    service.set_identity(Some(identity));
    Ok(answer)
}

/// Passes on each desired state. Returns when the service no longer knows the node.
async fn ask(service: &Service, events: &mpsc::Sender<Event>, backoff: &mut Backoff) -> Failure {
    let mut version: Option<String> = None;
    loop {
        let asked = Instant::now();
        match service.desired(version.as_deref(), WAIT_S).await {
            Ok(answer) => {
                *backoff = Backoff::new();
                if let Some(desired) = answer {
                    version = Some(desired.version.clone());
                    let _ = events.send(Event::Desired(Box::new(desired))).await;
                }
                tokio::time::sleep(PAUSE.saturating_sub(asked.elapsed())).await;
            }
            Err(Failure::Away(why)) => {
                tracing::debug!("cannot ask for the desired state: {why}");
                tokio::time::sleep(backoff.fail()).await;
            }
            Err(failure) => return failure,
        }
    }
}

/// Tells which processes live: every `period`, and when that changes.
async fn beat(service: &Service, period: Duration, mut alive: watch::Receiver<Vec<Incarnation>>) -> Failure {
    loop {
        let workers = alive.borrow_and_update().clone();
        match service.heartbeat(workers).await {
            Ok(()) => {}
            Err(Failure::Away(why)) => tracing::debug!("cannot send a heartbeat: {why}"),
            Err(failure) => return failure,
        }
        tokio::time::sleep(PAUSE).await;
        let _ = tokio::time::timeout(period.saturating_sub(PAUSE), alive.changed()).await;
    }
}
