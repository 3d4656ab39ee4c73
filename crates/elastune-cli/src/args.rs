//! The command line, for clap. Read by `main`; each command's own arguments stand here so that `--help` is written in one place.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Elastic hyperparameter tuning: trials that grow and shrink while they train.
#[derive(Debug, Parser)]
#[command(name = "elastune", version, arg_required_else_help = true)]
pub struct Args {
    #[command(flatten)]
    pub connection: Connection,
    /// How to print
    #[arg(long, short, global = true, value_enum, default_value = "table")]
    pub output: Format,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, clap::Args)]
pub struct Connection {
    /// The service's address
    #[arg(long, global = true, env = "ELASTUNE_SERVER", default_value = "http://127.0.0.1:8080")]
    pub server: String,
    /// File that holds the token [default: the environment's ELASTUNE_TOKEN, else the token of this machine's `elastune up`]
    #[arg(long, global = true, env = "ELASTUNE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Yaml,
    Csv,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything on this machine: Postgres, the service and one node, until Ctrl-C
    Up(Up),
    /// Train a small study on Fashion-MNIST and watch its trials grow and shrink; ends by itself
    Demo(Demo),
    /// Studies: create, list, watch, change, end, export
    Study {
        #[command(subcommand)]
        command: StudyCommand,
    },
    /// Trials of a study, named STUDY/NUMBER or by id
    Trial {
        #[command(subcommand)]
        command: TrialCommand,
    },
    /// Machines that train
    Node {
        #[command(subcommand)]
        command: NodeCommand,
    },
    /// Devices and who is on them
    Cluster,
    /// Print an address that logs a browser in, once, within 15 minutes
    Login,
    /// Check a study's document without creating it
    Validate {
        /// YAML or JSON; `-` is standard input
        #[arg(long, short)]
        file: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub struct Up {
    /// State folder: the database, checkpoints, logs [default: /var/lib/elastune as root, else ~/.local/share/elastune]
    #[arg(long)]
    pub state: Option<PathBuf>,
    /// Address of the API and the web page
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// A Postgres that runs elsewhere; without it, `up` runs its own
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Devices of this machine: auto (GPUs, else CPU cores), cpu, cpu:N, or GPU indices such as 0,1
    #[arg(long, default_value = "auto")]
    pub devices: String,
    /// Where data sets lie
    #[arg(long, default_value = "/usr/share/datasets")]
    pub data: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct Demo {
    /// Keep the service and its page up afterwards, until Ctrl-C
    #[arg(long)]
    pub serve: bool,
    /// Write what came of it there, as JSON
    #[arg(long)]
    pub report: Option<PathBuf>,
    /// State folder [default: a temporary one, removed at the end]
    #[arg(long)]
    pub state: Option<PathBuf>,
    /// Address of the API and the web page; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Devices of this machine: auto (GPUs, else CPU cores), cpu, cpu:N, or GPU indices such as 0,1
    #[arg(long, default_value = "cpu")]
    pub devices: String,
    /// Where data sets lie
    #[arg(long, default_value = "/usr/share/datasets")]
    pub data: PathBuf,
}

#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// Create a study from a document
    Create {
        /// YAML or JSON; `-` is standard input
        #[arg(long, short)]
        file: PathBuf,
        /// Follow it to its end; exit 0 only if it completes
        #[arg(long)]
        wait: bool,
    },
    /// List studies, newest first
    Ls {
        /// The archived ones too
        #[arg(long)]
        archived: bool,
    },
    /// One study: its progress and its best trial
    Show { study: String },
    /// Print what happens in a study, as it happens
    Watch { study: String },
    /// Change a live study's limits
    Set(Set),
    /// Start no more trials, save those that run
    Pause { study: String },
    /// Go on after a pause
    Resume { study: String },
    /// End it: what is measured stays
    Stop { study: String },
    /// Remove it with all that it measured
    Rm {
        study: String,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    /// Trials, parameters and every measurement as CSV, or as JSON with `-o json`
    Export { study: String },
}

#[derive(Debug, clap::Args)]
pub struct Set {
    pub study: String,
    #[command(flatten)]
    pub limits: Limits,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub struct Limits {
    #[arg(long)]
    pub max_trials: Option<u32>,
    #[arg(long)]
    pub max_parallel: Option<u32>,
    #[arg(long, allow_negative_numbers = true)]
    pub priority: Option<i32>,
    #[arg(long)]
    pub weight: Option<f64>,
    #[arg(long)]
    pub min_width: Option<u16>,
    #[arg(long)]
    pub max_width: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub enum TrialCommand {
    /// List a study's trials
    Ls {
        study: String,
        /// Of these states only, comma-separated
        #[arg(long)]
        state: Option<String>,
        /// number, -number, value or -value
        #[arg(long, allow_hyphen_values = true)]
        order_by: Option<String>,
    },
    /// One trial: parameters, metrics, width over time
    Show { trial: String },
    /// What its processes wrote
    Logs {
        trial: String,
        /// Go on as more is written
        #[arg(long, short)]
        follow: bool,
    },
    /// Why it has its width, or waits
    Explain { trial: String },
    /// List its checkpoints, or fetch the newest
    Checkpoint {
        trial: String,
        /// Write the newest one there, as safetensors
        #[arg(long)]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Print the command that adds a machine
    Join,
    /// List nodes
    Ls,
    /// Move its trials away, give it nothing new
    Drain { node: String },
    /// Give it nothing new
    Cordon { node: String },
    /// Use it again
    Uncordon { node: String },
    /// Forget it
    Rm { node: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn set_needs_something_to_set() {
        assert!(Args::try_parse_from(["elastune", "study", "set", "a"]).is_err());
        assert!(Args::try_parse_from(["elastune", "study", "set", "a", "--priority", "-3"]).is_ok());
    }
}
