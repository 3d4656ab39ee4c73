//! A running service: database, reconcilers and listener, from flags to the last answered request. Called by `main`.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use axum::extract::Request;
use axum::serve::ListenerExt;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::checkpoints::CheckpointStore;
use crate::config::Serve;
use crate::db::tokens::{self, Kind, Token};
use crate::error::is_away;
use crate::http::auth;
use crate::reconcile::driver;
use crate::{db, http};

/// Requests under way get this long at shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// Serves until `stop`.
///
/// # Errors
/// What a start cannot do without: an address to listen at, a readable URL, a folder. An absent database is waited for.
pub async fn serve(config: Serve, stop: CancellationToken) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(config.listen).await.with_context(|| format!("cannot listen at {}; try --listen 127.0.0.1:0", config.listen))?;
    let address = listener.local_addr()?;
    let checkpoints = CheckpointStore::folder(&config.checkpoints)?;
    let pool = pool(&config.database.database_url, config.database_connections)?;
    let app = App::new(pool, checkpoints, stop.clone());
    announce(address, config.port_file.as_deref())?;
    let router = http::router(app.clone());
    let listener = listener.tap_io(|socket| {
        // Small answers to long polls must not wait for more bytes.
        let _ = socket.set_nodelay(true);
    });
    let service = axum::ServiceExt::<Request>::into_make_service(router);
    let serving = axum::serve(listener, service).with_graceful_shutdown(stop.clone().cancelled_owned()).into_future();
    let mut serving = std::pin::pin!(serving);
    let failed = async {
        match work(&app, &config).await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    };
    tokio::select! {
        done = &mut serving => done?,
        error = failed => return Err(error),
        () = stop.cancelled() => {
            if tokio::time::timeout(GRACE, &mut serving).await.is_err() {
                tracing::warn!("some requests were cut off at shutdown");
            }
        }
    }
    app.pool.close().await;
    Ok(())
}

/// Prepares the database once it is there, then runs the reconcilers until the service stops.
async fn work(app: &App, config: &Serve) -> anyhow::Result<()> {
    let Some(prepared) = app.stop.run_until_cancelled(prepare(&app.pool, config)).await else { return Ok(()) };
    prepared?;
    app.set_prepared();
    let mut loops = driver::spawn(app.pool.clone(), &app.wakes, app.stop.clone());
    loops.spawn(driver::sweep_checkpoints(app.pool.clone(), app.checkpoints.clone(), app.stop.clone()));
    loops.join_all().await;
    Ok(())
}

/// A pool that connects when it is used: the service starts and stays whether or not Postgres is there.
fn pool(url: &str, connections: u32) -> anyhow::Result<PgPool> {
    let options = PgConnectOptions::from_str(url).map_err(|error| anyhow::anyhow!("DATABASE_URL is no postgres:// address: {error}"))?;
    let options = options
        .application_name("elastune-service")
        .options([("statement_timeout", "60000"), ("idle_in_transaction_session_timeout", "60000")]);
    Ok(PgPoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(5)).connect_lazy_with(options))
}

/// Schema and tokens. Waits for the database, and says so.
async fn prepare(pool: &PgPool, config: &Serve) -> anyhow::Result<()> {
    loop {
        match try_prepare(pool, config).await {
            Err(error) if error.chain().any(|cause| cause.downcast_ref::<sqlx::Error>().is_some_and(is_away)) => {
                tracing::warn!(cause = format!("{error:#}"), "the database does not answer yet; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            outcome => return outcome,
        }
    }
}

async fn try_prepare(pool: &PgPool, config: &Serve) -> anyhow::Result<()> {
    let mut conn = pool.acquire().await?;
    db::migrate(&mut conn).await.context("the database's schema cannot be brought up to date")?;
    keep_token(&mut conn, Kind::Admin, &config.admin_token_file).await?;
    match &config.join_token_file {
        Some(file) => keep_token(&mut conn, Kind::Join, file).await,
        None => Ok(()),
    }
}

/// Makes the token of a file at the first start. A file that is there already is believed, so that a new database keeps an old token.
async fn keep_token(conn: &mut PgConnection, kind: Kind, file: &Path) -> anyhow::Result<()> {
    let mut tx = conn.begin().await?;
    // Two replicas that start at once must not make two.
    db::cluster::lock(&mut tx).await?;
    let now = db::now(&mut tx).await?;
    let hash = match std::fs::read_to_string(file) {
        Ok(text) if text.trim().len() >= 32 => auth::hash(text.trim()),
        Ok(text) if !text.trim().is_empty() => {
            anyhow::bail!("{} holds no token: one has 32 characters or more; delete it to have one made", file.display())
        }
        Ok(_) | Err(_) if kind == Kind::Admin && tokens::any_admin(&mut tx).await? => {
            tracing::info!(file = %file.display(), "the admin's token was made at the first start; its file is not here");
            return Ok(());
        }
        Ok(_) => make_token(kind, file)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => make_token(kind, file)?,
        Err(error) => return Err(error).with_context(|| format!("cannot read the token in {}", file.display())),
    };
    if tokens::get(&mut tx, &hash, now).await?.is_none() {
        tokens::insert(&mut tx, &hash, &Token { kind, node: None, expires: None }, now).await?;
    }
    tx.commit().await?;
    Ok(())
}

fn make_token(kind: Kind, file: &Path) -> anyhow::Result<[u8; 32]> {
    let name = db::word(&kind);
    let (secret, hash) = auth::new_secret(&name)?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let written = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
    written
        .and_then(|mut file| writeln!(file, "{secret}"))
        .with_context(|| format!("cannot write the {name} token to {}", file.display()))?;
    tracing::info!(file = %file.display(), "made the {name} token");
    Ok(hash)
}

/// Says where it listens, to people and to whoever started it.
fn announce(address: SocketAddr, port_file: Option<&Path>) -> anyhow::Result<()> {
    println!("listening at http://{address}");
    if let Some(file) = port_file {
        // Renamed into place, so that a reader never sees half of it.
        let part = file.with_extension("part");
        std::fs::write(&part, format!("{address}\n"))
            .and_then(|()| std::fs::rename(&part, file))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
