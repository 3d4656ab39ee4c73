//! A private Postgres for tests: one cluster per test process, one migrated database per test. Called by tests only.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::sync::OnceCell;

/// `scripts/pg.sh` at work. It ends the server once its standard input closes, which a test process that is killed does too.
#[derive(Debug)]
struct Server {
    url: String,
    databases: AtomicU32,
    _script: Child,
}

static SERVER: OnceCell<Server> = OnceCell::const_new();

impl Server {
    async fn start() -> Server {
        let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/pg.sh"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("scripts/pg.sh runs");
        let mut line = String::new();
        BufReader::new(script.stdout.take().expect("its output is piped")).read_line(&mut line).expect("its output is text");
        let url = line.trim().to_owned();
        assert!(!url.is_empty(), "scripts/pg.sh gave no server; what it printed says why");
        let server = Server { url, databases: AtomicU32::new(0), _script: script };
        admin(&server.url).await.execute("create database migrated").await.expect("a new server takes a database");
        let mut template = admin(&server.database("migrated")).await;
        sqlx::migrate!("../migrations").run(&mut template).await.expect("the migrations apply");
        template.close().await.expect("a connection closes");
        server
    }

    fn database(&self, name: &str) -> String {
        self.url.replace("/postgres?", &format!("/{name}?"))
    }
}

async fn admin(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("the private server answers")
}

/// A database of one test's own.
#[derive(Debug, Clone)]
pub struct Database {
    /// For processes that want a `DATABASE_URL`.
    #[allow(dead_code)]
    pub url: String,
    pub pool: PgPool,
}

/// A fresh database with every migration applied.
pub async fn database() -> Database {
    let server = SERVER.get_or_init(Server::start).await;
    let name = format!("test_{}", server.databases.fetch_add(1, Ordering::Relaxed));
    let create = format!("create database {name} template migrated");
    admin(&server.url).await.execute(create.as_str()).await.expect("a database from the template");
    let url = server.database(&name);
    let pool = connect(&url).await;
    Database { url, pool }
}

impl Database {
    /// Connections of its own, as a second replica has them.
    #[allow(dead_code)]
    pub async fn another_pool(&self) -> PgPool {
        connect(&self.url).await
    }
}

async fn connect(url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(8).connect(url).await.expect("the new database answers")
}

#[tokio::test]
async fn every_test_has_a_database_of_its_own() {
    let (one, other) = (database().await, database().await);
    sqlx::query("insert into idempotency (scope, key, request, created_ms) values ('s', 'k', '', 0)")
        .execute(&one.pool)
        .await
        .expect("a row");
    let rows = sqlx::query("select 1 from idempotency").fetch_all(&other.pool).await.expect("an empty table");
    assert!(rows.is_empty());
}
