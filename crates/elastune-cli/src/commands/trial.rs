//! `elastune trial ...`. Called by `main`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use elastune_api::client::{Client, TrialQuery};
use elastune_api::trial::{LogLine, Measurement, Trial, WidthPoint};
use elastune_core::model::ids::TrialId;
use futures::StreamExt;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::Usage;
use crate::args::{Format, TrialCommand};
use crate::output::{Table, age, clock, line, metric, number, optional, parameter, parameters, show, span, word};

pub async fn run(client: &Client, format: Format, command: TrialCommand) -> Result<ExitCode> {
    match command {
        TrialCommand::Ls { study, state, order_by } => {
            let study = client.find_study(&study).await?;
            let mut query = TrialQuery { state, order_by, limit: Some(1000), ..TrialQuery::default() };
            let mut trials = Vec::new();
            loop {
                let page = client.trials(study.id, &query).await?;
                trials.extend(page.items);
                query.page_token = page.next_page_token;
                if query.page_token.is_none() {
                    break;
                }
            }
            show(format, &trials, || list(&trials))?;
        }
        TrialCommand::Show { trial } => {
            let id = find(client, &trial).await?;
            let (trial, measurements, widths) = (client.trial(id).await?, client.measurements(id).await?, client.widths(id).await?);
            let page = TrialPage { trial, measurements, widths };
            show(format, &page, || page.table())?;
        }
        TrialCommand::Logs { trial, follow } => logs(client, find(client, &trial).await?, format, follow).await?,
        TrialCommand::Explain { trial } => {
            let explain = client.explain(find(client, &trial).await?).await?;
            show(format, &explain, || {
                let mut table = Table::new(["when", "why"]);
                table.row(["now".into(), format!("{}, width {}: {}", word(&explain.state), number(explain.width.devices()), explain.text)]);
                for earlier in &explain.history {
                    table.row([clock(earlier.at), earlier.text.clone()]);
                }
                table
            })?;
        }
        TrialCommand::Checkpoint { trial, to } => {
            let checkpoints = client.checkpoints(find(client, &trial).await?).await?;
            match to {
                Some(path) => {
                    let newest = checkpoints.first().with_context(|| format!("trial {trial} has no checkpoint yet"))?;
                    fetch(client, &newest.checkpoint.sha256, &path).await?;
                    eprintln!("wrote {} ({} bytes, epoch {})", path.display(), newest.checkpoint.bytes, number(newest.checkpoint.resource));
                }
                None => show(format, &checkpoints, || {
                    let mut table = Table::new(["epoch", "step", "bytes", "attempt", "age", "sha256"]);
                    for c in &checkpoints {
                        let at = &c.checkpoint;
                        table.row([
                            number(at.resource),
                            at.step.to_string(),
                            at.bytes.to_string(),
                            c.attempt.to_string(),
                            age(c.at),
                            at.sha256.clone(),
                        ]);
                    }
                    table
                })?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A trial by its id, or as STUDY/NUMBER.
async fn find(client: &Client, name: &str) -> Result<TrialId> {
    if let Ok(id) = name.parse() {
        return Ok(TrialId(id));
    }
    let Some((study, number)) = name.rsplit_once('/').and_then(|(study, number)| Some((study, number.parse::<u32>().ok()?))) else {
        return Err(Usage(format!("`{name}` names no trial; write STUDY/NUMBER, as in fashion/3, or a trial's id")).into());
    };
    let found = client.find_study(study).await?;
    let trial = client.all_trials(found.id).await?.into_iter().find(|t| t.number == number);
    Ok(trial.with_context(|| format!("study {study} has no trial {number}; `elastune trial ls {study}` lists them"))?.id)
}

#[derive(Serialize)]
struct TrialPage {
    #[serde(flatten)]
    trial: Trial,
    measurements: Vec<Measurement>,
    widths: Vec<WidthPoint>,
}

impl TrialPage {
    fn table(&self) -> Table {
        let trial = &self.trial;
        let mut table = Table::new(["field", "value"]);
        table.row(["trial".into(), trial.number.to_string()]).row(["id".into(), trial.id.to_string()]);
        table.row(["state".into(), state(trial)]);
        if let Some(message) = &trial.message {
            table.row(["".into(), message.clone()]);
        }
        for (name, value) in &trial.parameters {
            table.row([format!("  {name}"), parameter(value)]);
        }
        table.row(["epochs".into(), progress(trial)]);
        table.row(["attempt".into(), trial.attempt.to_string()]);
        table.row(["device time".into(), span(trial.device_seconds)]);
        for point in &self.widths {
            table.row([format!("width {}", number(point.width.devices())), format!("from {} (step {})", clock(point.at), point.step)]);
        }
        for measurement in &self.measurements {
            let metrics: Vec<_> = measurement.metrics.iter().map(|(name, value)| format!("{name} {}", metric(value))).collect();
            table.row([format!("epoch {}", number(measurement.step)), metrics.join(", ")]);
        }
        table
    }
}

fn state(trial: &Trial) -> String {
    match &trial.reason {
        Some(reason) => format!("{} ({})", word(&trial.state), word(reason)),
        None => word(&trial.state),
    }
}

fn progress(trial: &Trial) -> String {
    format!("{} of {}", number((trial.done * 10.0).round() / 10.0), number(trial.max_resource))
}

fn list(trials: &[Trial]) -> Table {
    let mut table = Table::new(["trial", "state", "width", "epochs", "value", "attempt", "parameters", "id"]);
    for trial in trials {
        table.row([
            trial.number.to_string(),
            state(trial),
            number(trial.width.devices()),
            progress(trial),
            optional(trial.value),
            trial.attempt.to_string(),
            parameters(&trial.parameters),
            trial.id.to_string(),
        ]);
    }
    table
}

const LOG_PAGE: u32 = 1000;

async fn logs(client: &Client, trial: TrialId, format: Format, follow: bool) -> Result<()> {
    let mut after = 0;
    loop {
        let page = client.logs(trial, after, LOG_PAGE).await?;
        for entry in &page {
            print_log(entry, format)?;
        }
        after = page.last().map_or(after, |entry| entry.id);
        if page.len() < LOG_PAGE as usize {
            break;
        }
    }
    if !follow {
        return Ok(());
    }
    loop {
        match client.follow_logs(trial, after).await {
            Ok(mut stream) => {
                while let Some(Ok(entry)) = stream.next_json::<LogLine>().await {
                    print_log(&entry, format)?;
                    after = after.max(entry.id);
                }
            }
            Err(error) if error.is_transient() => eprintln!("elastune: {error}; trying again"),
            Err(error) => return Err(error.into()),
        }
        if client.trial(trial).await.is_ok_and(|t| t.state.is_final()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

fn print_log(entry: &LogLine, format: Format) -> Result<()> {
    match format {
        Format::Json => line(serde_json::to_string(entry)?),
        Format::Yaml => line(format!("---\n{}", serde_norway::to_string(entry)?.trim_end())),
        Format::Table | Format::Csv => line(format!("{}  {:>8}  {}", clock(entry.at), entry.source, entry.line)),
    }
}

/// Writes a checkpoint to `path` once its bytes are whole and hash to their name.
async fn fetch(client: &Client, sha256: &str, path: &Path) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(|| format!("cannot write in {}", folder.display()))?;
    let mut hash = Sha256::new();
    let mut bytes = std::pin::pin!(client.download_checkpoint(sha256).await?);
    while let Some(chunk) = bytes.next().await {
        let chunk = chunk?;
        hash.update(&chunk);
        file.write_all(&chunk)?;
    }
    if hex::encode(hash.finalize()) != sha256 {
        bail!("the checkpoint's bytes do not hash to {sha256}; its file in the service's store is damaged");
    }
    file.as_file().sync_all()?;
    file.persist(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}
