//! Flags and environment of `elastune-service`. Read by `main`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// The elastune service: REST API, reconcilers and web page, on Postgres.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Config {
    /// What to log, as in `info,elastune_service=debug`.
    #[arg(long, env = "ELASTUNE_LOG", default_value = "info", global = true)]
    pub log: String,
    /// Log as JSON lines.
    #[arg(long, env = "ELASTUNE_LOG_JSON", global = true)]
    pub log_json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Migrate the database, then serve until SIGTERM.
    Serve(Serve),
    /// Bring the database's schema up to date and exit.
    Migrate(Database),
    /// Print the OpenAPI document.
    Openapi,
}

#[derive(Debug, Clone, Args)]
pub struct Database {
    /// Where Postgres is, as in `postgres://user@host/elastune`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: String,
}

#[derive(Debug, Clone, Args)]
pub struct Serve {
    #[command(flatten)]
    pub database: Database,
    /// Address to listen at; port 0 takes a free one.
    #[arg(long, env = "ELASTUNE_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Write the address that is listened at into this file once it is.
    #[arg(long)]
    pub port_file: Option<PathBuf>,
    /// Folder of the checkpoint store.
    #[arg(long, env = "ELASTUNE_CHECKPOINTS", default_value = "elastune-data/checkpoints")]
    pub checkpoints: PathBuf,
    /// The admin's token: made and written here at the first start; one that is already here is taken.
    #[arg(long, env = "ELASTUNE_ADMIN_TOKEN_FILE", default_value = "elastune-data/admin-token")]
    pub admin_token_file: PathBuf,
    /// A token with which nodes may join, made and kept there likewise; it does not expire. For clusters whose nodes start by themselves.
    #[arg(long, env = "ELASTUNE_JOIN_TOKEN_FILE")]
    pub join_token_file: Option<PathBuf>,
    /// Connections to Postgres at the most.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub database_connections: u32,
}
