//! The service as its operator sees it: files, ports, signals.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use elastune_api::agent::RegisterRequest;
use elastune_api::client::Client;
use elastune_core::model::cluster::Device;
use elastune_core::model::study::DeviceKind;

use super::*;
use crate::config::Database;
use crate::testing;

struct Start {
    folder: tempfile::TempDir,
    config: Serve,
    stop: CancellationToken,
}

impl Start {
    fn new(database_url: &str) -> Start {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = |name: &str| -> PathBuf { folder.path().join(name) };
        let config = Serve {
            database: Database { database_url: database_url.into() },
            listen: "127.0.0.1:0".parse().expect("an address"),
            port_file: Some(inside("port")),
            checkpoints: inside("checkpoints"),
            admin_token_file: inside("deep/admin-token"),
            join_token_file: Some(inside("join/token")),
            database_connections: 4,
        };
        Start { folder, config, stop: CancellationToken::new() }
    }

    /// Runs the service for as long as `with` takes.
    async fn run<T>(&self, with: impl AsyncFnOnce(Client) -> T) -> T {
        let talk = async {
            let port_file = self.folder.path().join("port");
            let address = loop {
                match std::fs::read_to_string(&port_file) {
                    Ok(text) => break text,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            };
            let client = Client::new(&format!("http://{}", address.trim()), None).expect("a client");
            let out = with(client).await;
            self.stop.cancel();
            out
        };
        let (served, out) = tokio::join!(serve(self.config.clone(), self.stop.clone()), talk);
        served.expect("it ends well");
        out
    }

    fn token(&self) -> String {
        std::fs::read_to_string(&self.config.admin_token_file).expect("a token").trim().to_string()
    }
}

async fn ready(client: &Client) {
    while client.ready().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_first_start_makes_one_token_for_all_replicas_and_later_starts_keep_it() {
    let database = testing::database().await;
    let start = Start::new(&database.url);
    let token = start
        .run(async |client| {
            ready(&client).await;
            let token = start.token();
            client.with_token(&token).expect("a client").cluster().await.expect("the admin is let in");
            token
        })
        .await;
    let mode = std::fs::metadata(&start.config.admin_token_file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // A replica without the file makes no second token; one with the file lets the same admin in.
    let other = Start::new(&database.url);
    other.run(async |client| ready(&client).await).await;
    assert!(!other.config.admin_token_file.exists());
    let again = Start { stop: CancellationToken::new(), ..start };
    std::fs::remove_file(again.folder.path().join("port")).expect("the old port file");
    again
        .run(async |client| {
            ready(&client).await;
            client.with_token(&token).expect("a client").cluster().await.expect("the same admin");
        })
        .await;
    assert_eq!(again.token(), token);
    let count: i64 =
        sqlx::query_scalar("select count(*) from tokens where kind = 'admin'").fetch_one(&database.pool).await.expect("a count");
    assert_eq!(count, 1);
}

#[tokio::test]
async fn nodes_join_with_the_token_of_the_file_and_it_outlives_restarts() {
    let database = testing::database().await;
    let start = Start::new(&database.url);
    let file = start.config.join_token_file.clone().expect("it is asked for");
    let register = async |client: Client, name: &str| {
        ready(&client).await;
        let token = std::fs::read_to_string(&file).expect("a token");
        let device = Device { index: 0, kind: DeviceKind::Cpu, name: "cpu".into(), memory_bytes: 1, max_sharers: 1 };
        let request = RegisterRequest { name: name.into(), devices: vec![device], advertise: "127.0.0.1".into() };
        let joiner = client.with_token(token.trim()).expect("a client");
        joiner.register(&request).await.expect("it may join").token.expect("a token of its own");
        joiner.nodes().await.expect_err("and nothing else");
        token
    };
    let token = start.run(async |client| register(client, "one").await).await;
    assert_eq!(std::fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);
    let again = Start { stop: CancellationToken::new(), ..start };
    std::fs::remove_file(again.folder.path().join("port")).expect("the old port file");
    assert_eq!(again.run(async |client| register(client, "two").await).await, token);
}

#[tokio::test]
async fn a_start_without_a_database_waits_and_answers_meanwhile() {
    let start = Start::new("postgres://nobody@127.0.0.1:1/none");
    start
        .run(async |client| {
            client.health().await.expect("the process lives");
            for error in [client.ready().await.expect_err("not yet"), client.nodes().await.map(drop).expect_err("not yet")] {
                assert_eq!((error.status(), error.is_transient()), (Some(503), true), "{error}");
            }
        })
        .await;
    assert!(!start.config.admin_token_file.exists());
}

#[tokio::test]
async fn a_file_that_holds_no_token_is_an_error_and_not_overwritten() {
    let database = testing::database().await;
    let start = Start::new(&database.url);
    std::fs::create_dir_all(start.config.admin_token_file.parent().expect("a folder")).expect("made");
    std::fs::write(&start.config.admin_token_file, "short").expect("written");
    let error = serve(start.config.clone(), start.stop.clone()).await.expect_err("refused");
    assert!(format!("{error:#}").contains("holds no token"), "{error:#}");
    assert_eq!(start.token(), "short");
}
