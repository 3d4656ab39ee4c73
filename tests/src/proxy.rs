//! A wire between an agent and its service that a test can cut: while held, connections stay open and nothing passes. Started by
//! tests that hand its address to a node.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    held: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub async fn start(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (held, holds) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(join(client, to, holds.clone()));
            }
        });
        Proxy { address, held, accepting }
    }

    pub fn server(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Nothing passes from now on. What was sent meanwhile arrives after `release`, however late.
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    pub fn release(&self) {
        self.held.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn join(client: TcpStream, to: SocketAddr, holds: watch::Receiver<bool>) {
    let Ok(service) = TcpStream::connect(to).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_service, to_service) = service.into_split();
    tokio::join!(pass(from_client, to_service, holds.clone()), pass(from_service, to_client, holds));
}

/// Ends with the connection, or with the proxy.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut holds: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        if holds.wait_for(|held| !held).await.is_err() || read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
