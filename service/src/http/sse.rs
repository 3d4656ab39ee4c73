//! Server-sent events: a stream that reads on from a number whenever it is woken, across outages of the database.
//! Used for a study's events and a trial's logs.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::future::BoxFuture;
use tokio::sync::broadcast;

use crate::app::App;
use crate::db::notify::{self, Wake};
use crate::error::Result;

/// One batch of events and the number to read on from.
pub type Batch = (Vec<Event>, i64);

/// What a stream is of.
pub trait Source: Send + Sync + 'static {
    /// The events after `after`, oldest first, at most some hundreds.
    fn read<'a>(&'a self, app: &'a App, after: i64) -> BoxFuture<'a, Result<Batch>>;
    /// Whether the wake-up may be about new events.
    fn concerns(&self, wake: Wake) -> bool;
    /// Look again after this time even if nothing woke.
    fn poll(&self) -> Duration;
}

struct Reader<S> {
    app: App,
    source: S,
    wakes: broadcast::Receiver<Wake>,
    after: i64,
    /// Nothing more was there at the last look.
    drained: bool,
}

/// Streams until the client leaves or the service stops; the client comes back with the last id that it saw.
pub fn stream<S: Source>(app: App, source: S, after: i64) -> Sse<impl Stream<Item = std::result::Result<Event, Infallible>> + use<S>> {
    let wakes = app.wakes.subscribe();
    let reader = Reader { app, source, wakes, after, drained: false };
    let batches = futures::stream::unfold(reader, |mut reader| async move {
        let stop = reader.app.stop.clone();
        let events = stop.run_until_cancelled(reader.next()).await??;
        Some((futures::stream::iter(events.into_iter().map(Ok)), reader))
    });
    Sse::new(futures::StreamExt::flatten(batches)).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}

impl<S: Source> Reader<S> {
    /// The next events; None: there is nothing to read any more.
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            if self.drained {
                self.wait().await;
            }
            match self.source.read(&self.app, self.after).await {
                Ok((events, after)) => {
                    self.after = after;
                    self.drained = events.is_empty();
                    if !events.is_empty() {
                        return Some(events);
                    }
                }
                Err(error) if error.status() == 503 => {
                    self.drained = true;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                // Deleted meanwhile, or a fault that was logged: the client asks again and is told.
                Err(_) => return None,
            }
        }
    }

    async fn wait(&mut self) {
        let woken = async {
            while let Some(wake) = notify::next(&mut self.wakes).await {
                if self.source.concerns(wake) {
                    return;
                }
            }
            std::future::pending().await
        };
        let _ = tokio::time::timeout(self.source.poll(), woken).await;
    }
}
