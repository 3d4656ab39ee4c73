//! One replica of the service. Started by tests through `World`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use elastune_api::client::Client;
use elastune_api::cluster::JoinRequest;
use rustix::process::Signal;

use crate::process::Process;
use crate::{program, seconds, until};

#[derive(Debug)]
pub struct Service {
    pub client: Client,
    address: SocketAddr,
    folder: PathBuf,
    token_file: PathBuf,
    database_url: String,
    process: Process,
}

impl Service {
    /// `folder` holds the checkpoints and the admin's token: replicas share it.
    pub async fn start(name: &str, folder: &Path, database_url: &str) -> Service {
        let token_file = folder.join("admin-token");
        let (process, address) = launch(name, folder, &token_file, database_url, "127.0.0.1:0").await;
        let token = std::fs::read_to_string(&token_file).expect("the service leaves the admin's token");
        let client = Client::new(&format!("http://{address}"), Some(token.trim())).expect("an address and a token");
        Service { client, address, folder: folder.to_path_buf(), token_file, database_url: database_url.into(), process }
    }

    pub fn server(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again where it was.
    pub async fn resume(&mut self) {
        let address = self.address.to_string();
        (self.process, _) = launch("service", &self.folder, &self.token_file, &self.database_url, &address).await;
    }

    pub async fn join_token(&self) -> String {
        self.client.join_token(&JoinRequest::default()).await.expect("a join token").token
    }
}

async fn launch(name: &str, folder: &Path, token_file: &Path, database_url: &str, listen: &str) -> (Process, SocketAddr) {
    let port_file = folder.join(format!("{name}.address"));
    let _ = std::fs::remove_file(&port_file);
    let mut command = Command::new(program("elastune-service"));
    command.args(["serve", "--listen", listen, "--port-file"]).arg(&port_file);
    command.arg("--checkpoints").arg(folder.join("checkpoints")).arg("--admin-token-file").arg(token_file);
    command.env("DATABASE_URL", database_url);
    let mut process = Process::start(command, &folder.join(format!("{name}.log")));
    let address = until("the service listens", seconds(60), async || {
        assert!(process.ended().is_none(), "the service ended: {}", process.log());
        std::fs::read_to_string(&port_file).ok()?.trim().parse::<SocketAddr>().ok()
    })
    .await;
    let client = Client::new(&format!("http://{address}"), None).expect("an address");
    until("the service is ready", seconds(60), async || client.ready().await.ok()).await;
    (process, address)
}

impl Drop for Service {
    fn drop(&mut self) {
        self.process.end(Signal::TERM, seconds(10));
    }
}
