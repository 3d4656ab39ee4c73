//! `trial-worker CONFIG`: one rank of a trial. Started by the node's agent, which it obeys over a Unix socket.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use elastune_api::agent::Exit;
use elastune_api::worker::{Activity, WorkerConfig, environment};
use trial_worker::ipc::Link;
use trial_worker::pulse::Pulse;
use trial_worker::session::Session;
use trial_worker::{log, start, torch};

/// Trains one rank of a trial. Started by trial-agent.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The worker's configuration, as JSON.
    config: PathBuf,
}

/// Steps that a joining process lets others go before it on the CPU.
const NICENESS: i32 = 10;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let config = match start::config(&arguments.config) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("trial-worker: {error:#}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = with_environment(&config, &arguments.config) {
        eprintln!("trial-worker: cannot start itself again with its environment: {error}");
        return ExitCode::from(2);
    }
    let pulse = Pulse::default();
    let link = match Link::start(config.socket.clone(), config.incarnation, pulse.clone()) {
        Ok(link) => link,
        Err(error) => {
            eprintln!("trial-worker: no thread to speak to the agent: {error}");
            return ExitCode::from(2);
        }
    };
    log::install(link.clone());
    let exit = torch::guard(|| work(config, link.clone(), pulse)).unwrap_or_else(|exit| exit);
    let clean = exit == Exit::Clean;
    link.part(exit);
    // Threads that still build or drop groups end with the process.
    std::process::exit(i32::from(!clean));
}

/// libgomp and malloc read their settings when they are loaded, before `main`: where the agent hasn't set them, starts again.
fn with_environment(config: &WorkerConfig, path: &Path) -> std::io::Result<()> {
    let wanted = environment(config.threads);
    if wanted.iter().all(|(name, value)| std::env::var(name).is_ok_and(|set| set == *value)) {
        return Ok(());
    }
    Err(Command::new(std::env::current_exe()?).arg(path).envs(wanted).exec())
}

fn work(config: WorkerConfig, link: Link, pulse: Pulse) -> Exit {
    let told_to_go = Arc::new(AtomicBool::new(false));
    let lost = |message: String| Exit::Lost { message };
    if let Err(error) = watch_for_sigterm(told_to_go.clone()) {
        return lost(format!("signals cannot be watched: {error}"));
    }
    let threads = config.threads.max(1) as i32;
    tch::set_num_threads(threads);
    pulse.set(Activity::Starting);
    let loading = {
        let (config, pulse) = (config.clone(), pulse.clone());
        std::thread::Builder::new().name("loader".into()).spawn(move || {
            // Of this thread alone: the training thread keeps its priority.
            let _ = rustix::process::nice(NICENESS);
            tch::set_num_threads(threads);
            torch::guard(|| start::build(&config, pulse)).unwrap_or_else(Err)
        })
    };
    let (trainer, subject) = match loading.map(|loading| loading.join()) {
        Ok(Ok(Ok(built))) => built,
        Ok(Ok(Err(exit))) => return exit,
        Ok(Err(_)) | Err(_) => return lost("the loading thread is gone".into()),
    };
    std::thread::sleep(Duration::from_millis(config.ready_delay_ms));
    match Session::new(config, subject, trainer, link, pulse, told_to_go) {
        Ok(mut session) => session.run(),
        Err(error) => lost(format!("{error:#}")),
    }
}

/// A small runtime on a thread of its own: the signal handling without unsafe code.
fn watch_for_sigterm(flag: Arc<AtomicBool>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            while signals.recv().await.is_some() {
                flag.store(true, Ordering::Relaxed);
            }
        });
    })?;
    Ok(())
}
