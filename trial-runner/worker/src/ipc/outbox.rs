//! What the agent has still to hear, in order; numbered messages stay until it acknowledges them. Pure; used by `ipc`.

use std::collections::VecDeque;

use elastune_api::agent::ReportBody;
use elastune_api::worker::ToAgent;

/// Log lines and progress wait here only while fewer messages than this do; everything else always waits.
const MOST_WAITING: usize = 500;

#[derive(Debug, Default)]
pub struct Outbox {
    /// The number given last.
    number: u64,
    /// Number (0: forgotten once sent) and message.
    waiting: VecDeque<(u64, ToAgent)>,
    /// How many of `waiting` went out on this connection.
    sent: usize,
    dropped_lines: u64,
}

impl Outbox {
    pub fn report(&mut self, body: ReportBody) {
        if self.waiting.len() >= MOST_WAITING {
            match body {
                ReportBody::Log { .. } => {
                    self.dropped_lines += 1;
                    return;
                }
                ReportBody::Progress { .. } => return,
                _ => {}
            }
        } else if let ReportBody::Log { source, .. } = &body
            && self.dropped_lines > 0
        {
            let line = format!("{} lines of this log were dropped", std::mem::take(&mut self.dropped_lines));
            let source = source.clone();
            self.push(|number| ToAgent::Report { number, body: ReportBody::Log { source, line } });
        }
        self.push(|number| ToAgent::Report { number, body });
    }

    /// A message that takes a number of the reports' count.
    pub fn push(&mut self, message: impl FnOnce(u64) -> ToAgent) {
        self.number += 1;
        self.waiting.push_back((self.number, message(self.number)));
    }

    /// A message that nobody misses if the connection breaks.
    pub fn push_unnumbered(&mut self, message: ToAgent) {
        self.waiting.push_back((0, message));
    }

    /// The next message to write.
    pub fn next(&mut self) -> Option<ToAgent> {
        let (number, message) = self.waiting.get(self.sent)?;
        if *number == 0 {
            return self.waiting.remove(self.sent).map(|(_, message)| message);
        }
        let message = message.clone();
        self.sent += 1;
        Some(message)
    }

    pub fn acknowledge(&mut self, count: u64) {
        while self.waiting.front().is_some_and(|(number, _)| *number > 0 && *number <= count) {
            self.waiting.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// A new connection: all that is not acknowledged goes out again.
    pub fn rewind(&mut self) {
        self.sent = 0;
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn has_unsent(&self) -> bool {
        self.sent < self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milestone(outbox: &mut Outbox, resource: f64) {
        outbox.report(ReportBody::Milestone { resource });
    }

    fn numbers(outbox: &mut Outbox) -> Vec<u64> {
        std::iter::from_fn(|| outbox.next())
            .map(|message| match message {
                ToAgent::Report { number, .. } | ToAgent::Saved { number, .. } => number,
                _ => 0,
            })
            .collect()
    }

    fn saved(number: u64) -> ToAgent {
        ToAgent::Saved { number, path: "c".into(), sha256: "00".into(), bytes: 1, resource: 1.0, step: 1, durable: number > 0 }
    }

    #[test]
    fn resends_in_order_what_no_ack_covered() {
        let mut outbox = Outbox::default();
        milestone(&mut outbox, 1.0);
        outbox.push_unnumbered(saved(0));
        outbox.push(saved);
        milestone(&mut outbox, 2.0);
        assert_eq!(numbers(&mut outbox), [1, 0, 2, 3]);
        outbox.acknowledge(1);
        outbox.rewind();
        assert_eq!(numbers(&mut outbox), [2, 3]);
        milestone(&mut outbox, 3.0);
        assert!(outbox.has_unsent());
        assert_eq!(numbers(&mut outbox), [4]);
        outbox.acknowledge(9);
        assert!(outbox.is_empty() && !outbox.has_unsent());
    }

    #[test]
    fn a_silent_agent_costs_log_lines_not_facts() {
        let mut outbox = Outbox::default();
        let log = |n: usize| ReportBody::Log { source: "rank 0".into(), line: n.to_string() };
        (0..2 * MOST_WAITING).for_each(|n| outbox.report(log(n)));
        milestone(&mut outbox, 1.0);
        assert_eq!(outbox.waiting.len(), MOST_WAITING + 1);
        outbox.acknowledge(u64::MAX);
        outbox.report(log(0));
        assert!(matches!(outbox.next(), Some(ToAgent::Report { body: ReportBody::Log { line, .. }, .. }) if line.starts_with("500 lines")));
    }
}
