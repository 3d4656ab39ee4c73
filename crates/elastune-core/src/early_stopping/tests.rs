//! The rules on random interleavings of a study: trials proposed, measured, preempted and failed in any order, verdicts applied
//! late or one at a time.

mod world;

use proptest::prelude::*;
use serde_json::json;

use crate::judge::{JudgeMemory, Verdict, fold, groups, idle, incumbent, judge};
use crate::model::event::{Event, MetricValue, StudyEvent};
use crate::model::trial::TrialState;
use crate::time::Time;
use world::{World, document};

fn asha(variant: &str) -> serde_json::Value {
    json!({"name": "asha", "variant": variant, "min_resource": 1, "max_resource": 9, "reduction_factor": 3})
}

fn halving(trials: Option<u32>) -> serde_json::Value {
    json!({"name": "successive_halving", "min_resource": 1, "max_resource": 9, "reduction_factor": 3, "trials": trials})
}

/// (action, which trial, loss) of each step.
fn steps() -> impl Strategy<Value = Vec<(u8, u8, u16)>> {
    prop::collection::vec(any::<(u8, u8, u16)>(), 0..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A: only the best go on; B: once a rung; C: in the end all of the best have gone on, and nobody is left waiting.
    #[test]
    fn asha_promotes_the_best(steps in steps(), trials in 1u32..40) {
        let mut world = World::new(document(asha("promotion"), trials), true);
        world.run(&steps);
        for judged in &world.judged {
            if let Verdict::Promote { .. } = judged.verdict {
                prop_assert!(judged.rank < judged.results / 3, "{judged:?}");
            }
        }
        prop_assert!(world.promoted_once());
        world.finish();
        prop_assert!(world.trials.values().all(|trial| trial.state.is_final()));
        for rung in [1, 3] {
            let ranked = world.ranked(rung);
            for trial in &ranked[..ranked.len() / 3] {
                prop_assert!(world.trials[trial].run_until > f64::from(rung), "{trial} is among the best of {} at {rung}", ranked.len());
            }
        }
    }

    /// Nobody waits: each verdict is to go on or to end, and only the best so far go on.
    #[test]
    fn asha_by_stopping_never_waits(steps in steps(), trials in 1u32..40) {
        let mut world = World::new(document(asha("stopping"), trials), true);
        world.run(&steps);
        world.finish();
        for judged in &world.judged {
            match judged.verdict {
                Verdict::Promote { .. } => prop_assert!(judged.rank < (judged.results / 3).max(1), "{judged:?}"),
                Verdict::Stop => prop_assert!(judged.rank >= (judged.results / 3).max(1), "{judged:?}"),
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert!(world.promoted_once());
        prop_assert!(world.trials.values().all(|trial| trial.state.is_final()));
    }

    /// Whole cohorts: with no failures exactly a third of each rung goes on, once it is complete.
    #[test]
    fn halving_promotes_exactly_a_third(steps in steps(), cohorts in 1u32..4, sized in any::<bool>()) {
        let size = if sized { 9 } else { 9 * cohorts };
        let mut world = World::new(document(halving(sized.then_some(9)), 9 * cohorts), false);
        world.run(&steps);
        world.finish();
        for judged in &world.judged {
            if let Verdict::Promote { .. } | Verdict::Close = judged.verdict {
                prop_assert_eq!(judged.results as u32, if judged.rung == 1 { size } else { size / 3 }, "{:?}", judged);
            }
            if let Verdict::Promote { .. } = judged.verdict {
                prop_assert!(judged.rank < judged.results / 3, "{judged:?}");
            }
        }
        prop_assert!(world.promoted_once());
        let whole = world.trials.values().filter(|trial| trial.state == TrialState::Completed).count() as u32;
        prop_assert_eq!(whole, cohorts);
        prop_assert!(world.trials.values().all(|trial| trial.state.is_final()));
    }

    /// Failures and odd numbers of trials never leave a study stuck.
    #[test]
    fn halving_ends_whatever_fails(steps in steps(), trials in 1u32..40, size in prop::option::of(1u32..12)) {
        let mut world = World::new(document(halving(size), trials), true);
        world.run(&steps);
        world.finish();
        prop_assert!(world.trials.values().all(|trial| trial.state.is_final()));
        prop_assert!(world.promoted_once());
    }

    /// Folding event by event, in parts or at once gives the same bytes, through JSON as well; the same memory judges the same.
    #[test]
    fn the_memory_is_a_fold(steps in steps(), cut in any::<prop::sample::Index>(), rule in 0..3) {
        let rule = [asha("promotion"), asha("stopping"), halving(Some(6))][rule as usize].clone();
        let mut world = World::new(document(rule, 20), true);
        world.run(&steps);
        let bytes = |memory: &JudgeMemory| serde_json::to_vec(memory).expect("a memory is plain");
        let (before, after) = world.events.split_at(cut.index(world.events.len() + 1));
        let half = fold(&world.spec, JudgeMemory::default(), before);
        let half: JudgeMemory = serde_json::from_slice(&bytes(&half)).expect("it reads back");
        // The overlap is skipped.
        let whole = fold(&world.spec, fold(&world.spec, half, after), &world.events);
        prop_assert_eq!(bytes(&whole), bytes(&fold(&world.spec, JudgeMemory::default(), &world.events)));
        prop_assert_eq!(bytes(&whole), bytes(&world.memory));
        prop_assert_eq!(judge(&world.spec, &whole), judge(&world.spec, &world.memory));
        prop_assert_eq!(groups(&world.spec, &whole), groups(&world.spec, &world.memory));
    }
}

#[test]
fn first_results_wait_and_are_promoted_from_their_pause() {
    let mut world = World::new(document(asha("promotion"), 9), false);
    for number in 0..2 {
        world.propose();
        world.measure(number, f64::from(number));
    }
    let texts: Vec<String> = judge(&world.spec, &world.memory).into_iter().map(|judgement| judgement.text).collect();
    assert_eq!(
        texts,
        ["rung 1 epoch: 1st of 2, it waits until the rung has 3 results", "rung 1 epoch: 2nd of 2, it waits until the rung has 3 results"]
    );
    world.judge_all();
    assert_eq!(judge(&world.spec, &world.memory), [], "a verdict that took effect is not given again");
    assert_eq!(idle(&world.spec, &world.memory, 7), [], "trials are still to come");

    world.propose();
    world.measure(2, 5.0);
    let judgements = judge(&world.spec, &world.memory);
    let verdicts: Vec<_> = judgements.iter().map(|judgement| (judgement.trial, judgement.verdict)).collect();
    assert_eq!(verdicts, [(world::id(0), Verdict::Promote { run_until: 3.0 }), (world::id(2), Verdict::Pause)]);
    assert_eq!(judgements[0].text, "rung 1 epoch: 1st of 3, the best 1 goes on");
    assert_eq!(judgements[1].text, "rung 1 epoch: 3rd of 3, the best 1 goes on");
}

#[test]
fn a_held_trial_is_promoted_on_the_spot_and_nan_ranks_last() {
    let mut world = World::new(document(asha("promotion"), 9), false);
    for (number, loss) in [(0, f64::NAN), (1, 2.0), (2, f64::INFINITY), (3, 2.0)] {
        world.propose();
        world.measure(number, loss);
    }
    let verdicts: Vec<_> = judge(&world.spec, &world.memory).iter().map(|judgement| (judgement.trial, judgement.verdict)).collect();
    let pause = |number| (world::id(number), Verdict::Pause);
    assert_eq!(verdicts, [(world::id(1), Verdict::Promote { run_until: 3.0 }), pause(3), pause(0), pause(2)]);
}

#[test]
fn idle_closes_what_can_never_be_promoted() {
    let mut world = World::new(document(asha("promotion"), 2), false);
    for number in 0..2 {
        world.propose();
        world.measure(number, 1.0);
    }
    assert_eq!(idle(&world.spec, &world.memory, 0), [], "two hold a slot and have no verdict yet");
    world.judge_all();
    let closed = idle(&world.spec, &world.memory, 0);
    assert_eq!(closed.iter().map(|judgement| judgement.verdict).collect::<Vec<_>>(), [Verdict::Close, Verdict::Close]);
}

#[test]
fn an_excluded_trial_makes_room() {
    let mut world = World::new(document(asha("promotion"), 9), false);
    for number in 0..6 {
        world.propose();
        world.measure(number, f64::from(number));
    }
    world.judge_all();
    assert!(world.trials[&world::id(1)].run_until > 1.0);
    world.exclude(0);
    // Of five results one goes on, and number 1 has; a sixth makes it two.
    assert_eq!(judge(&world.spec, &world.memory), []);
    world.propose();
    world.measure(6, 9.0);
    let verdicts: Vec<_> = judge(&world.spec, &world.memory).iter().map(|judgement| (judgement.trial, judgement.verdict)).collect();
    assert_eq!(verdicts, [(world::id(2), Verdict::Promote { run_until: 3.0 }), (world::id(6), Verdict::Pause)]);
}

#[test]
fn the_incumbent_is_the_best_value_of_those_that_count() {
    let mut world = World::new(document(json!("none"), 9), true);
    assert_eq!(incumbent(&world.spec, &world.memory), None);
    for (number, loss) in [(0, 3.0), (1, 1.0), (2, f64::NAN), (3, 1.0)] {
        world.propose();
        world.measure(number, loss);
    }
    let best = incumbent(&world.spec, &world.memory).expect("there are values");
    // The metric is maximized: the value is the negative loss.
    assert_eq!((best.number, best.value, best.resource), (1, -1.0, 1.0));
    world.exclude(1);
    assert_eq!(incumbent(&world.spec, &world.memory).map(|best| best.number), Some(3));
}

#[test]
fn the_first_measurement_of_a_resource_stays() {
    let mut world = World::new(document(asha("promotion"), 9), false);
    for number in 0..3 {
        world.propose();
        world.measure(number, f64::from(number));
    }
    let before = world.memory.clone();
    let metrics = [("value".to_string(), MetricValue::new(100.0))].into();
    let event = Event::Measured { trial: world::id(2), resource: 1.0, metrics, elapsed_s: 0.0 };
    let seq = world.events.len() as u64 + 1;
    let after = fold(&world.spec, before.clone(), &[StudyEvent { seq, at: Time(0), event }]);
    assert_eq!(judge(&world.spec, &after), judge(&world.spec, &before));
    assert_eq!(incumbent(&world.spec, &after), incumbent(&world.spec, &before));
}

#[test]
fn groups_are_rungs() {
    let mut world = World::new(document(asha("promotion"), 9), false);
    for number in 0..3 {
        world.propose();
        world.measure(number, f64::from(number));
    }
    world.judge_all();
    world.propose();
    let groups: Vec<u64> = groups(&world.spec, &world.memory).values().map(|group| group.0).collect();
    assert_eq!(groups, [1, 0, 0, 0], "number 0 is on its way to the second rung");
}
