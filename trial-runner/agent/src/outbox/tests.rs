//! Properties of the outbox: nothing essential is lost, doubled or reordered, whatever the agent's and the service's deaths.

use std::collections::BTreeMap;

use elastune_core::model::event::MetricValue;
use elastune_core::model::group::Exit;
use elastune_core::model::trial::CheckpointRef;
use elastune_core::time::Time;
use proptest::prelude::*;
use uuid::Uuid;

use super::queue::Queue;
use super::*;

fn draft(incarnation: u8, number: u64, body: ReportBody) -> Draft {
    let upload = matches!(body, ReportBody::Checkpointed { .. }).then(|| "/nowhere".into());
    Draft {
        at: Time(0),
        trial: TrialId(Uuid::nil()),
        attempt: 1,
        incarnation: Incarnation(Uuid::from_u128(u128::from(incarnation))),
        number,
        body,
        upload,
    }
}

fn measured(resource: u64) -> ReportBody {
    let metrics = BTreeMap::from([("loss".to_owned(), MetricValue::Number(0.5))]);
    ReportBody::Measured { resource: resource as f64, metrics, elapsed_s: 1.0 }
}

fn checkpointed(step: u64) -> ReportBody {
    ReportBody::Checkpointed { checkpoint: CheckpointRef { sha256: "a".repeat(64), resource: 1.0, step, bytes: 1 } }
}

fn progress(step: u64) -> ReportBody {
    ReportBody::Progress { done: 0.5, step, rates: vec![] }
}

#[derive(Debug, Clone)]
enum Happening {
    /// The worker tells its next report; (kind 0..3).
    Tell(u8, u8),
    Uploaded,
    /// A batch is sent; the service takes it; the answer arrives or not.
    Send {
        taken: bool,
        answered: bool,
    },
    /// The agent dies and starts again; the worker resends its last few reports.
    Restart {
        resent: u64,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0u8..3, 0u8..4).prop_map(|(worker, kind)| Happening::Tell(worker, kind)),
        1 => Just(Happening::Uploaded),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(taken, answered)| Happening::Send { taken, answered }),
        1 => (0u64..4).prop_map(|resent| Happening::Restart { resent }),
    ]
}

/// The service: takes each (spool, seq) once, in order.
#[derive(Default)]
struct Taker {
    last: BTreeMap<Uuid, u64>,
    taken: Vec<(Incarnation, ReportBody)>,
}

