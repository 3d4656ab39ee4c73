//! Kill any process at any time: the study's table is the same to the byte.

use std::time::{Duration, Instant};

use e2e::process::kill;
use e2e::{World, seconds, studies, until};
use elastune_core::model::ids::StudyId;
use rustix::process::Signal;

/// Nine heartbeats: three times what makes a silent node lost, were it the node that is silent.
const SERVICE_DOWN: Duration = Duration::from_secs(45);

fn document() -> String {
    studies::plain("killed", "sobol", 4, 300, 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_the_same_after_every_process_was_killed_once() {
    let mut world = World::with_node(2048, 2).await;
    let study = world.create(&document()).await.id;
    until_measured(&world, study, 10).await;
    let began = attempts(&world, study).await;

    world.service.kill();
    let down = Instant::now();
    // The calm run, beside the one that nobody manages.
    let ((), expected) = tokio::join!(tokio::time::sleep(SERVICE_DOWN), undisturbed());
    world.service.resume().await;
    println!("the service was down for {:?}", down.elapsed());
    assert!(down.elapsed() >= SERVICE_DOWN);
    until_measured(&world, study, 40).await;
    assert_eq!(attempts(&world, study).await, began, "an attempt was made because the service was away");

    world.agents[0].kill();
    tokio::time::sleep(seconds(2)).await;
    world.agents[0].resume();
    until_more(&world, study, 20).await;

    let victim = until("a worker runs", seconds(60), async || world.agents[0].workers().first().copied()).await;
    kill(victim, Signal::KILL);
    until_more(&world, study, 20).await;

    world.postgres.kill();
    tokio::time::sleep(seconds(2)).await;
    world.postgres.resume().await;

    world.completed(study, 600).await;
    assert_eq!(exported(&world, study).await, expected);
}

async fn undisturbed() -> String {
    let world = World::with_node(2048, 2).await;
    let study = world.create(&document()).await;
    world.completed(study.id, 600).await;
    exported(&world, study.id).await
}

async fn exported(world: &World, study: StudyId) -> String {
    world.client().export_text(study, "json").await.expect("it is exported")
}

/// Attempts that ended.
async fn attempts(world: &World, study: StudyId) -> u32 {
    world.trials(study).await.iter().map(|t| t.attempt - 1).sum()
}

async fn measured(world: &World, study: StudyId) -> Option<usize> {
    let mut count = 0;
    for trial in world.client().all_trials(study).await.ok()? {
        count += world.client().measurements(trial.id).await.ok()?.len();
    }
    Some(count)
}

async fn until_measured(world: &World, study: StudyId, count: usize) {
    until("it trains", seconds(120), async || (measured(world, study).await? >= count).then_some(())).await;
}

async fn until_more(world: &World, study: StudyId, count: usize) {
    let before = until("the service answers", seconds(60), async || measured(world, study).await).await;
    until_measured(world, study, before + count).await;
}
