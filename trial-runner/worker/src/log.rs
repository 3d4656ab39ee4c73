//! Log lines go to the agent, which passes them on to the trial's page. Installed by `main`.

use std::fmt::Write;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::ipc::Link;
use crate::torch::first_line;

/// Characters of a line that are kept.
const LONGEST: usize = 2000;

struct ToLink(Link);

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

impl<S: Subscriber> Layer<S> for ToLink {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() > Level::INFO {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let line: String = line.0.chars().take(LONGEST).collect();
        self.0.log(format!("{} {line}", event.metadata().level()));
    }
}

/// From now on `tracing` speaks to the agent, and so do panics.
pub fn install(link: Link) {
    let panics = link.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line())).unwrap_or_default();
        panics.log(format!("ERROR {}{place}", first_line(panic.payload_as_str().unwrap_or("panicked"))));
    }));
    let _ = tracing_subscriber::registry().with(ToLink(link)).try_init();
}
