//! Whole studies with the pretended agent: random to the end, promotion and pause, growth, target, deadline, a user's verbs.

use elastune_core::judge::{self, Verdict};
use elastune_core::model::event::Event;
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::propose;
use serde_json::json;

use super::{World, asha, document};
use crate::db::memories::{self, Kind};
use crate::db::{cluster, events, groups, measurements, proposals, studies};
use crate::reconcile::{memory, verbs};

#[tokio::test]
async fn a_study_trains_every_trial_to_the_end() {
    let world = World::new().await;
    let mut agent = world.node(2).await;
    let study = world.study(&document(5, json!({}))).await;
    world.run(study, &mut agent).await;

    assert_eq!(world.state(study).await, StudyState::Completed);
    let trials = world.trials(study).await;
    assert_eq!(trials.iter().map(|trial| trial.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for trial in &trials {
        assert_eq!((trial.state, trial.attempt, trial.done), (TrialState::Completed, 1, 3.0), "trial {}", trial.number);
        let steps = measurements::list_page(&mut *world.conn().await, trial.id, 0.0, 100).await.expect("measurements");
        assert_eq!(steps.iter().map(|m| m.step).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert!(trial.value.is_some() && trial.started <= trial.ended && trial.checkpoint.is_some());
    }
    let mut conn = world.conn().await;
    assert!(agent.alive.is_empty() && groups::all(&mut conn).await.expect("groups").is_empty(), "no process is left");
    let (last, _) = proposals::last(&mut conn, study).await.expect("proposals");
    assert!((1..=5).contains(&last));
    assert!(cluster::get(&mut conn).await.expect("the cluster").plan > 0);
    assert!(studies::get(&mut conn, study).await.expect("the study").device_seconds >= 0.0);
    world.events(study).await;
}

#[tokio::test]
async fn a_lone_trial_grows_and_shrinks_again_for_another_study() {
    let world = World::new().await;
    let mut agent = world.node(2).await;
    let mut spec = document(1, json!({}));
    spec.workload.as_mut().expect("it has one").epochs = Some(60);
    let first = world.study(&spec).await;
    let mut wide = 0;
    for _ in 0..40 {
        world.reconcile(first).await;
        agent.step(&mut *world.conn().await).await;
        wide = world.trials(first).await.first().map_or(0, |trial| trial.width.ranks());
        if wide == 2 {
            break;
        }
    }
    assert_eq!(wide, 2, "it has the cluster for itself");

    let second = world.study(&document(4, json!({}))).await;
    for _ in 0..200 {
        world.reconcile(first).await;
        world.reconcile(second).await;
        agent.step(&mut *world.conn().await).await;
        if world.state(first).await.is_final() && world.state(second).await.is_final() {
            break;
        }
    }
    assert_eq!(world.state(second).await, StudyState::Completed);
    assert_eq!(world.state(first).await, StudyState::Completed);
    let widths: Vec<u32> = world
        .events(first)
        .await
        .into_iter()
        .filter_map(|event| if let Event::Resized { width, .. } = event { Some(width.ranks()) } else { None })
        .collect();
    assert!(widths.windows(2).any(|pair| pair[0] < pair[1]) && widths.windows(2).any(|pair| pair[0] > pair[1]), "{widths:?}");
    assert_eq!(world.trials(first).await[0].attempt, 1, "a resize is no restart");
}

#[tokio::test]
async fn asha_pauses_promotes_and_closes() {
    let world = World::new().await;
    let mut agent = world.node(3).await;
    let study = world
        .study(&document(
            8,
            json!({"early_stopping": asha(4.0), "workload": {"kind": "builtin", "name": "fashion-mnist-mlp", "batch_size": 64}}),
        ))
        .await;
    world.run(study, &mut agent).await;

    let trials = world.trials(study).await;
    assert_eq!(trials.len(), 8);
    let completed: Vec<_> = trials.iter().filter(|trial| trial.state == TrialState::Completed).collect();
    assert!(!completed.is_empty());
    assert!(completed.iter().all(|trial| trial.measured == Some(4.0)));
    for trial in trials.iter().filter(|trial| trial.state != TrialState::Completed) {
        assert_eq!((trial.state, trial.reason), (TrialState::Pruned, Some(Reason::NotPromoted)), "trial {}", trial.number);
        assert!(trial.message.as_deref().is_some_and(|text| text.contains("rung")), "{:?}", trial.message);
    }
    let events = world.events(study).await;
    let verdicts =
        |wanted: fn(&Verdict) -> bool| events.iter().filter(|e| matches!(e, Event::Judged { verdict, .. } if wanted(verdict))).count();
    assert!(verdicts(|verdict| matches!(verdict, Verdict::Promote { .. })) >= 4);
    assert!(verdicts(|verdict| matches!(verdict, Verdict::Pause)) > 0);
    let back = events.iter().any(|e| matches!(e, Event::Changed { state: TrialState::Waiting, reason: None, attempt, .. } if *attempt > 1));
    assert!(back, "some paused trial was promoted");
}

#[tokio::test]
async fn a_memory_folded_bit_by_bit_is_the_one_folded_from_the_start() {
    let world = World::new().await;
    let mut agent = world.node(4).await;
    let study = world.study(&document(24, json!({"early_stopping": asha(4.0)}))).await;
    world.run(study, &mut agent).await;

    let mut conn = world.conn().await;
    let (cursor, _) = memories::get::<judge::JudgeMemory>(&mut conn, study, Kind::Judge).await.expect("a memory");
    assert!(cursor >= 64, "a memory was stored on the way: {cursor}");
    let row = studies::get(&mut conn, study).await.expect("the study");
    let all = events::after(&mut conn, study, 0, 100_000).await.expect("events");
    let text = |value: serde_json::Result<String>| value.expect("a memory is plain");
    let judged = memory::of_judge(&mut conn, &row).await.expect("a memory").memory;
    assert_eq!(text(serde_json::to_string(&judged)), text(serde_json::to_string(&judge::fold(&row.spec, Default::default(), &all))));
    let proposed = memory::of_propose(&mut conn, &row).await.expect("a memory").memory;
    assert_eq!(text(serde_json::to_string(&proposed)), text(serde_json::to_string(&propose::fold(&row.spec, Default::default(), &all))));
}

#[tokio::test]
async fn a_paused_study_gives_up_its_slots_and_goes_on_from_its_checkpoints() {
    let world = World::new().await;
    let mut agent = world.node(1).await;
    let study = world
        .study(&document(1, json!({"workload": {"kind": "builtin", "name": "fashion-mnist-mlp", "batch_size": 64, "epochs": 8}})))
        .await;
    for _ in 0..8 {
        world.reconcile(study).await;
        agent.step(&mut *world.conn().await).await;
    }
    verbs::pause_study(&mut *world.conn().await, study).await.expect("it pauses");
    for _ in 0..4 {
        world.reconcile(study).await;
        agent.step(&mut *world.conn().await).await;
    }
    let trial = &world.trials(study).await[0];
    assert_eq!((trial.state, trial.reason, trial.attempt), (TrialState::Waiting, Some(Reason::Preempted), 2));
    assert!(trial.done >= 1.0 && agent.alive.is_empty());
    assert_eq!(trial.failures, 0, "a preemption is no failure");

    verbs::resume_study(&mut *world.conn().await, study).await.expect("it resumes");
    world.run(study, &mut agent).await;
    let trial = &world.trials(study).await[0];
    assert_eq!((trial.state, trial.measured), (TrialState::Completed, Some(8.0)));
    let steps = measurements::list_page(&mut *world.conn().await, trial.id, 0.0, 100).await.expect("measurements");
    assert_eq!(steps.len(), 8, "nothing is measured twice");
}

#[tokio::test]
async fn a_study_ends_at_its_target_and_at_its_deadline() {
    let world = World::new().await;
    let mut agent = world.node(2).await;
    let metrics = json!([{"name": "val_accuracy", "goal": "maximize", "target": 0.3}]);
    let study = world.study(&document(50, json!({"metrics": metrics}))).await;
    world.run(study, &mut agent).await;
    let row = studies::get(&mut *world.conn().await, study).await.expect("the study");
    assert_eq!((row.state, row.reason.as_deref()), (StudyState::Completed, Some("target_reached")));
    let trials = world.trials(study).await;
    let ended = [Some(Reason::StudyEnded), Some(Reason::NotStarted), None];
    assert!(trials.iter().all(|trial| ended.contains(&trial.reason)));
    assert!(trials.last().is_some_and(|trial| trial.started.is_some()), "what nobody started was taken back: {trials:#?}");
    let numbers: Vec<u32> = trials.iter().map(|trial| trial.number).collect();
    assert_eq!(numbers, (0..row.next_number).collect::<Vec<_>>(), "numbers have no gap");

    let budget = json!({"max_trials": 50, "deadline_ms": 1});
    let study = world.study(&document(50, json!({"budget": budget}))).await;
    world.run(study, &mut agent).await;
    let row = studies::get(&mut *world.conn().await, study).await.expect("the study");
    assert_eq!((row.state, row.reason.as_deref()), (StudyState::Completed, Some("deadline")));
}

#[tokio::test]
async fn a_cancelled_study_ends_its_processes_and_can_then_be_deleted() {
    let world = World::new().await;
    let mut agent = world.node(2).await;
    let study = world.study(&document(9, json!({}))).await;
    for _ in 0..6 {
        world.reconcile(study).await;
        agent.step(&mut *world.conn().await).await;
    }
    assert!(!agent.alive.is_empty());
    let mut conn = world.conn().await;
    verbs::end_study(&mut conn, study, StudyState::Cancelled).await.expect("it is cancelled");
    assert!(studies::delete(&mut conn, study).await.is_err(), "its processes are still there");
    verbs::end_study(&mut conn, study, StudyState::Cancelled).await.expect("again changes nothing");
    world.run(study, &mut agent).await;
    assert_eq!(world.state(study).await, StudyState::Cancelled);
    assert!(agent.alive.is_empty());
    assert!(verbs::resume_study(&mut conn, study).await.is_err());
    studies::delete(&mut conn, study).await.expect("now it can go");
    assert!(studies::get(&mut conn, study).await.is_err());
}
