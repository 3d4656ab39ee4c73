//! `elastune demo`: a small study on Fashion-MNIST in a stack of its own, a second one in its way, and what came of them.
//! Called by `main`.

mod board;
mod report;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use elastune_api::study::Study;
use elastune_api::trial::Trial;
use elastune_core::model::ids::TrialId;
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::TrialState;

use crate::args;
use crate::output::{line, number, parameters, span};
use crate::stack::{Setup, Stack};
use crate::up::end_asked;
use board::Board;
use report::Report;
use view::View;

const FASHION: &str = include_str!("fashion.yaml");
const SECOND: &str = include_str!("second.yaml");
/// A trial that has trained this long at width 2 has shown that it grew; then the second study comes in its way.
const GROWN_FOR: Duration = Duration::from_secs(5);
/// A demo that is not done by then is broken.
const LIMIT: Duration = Duration::from_secs(20 * 60);

pub async fn run(demo: args::Demo) -> Result<ExitCode> {
    let begun = Instant::now();
    ensure_data(&demo.data)?;
    let temporary = match &demo.state {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("elastune-demo-").tempdir().context("cannot make a temporary folder")?),
    };
    let state = demo.state.clone().or_else(|| Some(temporary.as_ref()?.path().to_path_buf())).context("a state folder")?;
    let setup = Setup { state, listen: demo.listen, devices: demo.devices, data: demo.data, database_url: None };
    let ended = end_asked()?;
    tokio::pin!(ended);
    let stack = tokio::select! {
        stack = Stack::start(&setup) => stack?,
        () = &mut ended => return Ok(ExitCode::FAILURE),
    };
    let shown = tokio::select! {
        shown = show(&stack, begun, demo.report.as_deref()) => shown,
        () = &mut ended => Err(anyhow::anyhow!("interrupted before both studies were done")),
    };
    if shown.is_ok() && demo.serve {
        eprintln!("elastune: serving on until Ctrl-C");
        ended.await;
    }
    stack.stop().await;
    shown.map(|()| ExitCode::SUCCESS)
}

/// Runs both studies, prints what came of them; an error unless both completed.
async fn show(stack: &Stack, begun: Instant, report_file: Option<&Path>) -> Result<()> {
    let client = &stack.client;
    line(format!("elastune demo at {}; logs: {}", client.server(), stack.logs.display()))?;
    let fashion = client.create_study(FASHION, None).await.context("the service refused the demo's study")?;
    let mut view = View::new();
    let mut grown = Grown::default();
    let mut second: Option<Study> = None;
    let board = loop {
        let studies: Vec<_> = [Some(&fashion), second.as_ref()].into_iter().flatten().map(|s| s.id).collect();
        let board = Board::read(client, &studies).await?;
        view.draw(&board, begun.elapsed());
        let first = &board.studies[0];
        if second.is_none() && (grown.for_long(first) || first.nearly_done() || first.study.state.is_final()) {
            second = Some(client.create_study(SECOND, None).await.context("the service refused the demo's second study")?);
        } else if board.studies.iter().all(|s| s.study.state.is_final()) {
            break board;
        }
        if begun.elapsed() > LIMIT {
            bail!("not done after {}; {} may say why", span(LIMIT.as_secs_f64()), stack.logs.display());
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    view.finish();
    let report = Report::of(client, &board, begun.elapsed()).await?;
    if let Some(path) = report_file {
        write(&report, path)?;
    }
    tell(&report, stack).await?;
    match board.studies.iter().find(|s| s.study.state != StudyState::Completed) {
        Some(bad) => bail!("{}", crate::commands::study::summary(&bad.study)),
        None => Ok(()),
    }
}

/// Since when each trial of the last rung has held two devices or more. (An earlier rung is too short to give some back and get
/// it again.)
#[derive(Debug, Default)]
struct Grown(BTreeMap<TrialId, Instant>);

impl Grown {
    fn for_long(&mut self, study: &board::Shown) -> bool {
        let wide = |t: &&Trial| t.state == TrialState::Running && t.width.ranks() >= 2 && t.run_until >= t.max_resource;
        let wide: Vec<TrialId> = study.trials.iter().filter(wide).map(|t| t.id).collect();
        self.0.retain(|id, _| wide.contains(id));
        for id in wide {
            self.0.entry(id).or_insert_with(Instant::now);
        }
        self.0.values().any(|since| since.elapsed() >= GROWN_FOR)
    }
}

async fn tell(report: &Report, stack: &Stack) -> Result<()> {
    let (trials, resizes) = (&report.trials, &report.resizes);
    line(format!(
        "{} trials completed, {} pruned, {} failed; {} grows, {} shrinks, {} promotions; {}",
        trials.completed,
        trials.pruned,
        trials.failed,
        resizes.grow,
        resizes.shrink,
        report.promotions,
        span(report.wall_s)
    ))?;
    if let Some(best) = &report.best {
        line(format!("best: trial {} with val_accuracy {} ({})", best.number, number(best.val_accuracy), parameters(&best.parameters)))?;
    }
    line(format!("page: {}  (`elastune demo --serve` keeps it up)", stack.login_link().await?))
}

fn write(report: &Report, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    std::fs::write(path, serde_json::to_string_pretty(report)? + "\n").with_context(|| format!("cannot write {}", path.display()))
}

fn ensure_data(data: &Path) -> Result<PathBuf> {
    let folder = data.join("fashion-mnist");
    if !folder.join("train-images-idx3-ubyte.gz").is_file() {
        bail!(
            "there is no Fashion-MNIST in {}; run: apt-get install dataset-fashion-mnist, or name its folder's parent with --data",
            folder.display()
        );
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elastune_core::search::{Document, validate};

    #[test]
    fn the_studies_are_valid_and_large_enough() {
        for (text, least) in [(FASHION, 16), (SECOND, 1)] {
            let document: Document = serde_norway::from_str(text).expect("it is YAML");
            let validated = validate(&document.0).expect("it is a study");
            assert!(validated.warnings.is_empty(), "{:?}", validated.warnings);
            assert!(validated.spec.budget.max_trials >= least);
        }
    }
}
