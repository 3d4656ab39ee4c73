//! Joiners that dawdle: training does not wait for them.

use e2e::agent::Node;
use e2e::{World, program, seconds, studies, until};
use elastune_core::model::width::Width;

/// A worker program that sleeps before its `nth` start on this machine.
fn dawdling(world: &World, nth: u32, sleep_s: u32) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = world.path().join("dawdling-worker");
    let real = program("trial-worker");
    let starts = world.path().join("starts");
    let script = format!(
        "#!/bin/sh\necho >> {0}\n[ $(wc -l < {0}) -ne {nth} ] || sleep {sleep_s}\nexec {1} \"$@\"\n",
        starts.display(),
        real.display()
    );
    std::fs::write(&path, script).expect("it can be written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn training_goes_on_while_a_joiner_dawdles() {
    let mut world = World::new(2048).await;
    let worker = dawdling(&world, 2, 10);
    world.join(Node { worker: Some(worker), ..Node::new("one", 2) }).await;
    let study = world.create(&studies::plain("dawdling", "sobol", 1, 400, 2)).await;
    let starts = world.path().join("starts");
    until("a second worker starts", seconds(60), async || {
        (std::fs::read_to_string(&starts).unwrap_or_default().lines().count() >= 2).then_some(())
    })
    .await;
    let trial = world.trials(study.id).await.remove(0);
    let epochs = async || world.client().measurements(trial.id).await.expect("measurements").len();
    let before = epochs().await;
    // The joiner sleeps 10 s: what is measured in the next 8 is measured while everybody waits for it, or would.
    tokio::time::sleep(seconds(8)).await;
    let (after, now) = (epochs().await, world.client().trial(trial.id).await.expect("the trial is there"));
    assert_eq!(now.width, Width::ONE, "the joiner is not there yet");
    assert!(after >= before + 3, "{before} epochs before, {after} after");
    until("the resize completes", seconds(60), async || {
        (world.client().trial(trial.id).await.ok()?.width == Width::Devices(2)).then_some(())
    })
    .await;
    let study = world.completed(study.id, 300).await;
    assert_eq!(study.counts.completed, 1);
    assert_eq!(world.client().trial(trial.id).await.expect("the trial is there").attempt, 1);
    // The picture of the study is drawn from what the trial's is.
    let picture = world.client().study_widths(study.id).await.expect("widths are listed");
    assert_eq!((picture.trials.len(), picture.trials[0].number, picture.truncated), (1, 0, false));
    assert_eq!(picture.trials[0].points, world.client().widths(trial.id).await.expect("widths are listed"));
}
