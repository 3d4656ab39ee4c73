//! The live table: a progress bar per trial on a terminal, lines now and then elsewhere. Drawn by the demo's loop.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use elastune_api::trial::Trial;
use elastune_core::model::ids::TrialId;
use elastune_core::model::trial::TrialState;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::board::{Board, Shown};
use crate::output::{number, optional, span, word};

#[derive(Debug)]
pub enum View {
    Bars(Bars),
    Lines { next: Duration },
}

/// Time between two tables where nothing can be redrawn.
const EVERY: Duration = Duration::from_secs(10);

impl View {
    pub fn new() -> View {
        if std::io::stderr().is_terminal() { View::Bars(Bars::new()) } else { View::Lines { next: Duration::ZERO } }
    }

    pub fn draw(&mut self, board: &Board, elapsed: Duration) {
        match self {
            View::Bars(bars) => bars.draw(board, elapsed),
            View::Lines { next } if elapsed >= *next => {
                *next = elapsed + EVERY;
                println!("{}", lines(board, elapsed));
            }
            View::Lines { .. } => {}
        }
    }

    pub fn finish(&self) {
        if let View::Bars(bars) = self {
            bars.finish();
        }
    }
}

/// Heads and bars by study and trial.
#[derive(Debug)]
pub struct Bars {
    all: MultiProgress,
    heads: Vec<ProgressBar>,
    trials: BTreeMap<TrialId, ProgressBar>,
}

/// Steps of a bar from no epoch to the last.
const LENGTH: u64 = 1000;

impl Bars {
    fn new() -> Bars {
        Bars { all: MultiProgress::new(), heads: Vec::new(), trials: BTreeMap::new() }
    }

    fn draw(&mut self, board: &Board, elapsed: Duration) {
        for (index, shown) in board.studies.iter().enumerate() {
            if self.heads.len() == index {
                self.heads.push(self.all.add(bar("{msg}")));
            }
            self.heads[index].set_message(head(shown, elapsed));
            let mut above = self.heads[index].clone();
            for trial in &shown.trials {
                let row = self.trials.entry(trial.id).or_insert_with(|| {
                    self.all.insert_after(&above, bar("  {prefix:>3} {bar:24.cyan/dim} {msg}").with_prefix(trial.number.to_string()))
                });
                row.set_position((part(trial) * LENGTH as f64) as u64);
                row.set_message(facts(trial));
                above = row.clone();
            }
        }
    }

    fn finish(&self) {
        for bar in self.heads.iter().chain(self.trials.values()) {
            bar.abandon();
        }
    }
}

fn bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is one of this file's").progress_chars("━━ ");
    ProgressBar::new(LENGTH).with_style(style)
}

/// As in `fashion after 40s: 2 running, 3 paused, 11 to come; best 0.8569 (trial 0)`.
fn head(shown: &Shown, elapsed: Duration) -> String {
    let (study, counts) = (&shown.study, &shown.study.counts);
    let parts = [
        (counts.starting + counts.running + counts.resizing + counts.stopping, "running"),
        (counts.waiting, "waiting"),
        (counts.paused, "paused"),
        (counts.completed, "completed"),
        (counts.pruned, "pruned"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
        (if study.state.is_final() { 0 } else { study.max_trials.saturating_sub(counts.total()) }, "to come"),
    ];
    let parts: Vec<_> = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let best = study.best.as_ref().map_or_else(String::new, |best| format!("; best {} (trial {})", number(best.value), best.number));
    format!("{} after {}: {}{best}", study.name, span(elapsed.as_secs_f64()), parts.join(", "))
}

/// Done, of all that a completed trial does: 0 to 1.
fn part(trial: &Trial) -> f64 {
    if trial.max_resource > 0.0 { (trial.done / trial.max_resource).clamp(0.0, 1.0) } else { 0.0 }
}

fn facts(trial: &Trial) -> String {
    let epochs = format!("{:.1}/{}", trial.done, number(trial.max_resource));
    let width = if trial.width.is_zero() { String::new() } else { format!("width {}", number(trial.width.devices())) };
    let state = match &trial.reason {
        Some(reason) if trial.state.is_final() => format!("{} ({})", word(&trial.state), word(reason)),
        _ => word(&trial.state),
    };
    format!("{epochs:>8} epochs  {width:<9} {:<8} {state}", optional(trial.value))
}

fn lines(board: &Board, elapsed: Duration) -> String {
    let mut text = Vec::new();
    for shown in &board.studies {
        text.push(head(shown, elapsed));
        let busy = |t: &&Trial| t.state.is_live() && t.state != TrialState::Waiting;
        for trial in shown.trials.iter().filter(busy) {
            let done = (part(trial) * 24.0) as usize;
            text.push(format!("  {:>3} [{}{}] {}", trial.number, "#".repeat(done), ".".repeat(24 - done), facts(trial)));
        }
    }
    text.join("\n")
}
