//! Key-value stores in which the ranks of a group find each other: a TCP server on a socket that Rust has bound, its clients,
//! and prefixes of both. Called by whoever builds groups.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::ffi::StoreHandle;

/// A store, or a prefix of one. Cheap to clone; clones share one connection, which serves one request after the other.
/// A hosted store ends with the last clone, prefix and group made of it.
#[derive(Clone)]
pub struct Store {
    handle: Arc<StoreHandle>,
    timeout: Duration,
}

impl Store {
    /// Serves on a socket that is bound already, so no other process can take its port in between. Returns at once: clients
    /// come when they come. What they send before this call waits in the socket's queue.
    pub fn host(listener: TcpListener, timeout: Duration) -> Result<Store> {
        let mut address = listener.local_addr().map_err(|e| Error::Failed(format!("the store's socket: {e}")))?;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        Store::tcp(address, Some(listener.into()), timeout)
    }

    /// A client. Tries until `timeout`, which is also how long `get` waits for a key.
    pub fn connect(address: SocketAddr, timeout: Duration) -> Result<Store> {
        // c10d's own connect waits without end for the greeting of a server whose socket listens but isn't served.
        crate::within(timeout, &format!("no answer from the store at {address}"), move || Store::tcp(address, None, timeout))
    }

    fn tcp(address: SocketAddr, listen: Option<OwnedFd>, timeout: Duration) -> Result<Store> {
        let handle = StoreHandle::tcp(&address.ip().to_string(), address.port(), listen, timeout)?;
        Ok(Store { handle: Arc::new(handle), timeout })
    }

    /// The same store with `prefix/` before every key. Never build two groups on one prefix: a rank of the second may read
    /// where the first one's peers listened, and wait for them far beyond its timeout.
    pub fn prefix(&self, prefix: &str) -> Result<Store> {
        Ok(Store { handle: Arc::new(self.handle.prefix(prefix)?), timeout: self.timeout })
    }

    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.handle.set(key, value)
    }

    /// Waits for the key until the store's timeout.
    pub fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.handle.get(key, self.timeout)
    }

    /// As `get`, with a timeout of its own. Other requests on this connection wait meanwhile.
    pub fn get_within(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        self.handle.get(key, timeout)
    }

    /// Adds to a counter, which starts at 0, and answers the sum.
    pub fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.handle.add(key, amount)
    }

    /// Whether the key is there now.
    pub fn check(&self, key: &str) -> Result<bool> {
        self.handle.check(key)
    }

    /// Whether there was such a key.
    pub fn delete_key(&self, key: &str) -> Result<bool> {
        self.handle.delete_key(key)
    }

    /// Of the whole store, whatever the prefix; c10d keeps one key of its own in it.
    pub fn num_keys(&self) -> Result<i64> {
        self.handle.num_keys()
    }

    pub(crate) fn handle(&self) -> &StoreHandle {
        &self.handle
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
