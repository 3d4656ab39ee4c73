//! Whole studies with real workers: searched, stopped early, resized, exported.

use std::collections::BTreeSet;

use e2e::{World, seconds, studies, until};
use elastune_api::study::StudyPatch;
use elastune_core::judge::Verdict;
use elastune_core::model::event::Event;
use elastune_core::model::trial::TrialState;

#[tokio::test(flavor = "multi_thread")]
async fn a_random_study_completes_and_is_exported() {
    let world = World::with_node(1024, 2).await;
    let study = world.create(&studies::plain("plain", "random", 4, 2, 1)).await;
    let study = world.completed(study.id, 120).await;
    assert_eq!(study.counts.completed, 4);
    let export = world.client().export(study.id).await.expect("it is exported");
    assert_eq!(export.trials.iter().map(|t| t.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let distinct: BTreeSet<String> = export.trials.iter().map(|t| format!("{:?}", t.parameters)).collect();
    assert_eq!(distinct.len(), 4, "every trial has parameters of its own");
    for trial in &export.trials {
        assert_eq!(trial.measurements.iter().map(|m| m.step).collect::<Vec<_>>(), [1.0, 2.0]);
        for name in ["val_accuracy", "val_loss", "train_loss"] {
            assert!(trial.measurements.iter().all(|m| m.metrics.contains_key(name)), "{name} in {trial:?}");
        }
    }
    let best = study.best.expect("there is a best trial");
    let values = world.trials(study.id).await.into_iter().filter_map(|t| t.value);
    assert_eq!(best.value, values.fold(f64::MIN, f64::max));
    assert!(best.value > 0.3, "it learned something: {}", best.value);
    let csv = world.client().export_text(study.id, "csv").await.expect("it is exported");
    assert_eq!(csv.lines().count(), 1 + 4 * 2, "a line a measurement: {csv}");
}

#[tokio::test(flavor = "multi_thread")]
async fn asha_promotes_the_best_and_prunes_the_rest() {
    let world = World::with_node(1024, 4).await;
    let study = world.create(&studies::asha("asha", 16, 1)).await;
    let study = world.completed(study.id, 240).await;
    let events = world.events(study.id).await;
    let promoted = |to: f64| {
        events.iter().filter(|e| matches!(e, Event::Judged { verdict: Verdict::Promote { run_until }, .. } if *run_until == to)).count()
    };
    // Promotion waits until a rung has reduction_factor results, and afterwards promotes a quarter at most.
    assert_eq!(promoted(4.0), 4);
    assert!(promoted(16.0) >= 1);
    assert_eq!(study.counts.failed, 0);
    assert_eq!(study.counts.completed + study.counts.pruned, 16);
    assert_eq!(study.counts.completed as usize, promoted(16.0));
    for trial in world.trials(study.id).await {
        let steps = world.client().measurements(trial.id).await.expect("measurements").len();
        match trial.state {
            TrialState::Completed => assert_eq!(steps, 16),
            _ => assert!(steps == 1 || steps == 4, "trial {} was pruned after {steps} epochs", trial.number),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_grows_into_free_slots_and_makes_room_for_a_second_study() {
    let world = World::with_node(2048, 2).await;
    // Longer than any machine needs for what follows: it is stopped, not awaited.
    let first = world.create(&studies::plain("first", "sobol", 1, 10_000, 2)).await.id;
    let trial = until("the trial is there", seconds(60), async || world.trials(first).await.first().map(|trial| trial.id)).await;
    world.width_becomes(trial, 2).await;
    let second = world.create(&studies::plain("second", "sobol", 1, 3, 1)).await.id;
    world.width_becomes(trial, 1).await;
    world.completed(second, 120).await;
    // Whether a second slot is worth having is the machine's to say, unless the user does.
    let wide = StudyPatch { min_width: Some(2), ..StudyPatch::default() };
    world.client().change_study(first, &wide).await.expect("limits may change");
    world.width_becomes(trial, 2).await;
    world.trained(trial, 3).await;
    world.client().study_verb(first, "stop").await.expect("it may stop");
    world.ended(first, 60).await;
    let (grows, shrinks) = world.resizes(first).await;
    assert!(grows >= 2 && shrinks >= 1, "{grows} grows, {shrinks} shrinks");
    let trial = &world.trials(first).await[0];
    assert_eq!((trial.attempt, trial.failures), (1, 0), "it was never started again");
    let measured = world.measured(trial.id).await;
    assert_eq!(measured, (1..=measured.len()).map(|step| step as f64).collect::<Vec<_>>(), "every epoch once");
}
