//! Says of every live trial, in words that a user reads, why it has its width or waits.

use super::claims::{Candidate, Idle, StudyClaims, width_of};
use crate::model::plan::{Explanation, Report};
use crate::model::snapshot::Snapshot;
use crate::model::trial::TrialView;
use crate::model::width::Width;
use crate::sched::{Standing, Why};

/// By study and number.
pub(super) fn report(studies: &[StudyClaims], snapshot: &Snapshot) -> Report {
    let mut report = Report::default();
    for study in studies {
        let mut lines: Vec<(u32, Explanation)> = Vec::new();
        let running = study.candidates.iter().filter(|candidate| candidate.trial.is_some() && !candidate.slots.is_empty()).count();
        for candidate in &study.candidates {
            if let Some(trial) = candidate.trial {
                let (code, text) = candidate_line(study, candidate, running);
                lines.push((trial.number, Explanation { trial: trial.id, width: width(candidate), code: code.into(), text }));
            }
        }
        lines.extend(study.idle.iter().map(|(trial, why)| (trial.number, idle_line(trial, *why))));
        lines.sort_by_key(|(number, line)| (*number, line.trial));
        report.trials.extend(lines.into_iter().map(|(_, line)| line));
        let open = study.candidates.iter().filter(|candidate| candidate.trial.is_none() && !candidate.slots.is_empty()).count();
        if open > 0 {
            let name = &study.view.spec.name;
            report
                .notes
                .push(format!("{} for trials that study {name} has still to propose", count(open, "slot is kept", "slots are kept")));
        }
    }
    let nodes = snapshot.nodes.iter().filter(|node| node.state == crate::model::cluster::NodeState::Ready).count();
    if nodes == 0 && !report.trials.is_empty() {
        report.notes.push("no node is ready: join one with `elastune node join`".into());
    }
    report
}

fn width(candidate: &Candidate) -> Width {
    width_of(&candidate.slots)
}

fn candidate_line(study: &StudyClaims, candidate: &Candidate, running: usize) -> (&'static str, String) {
    let (now, before) = (width(candidate), width_of(&candidate.before));
    if now.is_zero() {
        return nothing_line(study, candidate, running);
    }
    let held = candidate.trial.is_some_and(|trial| trial.held);
    let moved = !candidate.before.is_empty()
        && candidate.slots.iter().all(|slot| !candidate.before.iter().any(|old| (old.node, old.device) == (slot.node, slot.device)));
    let state = state(candidate, now);
    if candidate.stranded && candidate.slots == candidate.before {
        let text = format!("keeps {} on nodes that are silent: goes on when they are back, or elsewhere once there is room", name(now));
        return ("lost", text);
    }
    match candidate.grant.why {
        Why::Frozen if held => ("held", format!("keeps {}: it has reached its milestone and waits for the verdict", name(now))),
        Why::Frozen if candidate.cordoned => ("cordoned", format!("keeps {state}; its node is cordoned and gives it nothing more")),
        Why::Frozen => ("frozen", format!("keeps {}: a resize is under way", name(now))),
        _ if before.is_zero() && candidate.claim.standing == Standing::Resuming => ("started", format!("resumes at {state}")),
        _ if before.is_zero() => ("started", format!("starts at {state}")),
        _ if now > before => ("grown", format!("grows from {} to {state}", name(before))),
        _ if now < before => {
            ("shrunk", format!("shrinks from {} to {state}; others of its study or of other studies need the devices", name(before)))
        }
        _ if moved => ("moved", format!("moves to other devices at {state}")),
        _ if candidate.grant.width > now => (
            "waiting_for_placement",
            format!("keeps {state}; {} would be its due, but no node has room for it", name(candidate.grant.width)),
        ),
        Why::SmallGain { to, gain } => (
            "guarded",
            format!(
                "keeps {state}; growing to {} would gain {gain:.2}x, restart cost included, less than the 1.1x that pays for it",
                name(to)
            ),
        ),
        Why::Unsettled => ("unsettled", format!("keeps {state}; its last resize is too recent for another")),
        _ => ("kept", format!("keeps {state}")),
    }
}

/// "width 2: 1.7x the speed of width 1 expected; about 38 s of work left at this width"
fn state(candidate: &Candidate, width: Width) -> String {
    let claim = &candidate.claim;
    let speed = if width == Width::ONE { String::new() } else { format!(" ({:.2}x the speed of width 1 expected)", claim.speed(width)) };
    let left = if candidate.trial.is_some_and(|trial| trial.rates.is_empty()) {
        "; not measured yet".to_string()
    } else {
        format!("; about {} of its work left", duration(claim.seconds_left(width)))
    };
    format!("{}{speed}{left}", name(width))
}

fn nothing_line(study: &StudyClaims, candidate: &Candidate, running: usize) -> (&'static str, String) {
    let preempted = !candidate.before.is_empty();
    let verb = if preempted { "saves and gives up its devices" } else { "waits" };
    let holders = count(running, "running trial", "running trials");
    let reason = match candidate.grant.why {
        _ if !candidate.grant.width.is_zero() => format!("no node has room for {}", name(candidate.grant.width)),
        Why::ParallelLimit => format!("{holders} is as many as the study's max_parallel allows"),
        _ if study.share == 0 => "other studies hold all devices that could serve it".to_string(),
        _ => format!("{} held by {holders}", count(study.share as usize, "the study's only device is", "all {n} devices of the study are")),
    };
    let code = match candidate.grant.why {
        _ if preempted => "preempted",
        _ if !candidate.grant.width.is_zero() => "waiting_for_placement",
        Why::ParallelLimit => "parallel_limit",
        _ => "waiting_for_capacity",
    };
    (code, format!("{verb}: {reason}"))
}

fn idle_line(trial: &TrialView, why: Idle) -> Explanation {
    let (code, text) = match why {
        Idle::StudyInactive => ("study_inactive", "holds nothing: its study is paused or stopping"),
        Idle::OutsideWorker => ("outside", "is run by an outside worker"),
        Idle::Stopping => ("stopping", "is being stopped"),
        Idle::Saving => ("saving", "saves its state; it gets a place once its processes have ended"),
        Idle::Lost => ("lost", "all its nodes are lost; it gets a place once its attempt has ended"),
        Idle::NoDevice => ("no_device", "waits: no node that is ready has a device of the kind, memory and width that its study asks for"),
    };
    Explanation { trial: trial.id, width: Width::ZERO, code: code.into(), text: text.into() }
}

fn name(width: Width) -> String {
    match width {
        Width::Fraction(parts) => format!("1/{parts} of a device"),
        Width::Devices(devices) => format!("width {devices}"),
    }
}

fn count(n: usize, one: &str, many: &str) -> String {
    match (n, many.contains("{n}")) {
        (1, true) => one.to_string(),
        (1, false) => format!("1 {one}"),
        (_, true) => many.replace("{n}", &n.to_string()),
        (_, false) => format!("{n} {many}"),
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
