//! `elastune study ...` and `elastune validate`. Called by `main`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use elastune_api::client::{Client, StudyQuery};
use elastune_api::study::{Study, StudyPatch};
use elastune_core::model::study::StudyState;
use elastune_core::search::{self, Document};

use super::{events, read_document};
use crate::Usage;
use crate::args::{Format, Limits, StudyCommand};
use crate::output::{self, Table, age, number, optional, parameters, show, word};

pub async fn run(client: &Client, format: Format, command: StudyCommand) -> Result<ExitCode> {
    match command {
        StudyCommand::Create { file, wait } => {
            // The key makes a retry by the connection's layers harmless.
            let key = uuid::Uuid::new_v4().to_string();
            let study = client.create_study(&read_document(&file)?, Some(&key)).await?;
            if wait {
                eprintln!("study {} ({})", study.name, study.id);
                return follow(client, &study, format).await;
            }
            print_one(format, &study)?;
        }
        StudyCommand::Ls { archived } => {
            let mut query = StudyQuery { limit: Some(1000), archived: archived.then_some(true), ..StudyQuery::default() };
            let mut studies = Vec::new();
            loop {
                let page = client.studies(&query).await?;
                studies.extend(page.items);
                query.page_token = page.next_page_token;
                if query.page_token.is_none() {
                    break;
                }
            }
            show(format, &studies, || list(&studies))?;
        }
        StudyCommand::Show { study } => print_one(format, &client.find_study(&study).await?)?,
        StudyCommand::Watch { study } => {
            let study = client.find_study(&study).await?;
            return follow(client, &study, format).await;
        }
        StudyCommand::Set(set) => {
            let study = client.find_study(&set.study).await?;
            print_one(format, &client.change_study(study.id, &patch(&set.limits)).await?)?;
        }
        StudyCommand::Pause { study } => verb(client, format, &study, "pause").await?,
        StudyCommand::Resume { study } => verb(client, format, &study, "resume").await?,
        StudyCommand::Stop { study } => verb(client, format, &study, "stop").await?,
        StudyCommand::Rm { study, yes } => {
            let study = client.find_study(&study).await?;
            if !yes {
                let trials = study.counts.total();
                return Err(
                    Usage(format!("this removes {} with its {trials} trials for good; say --yes if you mean it", study.name)).into()
                );
            }
            client.delete_study(study.id).await?;
            eprintln!("removed {}", study.name);
        }
        StudyCommand::Export { study } => {
            let study = client.find_study(&study).await?;
            match format {
                Format::Json => output::text(&client.export_text(study.id, "json").await?)?,
                Format::Yaml => output::text(&serde_norway::to_string(&client.export(study.id).await?)?)?,
                Format::Table | Format::Csv => output::text(&client.export_text(study.id, "csv").await?)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks a document by the rules that the service has, and prints it with every default filled in.
pub fn validate(format: Format, file: &Path) -> Result<ExitCode> {
    let document: Document = serde_norway::from_str(&read_document(file)?).with_context(|| format!("{} is no study", file.display()))?;
    match search::validate(&document.0) {
        Ok(validated) => {
            for warning in &validated.warnings {
                eprintln!("warning: {}: {}", warning.path, warning.message);
            }
            match format {
                Format::Json => output::line(serde_json::to_string_pretty(&validated.spec)?)?,
                _ => output::text(&serde_norway::to_string(&validated.spec)?)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) => {
            let lines: Vec<_> = errors.iter().map(|error| format!("\n  {}: {}", error.path, error.message)).collect();
            bail!("{} is no valid study:{}", file.display(), lines.concat());
        }
    }
}

async fn follow(client: &Client, study: &Study, format: Format) -> Result<ExitCode> {
    events::follow(client, study.id, format).await?;
    let study = client.study(study.id).await?;
    let lines = matches!(format, Format::Table | Format::Csv);
    if lines {
        eprintln!("{}", summary(&study));
    }
    Ok(ExitCode::from(u8::from(study.state != StudyState::Completed)))
}

/// One sentence about how far a study is.
pub fn summary(study: &Study) -> String {
    let best = study.best.as_ref().map_or_else(String::new, |best| {
        format!("; best: trial {} with {} ({})", best.number, number(best.value), parameters(&best.parameters))
    });
    let reason = study.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    format!("study {} is {}{reason}: {} trials{best}", study.name, word(&study.state), study.counts.total())
}

async fn verb(client: &Client, format: Format, study: &str, verb: &str) -> Result<()> {
    let study = client.find_study(study).await?;
    print_one(format, &client.study_verb(study.id, verb).await?)
}

fn patch(set: &Limits) -> StudyPatch {
    StudyPatch {
        max_trials: set.max_trials,
        max_parallel: set.max_parallel,
        priority: set.priority,
        weight: set.weight,
        min_width: set.min_width,
        max_width: set.max_width,
    }
}

fn list(studies: &[Study]) -> Table {
    let mut table = Table::new(["name", "state", "trials", "live", "best", "age", "id"]);
    for study in studies {
        table.row([
            study.name.clone(),
            word(&study.state),
            format!("{}/{}", study.counts.total(), study.max_trials),
            study.counts.live().to_string(),
            optional(study.best.as_ref().map(|b| b.value)),
            age(study.created),
            study.id.to_string(),
        ]);
    }
    table
}

fn print_one(format: Format, study: &Study) -> Result<()> {
    show(format, study, || {
        let counts = &study.counts;
        let mut table = Table::new(["field", "value"]);
        table.row(["name".into(), study.name.clone()]).row(["id".into(), study.id.to_string()]);
        table.row(["state".into(), study.reason.as_ref().map_or_else(|| word(&study.state), |r| format!("{} ({r})", word(&study.state)))]);
        table.row(["trials".into(), format!("{} of {}", counts.total(), study.max_trials)]);
        for (state, count) in [
            ("waiting", counts.waiting),
            ("running", counts.starting + counts.running + counts.resizing + counts.stopping),
            ("paused", counts.paused),
            ("completed", counts.completed),
            ("pruned", counts.pruned),
            ("failed", counts.failed),
            ("cancelled", counts.cancelled),
        ] {
            if count > 0 {
                table.row([format!("  {state}"), count.to_string()]);
            }
        }
        if let Some(best) = &study.best {
            table.row(["best".into(), format!("{} (trial {}, epoch {})", number(best.value), best.number, number(best.resource))]);
            table.row(["  with".into(), parameters(&best.parameters)]);
        }
        table.row(["device time".into(), output::span(study.device_seconds)]);
        table.row(["created".into(), format!("{} ago", age(study.created))]);
        table
    })
}
