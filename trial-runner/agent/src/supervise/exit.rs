//! What a process's end means. Pure; called by `agent` once everything that the process said has been read.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use elastune_api::agent::Exit;

/// How the process ended, as far as the agent knows.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// Its last message.
    pub goodbye: Option<Exit>,
    /// Why the agent killed it.
    pub killed_for: Option<String>,
    /// The agent ended it because it was not wanted any more.
    pub asked: bool,
    /// Unknown of a process that an earlier agent started.
    pub status: Option<ExitStatus>,
}

/// Its own word goes first; then what the agent did; then what the kernel says.
pub fn classify(end: &End) -> Exit {
    if let Some(exit) = &end.goodbye {
        return exit.clone();
    }
    let message = match (&end.killed_for, end.status) {
        (Some(why), _) => format!("killed: {why}"),
        (None, _) if end.asked => return Exit::Clean,
        (None, None) => "it ended without a word".to_owned(),
        (None, Some(status)) => match (status.code(), status.signal()) {
            (_, Some(signal)) => format!("killed by signal {signal}{}", signal_hint(signal)),
            (Some(code), None) => format!("ended with exit code {code} without a word"),
            (None, None) => "it ended without a word".to_owned(),
        },
    };
    Exit::Lost { message }
}

fn signal_hint(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL: built for another processor?)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS: out of shared memory or disk space?)",
        9 => " (SIGKILL: by hand, or the machine ran out of memory)",
        11 => " (SIGSEGV)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(end: &End) -> String {
        match classify(end) {
            Exit::Lost { message } => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_workers_own_word_goes_first() {
        let exit = Exit::OutOfMemory { peak_bytes: 5 };
        let end = End { goodbye: Some(exit.clone()), killed_for: Some("slow".into()), status: Some(ExitStatus::from_raw(9)), asked: false };
        assert_eq!(classify(&end), exit);
    }

    #[test]
    fn without_it_the_end_is_a_loss_and_says_why() {
        assert!(lost(&End { status: Some(ExitStatus::from_raw(9)), ..End::default() }).contains("signal 9"));
        assert!(lost(&End { status: Some(ExitStatus::from_raw(3 << 8)), ..End::default() }).contains("code 3"));
        assert!(lost(&End { killed_for: Some("silent".into()), asked: true, ..End::default() }).contains("silent"));
        lost(&End { status: Some(ExitStatus::from_raw(0)), ..End::default() });
        lost(&End::default());
    }

    #[test]
    fn an_end_that_was_asked_for_is_none() {
        assert_eq!(classify(&End { asked: true, status: Some(ExitStatus::from_raw(15)), ..End::default() }), Exit::Clean);
    }
}
