//! Reads `text/event-stream`: ids, event names and JSON data. Used for a study's events and a trial's logs.

use std::collections::VecDeque;
use std::pin::Pin;

use futures::{Stream, StreamExt};

/// One event as it came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SseError {
    #[error("the stream broke: {0}")]
    Broken(#[from] reqwest::Error),
    #[error("an event of more than {MAX_EVENT_BYTES} bytes")]
    TooLong,
    #[error("not the JSON expected: {0}")]
    Json(#[from] serde_json::Error),
}

const MAX_EVENT_BYTES: usize = 16 << 20;

/// Events until the service ends the stream; after an error or the end, connect again from the last id.
pub struct SseStream {
    body: Pin<Box<dyn Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    parser: Parser,
}

impl std::fmt::Debug for SseStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SseStream").finish_non_exhaustive()
    }
}

impl SseStream {
    pub(super) fn new(response: reqwest::Response) -> Self {
        let body = response.bytes_stream().map(|chunk| chunk.map(|bytes| bytes.to_vec()));
        SseStream { body: Box::pin(body), parser: Parser::default() }
    }

    /// The next event; None at the end of the stream.
    pub async fn next(&mut self) -> Option<Result<SseEvent, SseError>> {
        loop {
            if let Some(event) = self.parser.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.parser.pending() > MAX_EVENT_BYTES {
                return Some(Err(SseError::TooLong));
            }
            match self.body.next().await? {
                Ok(bytes) => self.parser.push(&bytes),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// The next event's data as `T`.
    pub async fn next_json<T: serde::de::DeserializeOwned>(&mut self) -> Option<Result<T, SseError>> {
        Some(match self.next().await? {
            Ok(event) => serde_json::from_str(&event.data).map_err(SseError::from),
            Err(error) => Err(error),
        })
    }
}

#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    current: SseEvent,
    has_data: bool,
    ready: VecDeque<SseEvent>,
}

impl Parser {
    fn pending(&self) -> usize {
        self.line.len() + self.current.data.len()
    }

    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                b'\r' => {}
                byte => self.line.push(byte),
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.is_empty() {
            let event = std::mem::take(&mut self.current);
            if std::mem::take(&mut self.has_data) {
                self.ready.push_back(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.current.id = Some(value.into()),
            "event" => self.current.event = Some(value.into()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let text = b": hello\nid: 7\nevent: measured\ndata: {\"a\":\ndata: 1}\n\n:\n\nid:8\r\ndata:\r\n\r\n";
        let expected = [
            SseEvent { id: Some("7".into()), event: Some("measured".into()), data: "{\"a\":\n1}".into() },
            SseEvent { id: Some("8".into()), event: None, data: String::new() },
        ];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            for chunk in text.chunks(size) {
                parser.push(chunk);
            }
            assert_eq!(Vec::from(parser.ready), expected, "chunks of {size}");
        }
    }
}
