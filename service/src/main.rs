//! `elastune-service`: serve, migrate, or print the OpenAPI document.

use std::process::ExitCode;

use clap::Parser;
use elastune_service::config::{Command, Config};
use elastune_service::{db, http, serve, telemetry};
use sqlx::{Connection, PgConnection};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let config = Config::parse();
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("elastune-service: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(config: Config) -> anyhow::Result<()> {
    match config.command {
        Command::Openapi => {
            println!("{}", http::document().to_pretty_json()?);
            Ok(())
        }
        Command::Migrate(database) => {
            let mut conn = PgConnection::connect(&database.database_url).await?;
            Ok(db::migrate(&mut conn).await?)
        }
        Command::Serve(config_serve) => {
            telemetry::start(&config.log, config.log_json)?;
            let stop = CancellationToken::new();
            let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            let signalled = stop.clone();
            tokio::spawn(async move {
                tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
                tracing::info!("stopping");
                signalled.cancel();
            });
            serve::serve(config_serve, stop).await
        }
    }
}
