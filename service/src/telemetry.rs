//! Logs to stderr: text, or JSON lines. Called by `main`.

use tracing_subscriber::EnvFilter;

/// `filter` as in `info,elastune_service=debug`.
///
/// # Errors
/// The filter does not read.
pub fn start(filter: &str, json: bool) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| anyhow::anyhow!("--log `{filter}`: {error}; try `info`"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json {
        logs.json().init();
    } else {
        logs.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init();
    }
    Ok(())
}
