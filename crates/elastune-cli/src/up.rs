//! `elastune up`: the embedded stack until Ctrl-C. Called by `main`.

use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use crate::args;
use crate::output::line;
use crate::stack::{Setup, Stack, default_folder};

pub async fn run(up: args::Up) -> Result<ExitCode> {
    let setup = Setup {
        state: up.state.unwrap_or_else(default_folder),
        listen: up.listen,
        devices: up.devices,
        data: up.data,
        database_url: up.database_url,
    };
    let ended = end_asked()?;
    tokio::pin!(ended);
    let stack = tokio::select! {
        stack = Stack::start(&setup) => stack?,
        // What has started is killed with its handle; the next `up` recovers.
        () = &mut ended => return Ok(ExitCode::FAILURE),
    };
    let told = tell(&stack).await;
    if told.is_ok() {
        ended.await;
        eprintln!("elastune: ending; running trials are saved first");
    }
    stack.stop().await;
    told.map(|()| ExitCode::SUCCESS)
}

async fn tell(stack: &Stack) -> Result<()> {
    line(format!("elastune is up at {}", stack.client.server()))?;
    line(format!("  open the page (this link works once):  {}", stack.login_link().await?))?;
    line("  start a study:  elastune study create -f study.yaml")?;
    line(format!("  logs: {}   Ctrl-C ends it", stack.logs.display()))
}

/// Done once Ctrl-C is pressed or the process is asked to end.
pub fn end_asked() -> Result<impl Future<Output = ()>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
