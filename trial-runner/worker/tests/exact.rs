//! A trial's result does not depend on the widths that it happened to have: equal bits of the whole state, equal metrics.

mod support;

use support::Trial;
use support::world::World;

const CNN_SGD: &str =
    r#"{"lr": 0.05, "momentum": 0.9, "channels": 4, "hidden": 16, "dropout": 0.2, "batch_norm": true, "weight_decay": 0.0005}"#;
const MLP_ADAM: &str = r#"{"optimizer": "adam", "lr": 0.002, "hidden": 32, "layers": 2, "dropout": 0.3, "batch_norm": true}"#;
const CNN_ADAM: &str = r#"{"optimizer": "adam", "lr": 0.002, "channels": 4, "hidden": 16}"#;

/// Goes through the widths, one as soon as the one before is reached, and on to a milestone; then compares.
fn check(trial: &Trial, histories: &[&[u16]]) {
    for widths in histories {
        let mut world = World::new(trial.clone());
        for width in *widths {
            world.run(0..*width, 1e6);
            world.until("the width", |world| world.width() == usize::from(*width));
        }
        world.conclude(0..*widths.last().expect("some"));
        let reached: Vec<u32> = world.stable().iter().map(|(width, _)| width.ranks()).collect();
        assert_eq!(reached, widths.iter().map(|width| u32::from(*width)).collect::<Vec<_>>());
        world.equals_a_calm_run();
    }
}

#[test]
fn four_shards_momentum_dropout_batch_norm() {
    check(&Trial::new("fashion-mnist-cnn", 4, CNN_SGD), &[&[2], &[4], &[1, 4, 2, 1], &[3, 1]]);
}

#[test]
fn four_shards_adam() {
    check(&Trial::new("fashion-mnist-cnn", 4, CNN_ADAM), &[&[2], &[4], &[1, 4, 2, 1]]);
}

#[test]
fn eight_shards_adam_dropout_batch_norm() {
    check(&Trial::new("fashion-mnist-mlp", 8, MLP_ADAM), &[&[3], &[8], &[8, 3, 5]]);
}