struct World {
    folder: tempfile::TempDir,
    outbox: Outbox,
    told: BTreeMap<u8, Vec<ReportBody>>,
    service: Taker,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let outbox = Outbox::open(&folder.path().join("outbox.jsonl"), 1 << 30).expect("writable");
        World { folder, outbox, told: BTreeMap::new(), service: Taker::default() }
    }

    fn tell(&mut self, worker: u8, kind: u8) {
        let told = self.told.entry(worker).or_default();
        let number = told.len() as u64 + 1;
        let body = match kind {
            0 => measured(number),
            1 => checkpointed(number),
            2 => ReportBody::Milestone { resource: number as f64 },
            _ => progress(number),
        };
        told.push(body.clone());
        self.outbox.put(draft(worker, number, body)).expect("room");
    }

    fn send(&mut self, taken: bool, answered: bool) {
        if let Some(line) = { self.outbox.lock().journal.queue.send() } {
            self.outbox.append(&line).expect("room");
        }
        let (spool, reports) = {
            let inner = self.outbox.lock();
            (inner.journal.queue.spool, inner.journal.queue.batch(usize::MAX))
        };
        if !taken || reports.is_empty() {
            return;
        }
        let last = self.service.last.entry(spool).or_default();
        for report in reports {
            if report.seq > *last {
                *last = report.seq;
                self.service.taken.push((report.incarnation, report.body));
            }
        }
        let seq = *last;
        if answered {
            self.outbox.append(&Line::Acked { seq }).expect("room");
        }
    }

    fn uploaded(&mut self) {
        let first = { self.outbox.lock().journal.queue.uploads().first().map(|upload| upload.id) };
        if let Some(id) = first {
            self.outbox.append(&Line::Uploaded { id }).expect("room");
        }
    }

    fn restart(&mut self, resent: u64) {
        self.outbox = Outbox::open(&self.folder.path().join("outbox.jsonl"), 1 << 30).expect("readable");
        for (worker, told) in &self.told {
            let from = (told.len() as u64).saturating_sub(resent);
            for (index, body) in told.iter().enumerate().skip(from as usize) {
                self.outbox.put(draft(*worker, index as u64 + 1, body.clone())).expect("room");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn each_essential_report_arrives_once_and_in_order(history in prop::collection::vec(happening(), 1..60)) {
        let mut world = World::new();
        for happening in history {
            match happening {
                Happening::Tell(worker, kind) => world.tell(worker, kind),
                Happening::Uploaded => world.uploaded(),
                Happening::Send { taken, answered } => world.send(taken, answered),
                Happening::Restart { resent } => world.restart(resent),
            }
        }
        for _ in 0..100 {
            world.uploaded();
            world.send(true, true);
        }
        prop_assert!(world.outbox.is_empty());
        for (worker, told) in &world.told {
            let incarnation = Incarnation(Uuid::from_u128(u128::from(*worker)));
            let is_progress = |body: &ReportBody| matches!(body, ReportBody::Progress { .. });
            let taken: Vec<_> = world.service.taken.iter().filter(|(of, _)| *of == incarnation).map(|(_, body)| body.clone()).collect();
            prop_assert_eq!(taken.len(), told.len(), "each once");
            let ordered = |bodies: &[ReportBody]| bodies.iter().filter(|body| !is_progress(body)).cloned().collect::<Vec<_>>();
            prop_assert_eq!(ordered(&taken), ordered(told));
        }
    }

    #[test]
    fn the_cut_file_says_the_same(history in prop::collection::vec(happening(), 1..40)) {
        let mut world = World::new();
        for happening in history {
            match happening {
                Happening::Tell(worker, kind) => world.tell(worker, kind),
                Happening::Uploaded => world.uploaded(),
                Happening::Send { taken, answered } => world.send(taken, answered),
                Happening::Restart { .. } => {}
            }
        }
        let inner = world.outbox.lock();
        let mut rebuilt = Queue::new(Uuid::new_v4());
        for line in inner.journal.queue.lines() {
            let bytes = serde_json::to_vec(&line).expect("plain").len() as u64 + 1;
            rebuilt.apply(&line, bytes);
        }
        prop_assert_eq!(rebuilt.lines(), inner.journal.queue.lines());
        prop_assert_eq!(rebuilt.batch(usize::MAX), inner.journal.queue.batch(usize::MAX));
    }
}

#[test]
fn what_follows_a_checkpoint_waits_for_its_upload_and_the_rest_does_not() {
    let mut world = World::new();
    world.outbox.put(draft(1, 1, measured(1))).expect("room");
    world.outbox.put(draft(1, 2, checkpointed(10))).expect("room");
    world.outbox.put(draft(1, 3, ReportBody::Milestone { resource: 1.0 })).expect("room");
    world.outbox.put(draft(1, 4, progress(11))).expect("room");
    world.outbox.put(draft(2, 1, measured(7))).expect("room");
    world.outbox.put(draft(1, 0, ReportBody::Exited { exit: Exit::Clean })).expect("room");
    world.send(true, true);
    let bodies: Vec<_> = world.service.taken.iter().map(|(_, body)| body.clone()).collect();
    assert_eq!(bodies, [measured(1), progress(11), measured(7)]);
    world.uploaded();
    world.send(true, true);
    let bodies: Vec<_> = world.service.taken.iter().skip(3).map(|(_, body)| body.clone()).collect();
    assert_eq!(bodies, [checkpointed(10), ReportBody::Milestone { resource: 1.0 }, ReportBody::Exited { exit: Exit::Clean }]);
}

#[test]
fn at_the_bound_only_logs_and_progress_are_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let outbox = Outbox::open(&folder.path().join("outbox.jsonl"), 4000).expect("writable");
    let log = |line: &str| ReportBody::Log { source: "rank 0".into(), line: line.into() };
    for number in 1..=200 {
        let body = match number % 4 {
            0 => measured(number),
            1 => log("x"),
            2 => progress(number),
            _ => checkpointed(number),
        };
        outbox.put(draft(1, number, body)).expect("taken or dropped");
    }
    assert_eq!(outbox.number(Incarnation(Uuid::from_u128(1))), 200, "dropped ones are acknowledged as well");
    let inner = outbox.lock();
    let kept = |wanted: fn(&ReportBody) -> bool| {
        let is_put = |line: &Line| matches!(line, Line::Put { draft, .. } if wanted(&draft.body));
        inner.journal.queue.lines().iter().filter(|line| is_put(line)).count()
    };
    assert_eq!(kept(|body| matches!(body, ReportBody::Measured { .. })), 50);
    assert_eq!(kept(|body| matches!(body, ReportBody::Checkpointed { .. })), 50);
    let (logs, progress) = (kept(|body| matches!(body, ReportBody::Log { .. })), kept(|body| matches!(body, ReportBody::Progress { .. })));
    assert!(logs < progress && progress < 50, "{logs} logs, {progress} of progress");
}

#[test]
fn a_torn_last_line_costs_only_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("outbox.jsonl");
    let outbox = Outbox::open(&path, 1 << 30).expect("writable");
    outbox.put(draft(1, 1, measured(1))).expect("room");
    outbox.put(draft(1, 2, measured(2))).expect("room");
    drop(outbox);
    let length = std::fs::metadata(&path).expect("there").len();
    std::fs::OpenOptions::new().write(true).open(&path).expect("ours").set_len(length - 5).expect("ours");
    let outbox = Outbox::open(&path, 1 << 30).expect("readable");
    assert_eq!(outbox.number(Incarnation(Uuid::from_u128(1))), 1, "the worker is asked for the second again");
    outbox.put(draft(1, 2, measured(2))).expect("room");
    drop(outbox);
    assert_eq!(Outbox::open(&path, 1 << 30).expect("readable").number(Incarnation(Uuid::from_u128(1))), 2);
}

#[test]
fn acknowledged_reports_leave_the_disk() {
    let mut world = World::new();
    for number in 0..4000 {
        world.outbox.put(draft(1, number + 1, measured(number))).expect("room");
        if number % 50 == 49 {
            world.send(true, true);
        }
    }
    let length = std::fs::metadata(world.folder.path().join("outbox.jsonl")).expect("there").len();
    assert!(length < 600 << 10, "{length} bytes are left of about 1.2 MB");
}
