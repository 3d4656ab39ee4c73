//! Builds the group of an order on a thread of its own, beside whatever goes on. Called by the session when an order is armed.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use c10d::{Aborter, Group, Store};
use elastune_core::model::group::Order;
use elastune_core::model::ids::Incarnation;
use elastune_core::time::Time;

use crate::identity::Identity;
use crate::transfer::{Introduction, Received, introduce, receive};

/// Timeout of collectives once a group trains. A dead peer shows at once; who hangs is killed by its agent long before.
pub const COLLECTIVE: Duration = Duration::from_secs(30);
/// At least this long is given to an order, whatever the clocks say.
const LEAST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(120);

/// A socket bound ahead, for the store that this rank may have to host.
#[derive(Debug)]
pub struct Socket {
    pub listener: TcpListener,
    pub address: SocketAddr,
}

impl Socket {
    pub fn bind(listen: SocketAddr) -> std::io::Result<Socket> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        Ok(Socket { listener, address })
    }
}

/// What a rank has to know to take its place in an order's group.
#[derive(Debug, Clone)]
pub struct Place {
    pub order: Order,
    pub me: Incarnation,
    pub listen: IpAddr,
    /// It has no group to go on in meanwhile, so it also waits there for the others and hears what they hold.
    pub outside: bool,
    pub introduction: Introduction,
    /// Values of the flat state.
    pub values: usize,
    pub identity: Identity,
}

/// A built group. Dropping takes tens of milliseconds: leave it to a reaper.
#[derive(Debug)]
pub struct Assembled {
    /// None at width 1.
    pub group: Option<Group>,
    /// Of all ranks; None for a rank that comes from another group, which introduces itself at the switch.
    pub introductions: Option<Vec<Introduction>>,
    /// The state from a donor that isn't a member.
    pub received: Option<Received>,
}

/// Until when the order lasts, from now.
pub fn remaining(deadline: Time) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    Duration::from_millis(deadline.0.saturating_sub(now).max(0) as u64).clamp(LEAST, MOST)
}

pub fn prefix(order: &Order) -> String {
    format!("{}/{}/{}/{}", order.trial, order.attempt, order.generation, order.order)
}

impl Place {
    pub fn rank(&self) -> Option<usize> {
        self.order.members.iter().position(|member| member.incarnation == self.me)
    }

    /// On the socket if it is the order's store, else as a client.
    fn store(&self, socket: Option<TcpListener>) -> Result<Store, String> {
        let patience = remaining(self.order.deadline);
        let store = match (socket, self.order.store) {
            (Some(listener), _) => Store::host(listener, patience),
            (None, Some(address)) => Store::connect(address, patience),
            (None, None) => return Err("the order names no store".into()),
        };
        store.map_err(|error| format!("the store of the new group: {error}"))
    }

    fn assemble(&self, socket: Option<TcpListener>, abort: &Mutex<Option<Aborter>>) -> Result<Assembled, String> {
        let rank = self.rank().ok_or("the order does not name this rank")?;
        let size = self.order.members.len();
        let patience = remaining(self.order.deadline);
        let watch = |group: &Group| *abort.lock().unwrap_or_else(PoisonError::into_inner) = Some(group.aborter());
        let (mut store, mut group) = (None, None);
        if size > 1 {
            let hub = self.store(socket.as_ref().and_then(|socket| socket.try_clone().ok()))?;
            let own = hub.prefix(&prefix(&self.order)).map_err(|error| error.to_string())?;
            let built = Group::gloo(&own, rank, size, patience, self.listen).map_err(|error| format!("the new group: {error}"))?;
            watch(&built);
            (store, group) = (Some(hub), Some(built));
        }
        let mut introductions = None;
        let mut received = None;
        if self.outside {
            let all = introduce(group.as_ref(), self.introduction).map_err(|error| format!("the others did not come: {error}"))?;
            // Only the first start has nobody with a state; otherwise a rank that leaves gives it.
            if all.iter().all(|one| !one.has_state) && self.order.generation > 1 {
                let hub = match store.take() {
                    Some(hub) => hub,
                    None => self.store(socket)?,
                };
                let own = hub.prefix(&format!("{}/state", prefix(&self.order))).map_err(|error| error.to_string())?;
                let donors =
                    Group::gloo(&own, rank, size + 1, patience, self.listen).map_err(|error| format!("the leaving donor: {error}"))?;
                watch(&donors);
                received =
                    Some(receive(&donors, size, self.values, &self.identity).map_err(|error| format!("the leaving donor: {error}"))?);
            }
            introductions = Some(all);
        }
        if let Some(group) = &mut group {
            group.set_timeout(COLLECTIVE);
            watch(group);
        }
        Ok(Assembled { group, introductions, received })
    }
}

/// A group under construction.
#[derive(Debug)]
pub struct Assembly {
    pub order: Order,
    /// The socket bound ahead is spent.
    pub hosts: bool,
    outcome: Receiver<Result<Assembled, String>>,
    done: Option<Result<Assembled, String>>,
    abort: Arc<Mutex<Option<Aborter>>>,
}

impl Assembly {
    /// `socket` is taken if the order's store is to be there.
    pub fn start(place: Place, socket: &mut Option<Socket>) -> std::io::Result<Assembly> {
        let own = socket.take_if(|socket| place.order.store == Some(socket.address)).map(|socket| socket.listener);
        let (sender, outcome) = sync_channel(1);
        let abort = Arc::new(Mutex::new(None));
        let (order, hosts, aborted) = (place.order.clone(), own.is_some(), abort.clone());
        std::thread::Builder::new().name("assembly".into()).spawn(move || {
            let _ = sender.send(place.assemble(own, &aborted));
        })?;
        Ok(Assembly { order, hosts, outcome, done: None, abort })
    }

    /// Waits at most `patience` for the outcome; None: it isn't there yet.
    pub fn poll(&mut self, patience: Duration) -> Option<Result<(), String>> {
        if self.done.is_none() {
            let outcome = if patience.is_zero() {
                self.outcome.try_recv().map_err(|error| error == TryRecvError::Empty)
            } else {
                self.outcome.recv_timeout(patience).map_err(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout)
            };
            self.done = match outcome {
                Ok(outcome) => Some(outcome),
                Err(true) => return None,
                Err(false) => Some(Err("the building thread is gone".into())),
            };
        }
        self.done.as_ref().map(|done| done.as_ref().map(|_| ()).map_err(Clone::clone))
    }

    /// As of the last `poll`.
    pub fn is_built(&self) -> bool {
        matches!(self.done, Some(Ok(_)))
    }

    /// What `poll` found built.
    pub fn take(mut self) -> Option<Assembled> {
        let built = self.done.take().and_then(Result::ok)?;
        *self.abort.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Some(built)
    }
}

impl Drop for Assembly {
    /// A superseded one must not hold its peers in a collective.
    fn drop(&mut self) {
        let aborter = self.abort.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(aborter) = aborter {
            let _ = aborter.abort();
        }
    }
}
