//! The conformance suite of policies: one line a policy, the same promises for all, on random worlds.

mod lint;
mod sentences;
mod world;

use proptest::prelude::*;

use super::{Decision, decide};
use crate::check::check;
use crate::model::snapshot::Snapshot;
use crate::model::study::PolicyName;
use crate::rng::Seed;
use world::World;

fn bytes(decision: &Decision) -> String {
    let plan = serde_json::to_string(&decision.plan).expect("a plan is plain");
    let report = serde_json::to_string(&decision.report).expect("a report is plain");
    let memory = serde_json::to_string(&decision.memory).expect("a memory is plain");
    format!("{plan}{report}{memory}{:?}", decision.wake_at)
}

fn assert_sound(decision: &Decision, snapshot: &Snapshot) {
    let violations = check(&decision.plan, snapshot);
    assert!(violations.is_empty(), "{violations:?}\nplan {:#?}\ncurrent {:#?}", decision.plan, snapshot.current);
    let live: usize = snapshot.studies.iter().map(|study| study.trials.len()).sum();
    assert_eq!(decision.report.trials.len(), live, "every live trial is explained");
    for entry in &decision.plan.entries {
        let line = decision.report.trials.iter().find(|line| line.trial == entry.trial).expect("it is explained");
        assert_eq!(line.width, entry.width());
        assert!(!line.text.is_empty());
    }
}

/// Promises that hold for every policy within a study.
macro_rules! policy_suite {
    ($($name:ident: $policy:expr),* $(,)?) => {$(
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(1000))]

                #[test]
                fn plans_are_sound_and_explained(seed: u64) {
                    let mut world = World::new(seed, $policy);
                    for _ in 0..4 {
                        let decision = decide(&world.snapshot, &world.memory, Seed(seed));
                        assert_sound(&decision, &world.snapshot);
                        world.apply(&decision);
                        world.change();
                    }
                }

                #[test]
                fn the_same_snapshot_in_any_order_gives_the_same_bytes(seed: u64) {
                    let mut world = World::aged(seed, $policy, 2);
                    let first = decide(&world.snapshot, &world.memory, Seed(seed));
                    let again = decide(&world.snapshot, &world.memory, Seed(seed));
                    prop_assert_eq!(bytes(&first), bytes(&again));
                    world.shuffle();
                    let shuffled = decide(&world.snapshot, &world.memory, Seed(seed));
                    prop_assert_eq!(bytes(&first), bytes(&shuffled));
                }

                #[test]
                fn an_unchanged_world_comes_to_rest(seed: u64) {
                    let mut world = World::aged(seed, $policy, 2);
                    // What a plan sets free (devices that a trial moved away from) is used by the next.
                    for _ in 0..8 {
                        let decision = decide(&world.snapshot, &world.memory, Seed(seed));
                        world.apply(&decision);
                    }
                    let decision = decide(&world.snapshot, &world.memory, Seed(seed));
                    prop_assert_eq!(&decision.plan.entries, &world.snapshot.current.entries);
                    prop_assert_eq!(&decision.plan.open, &world.snapshot.current.open);
                    prop_assert_eq!(&decision.memory, &world.memory);
                }
            }

            #[test]
            fn two_hundred_rounds_of_churn_resize_seldom() {
                let (mut changes, mut resizes) = (0, 0);
                for seed in 0..8 {
                    let mut world = World::new(seed, $policy);
                    for _ in 0..200 {
                        let decision = decide(&world.snapshot, &world.memory, Seed(seed));
                        assert_sound(&decision, &world.snapshot);
                        resizes += world.apply(&decision);
                        changes += world.change();
                    }
                }
                // An arrival, an end or a lost node may move a trial or two, never the whole cluster.
                assert!(resizes <= 2 * changes, "{resizes} resizes for {changes} changes");
            }
        }
    )*};
}

policy_suite! {
    fifo: PolicyName::Fifo,
    fluid: PolicyName::Fluid,
    max_min: PolicyName::MaxMin,
    srtf: PolicyName::Srtf,
    tiresias: PolicyName::Tiresias,
    optimus: PolicyName::Optimus,
    afs: PolicyName::Afs,
    afs_p: PolicyName::AfsP,
    jsa: PolicyName::Jsa,
    pollux: PolicyName::Pollux,
}
