//! The `elastune` program: the embedded stack on one machine, and a client of any service.

mod args;
mod commands;
mod connect;
mod demo;
mod output;
mod stack;
mod up;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use elastune_api::client::ClientError;

use args::{Args, Command};

/// A mistake in how the program was called: exit code 2, as for clap's own.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(code) => code,
        // Whoever read our output has read enough, as in `elastune study ls | head`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("elastune: {}", explain(&error));
            let usage = error.is::<Usage>() || matches!(error.downcast_ref(), Some(ClientError::Invalid(_)));
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let format = args.output;
    let client = || connect::client(&args.connection);
    match args.command {
        Command::Up(up) => up::run(up).await,
        Command::Demo(demo) => demo::run(demo).await,
        Command::Study { command } => commands::study::run(&client()?, format, command).await,
        Command::Trial { command } => commands::trial::run(&client()?, format, command).await,
        Command::Node { command } => commands::node::run(&client()?, format, command).await,
        Command::Cluster => commands::node::cluster(&client()?, format).await,
        Command::Login => commands::login::run(&client()?, format).await,
        Command::Validate { file } => commands::study::validate(format, &file),
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe))
}

/// What went wrong and what to do; a service's problem with every field at fault on a line of its own.
fn explain(error: &anyhow::Error) -> String {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Unreachable { url, source }) if source.is_connect() => {
            format!("no service at {url}; start one with `elastune up`, or name one with --server")
        }
        Some(client @ ClientError::Refused { problem, .. }) if problem.status == 401 => {
            format!("{client}\ngive a token with --token-file or ELASTUNE_TOKEN; `elastune up` keeps its own in its state folder")
        }
        _ => format!("{error:#}"),
    }
}
