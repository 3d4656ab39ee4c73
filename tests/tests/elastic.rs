//! Trials across nodes, joiners that dawdle, and results that do not know of any of it.

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
async fn a_trial_grows_across_two_nodes_and_measures_what_it_would_on_one() {
    let document = studies::plain("across", "sobol", 1, 120, 4);
    let mut across = World::new(1024).await;
    across.join(Node::new("one", 2)).await;
    across.join(Node { address: "127.0.0.2".into(), ..Node::new("two", 2) }).await;
    let study = across.create(&document).await;
    until("it is on all four slots", seconds(120), async || {
        across.trials(study.id).await.iter().any(|t| t.width == Width::Devices(4)).then_some(())
    })
    .await;
    let nodes: std::collections::BTreeSet<_> =
        across.client().cluster().await.expect("the cluster is shown").occupants.into_iter().map(|o| o.node).collect();
    assert_eq!(nodes.len(), 2);
    across.completed(study.id, 300).await;
    let got = across.client().export_text(study.id, "json").await.expect("it is exported");
    drop(across);

    let calm = World::with_node(1024, 1).await;
    let study = calm.create(&document).await;
    calm.completed(study.id, 300).await;
    let expected = calm.client().export_text(study.id, "json").await.expect("it is exported");
    assert_eq!(got, expected, "width showed in the results");
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
}
