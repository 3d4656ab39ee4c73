//! Silence: of nodes, of outside workers, of the service itself.

use elastune_core::model::cluster::NodeState;
use elastune_core::model::trial::{Reason, TrialState};
use serde_json::json;

use super::{World, document};
use crate::db::nodes;
use crate::reconcile::{outside, watch};

/// Moves what the service remembers of time `ms` into the past; `watching` says whether a service was there meanwhile.
async fn pass(world: &World, ms: i64, watching: bool) {
    let mut conn = world.conn().await;
    for statement in [
        "update nodes set last_seen_ms = last_seen_ms - $1",
        "update trials set lease_expires_ms = lease_expires_ms - $1",
        "update cluster set watching_since_ms = watching_since_ms - $1",
        "update groups set wake_at_ms = wake_at_ms - $1",
    ] {
        sqlx::query(statement).bind(ms).execute(&mut *conn).await.expect("time passes");
    }
    if !watching {
        sqlx::query("update cluster set watched_ms = watched_ms - $1").bind(ms).execute(&mut *conn).await.expect("nobody looked");
    }
}

#[tokio::test]
async fn a_silent_node_is_lost_and_its_trial_goes_on_elsewhere() {
    let world = World::new().await;
    let mut gone = world.node(1).await;
    let study = world.study(&document(1, json!({}))).await;
    watch::look(&mut *world.conn().await).await.expect("a look");
    for _ in 0..5 {
        world.reconcile(study).await;
        gone.step(&mut *world.conn().await).await;
    }
    assert_eq!(world.count(study, TrialState::Running).await, 1);
    let mut other = world.node(1).await;

    pass(&world, 29_000, true).await;
    nodes::mark_seen(&mut *world.conn().await, other.node, crate::db::now(&mut *world.conn().await).await.expect("now"))
        .await
        .expect("seen");
    watch::look(&mut *world.conn().await).await.expect("a look");
    assert_eq!(world.count(study, TrialState::Running).await, 1, "two heartbeats missed are no loss");

    pass(&world, 2_000, true).await;
    nodes::mark_seen(&mut *world.conn().await, other.node, crate::db::now(&mut *world.conn().await).await.expect("now"))
        .await
        .expect("seen");
    watch::look(&mut *world.conn().await).await.expect("a look");
    let node = nodes::get(&mut *world.conn().await, gone.node).await.expect("the node");
    assert_eq!(node.state, NodeState::Lost);
    assert_eq!(world.trials(study).await[0].attempt, 1, "it may come back as long as it has no other place");
    world.reconcile(study).await;
    watch::look(&mut *world.conn().await).await.expect("a look");
    let trial = &world.trials(study).await[0];
    assert_eq!((trial.state, trial.reason, trial.attempt, trial.failures), (TrialState::Waiting, Some(Reason::WorkerLost), 2, 0));

    world.run(study, &mut other).await;
    let trial = &world.trials(study).await[0];
    assert_eq!((trial.state, trial.attempt), (TrialState::Completed, 2));
    // The old process speaks again: too late.
    let incarnation = *gone.alive.keys().next().expect("it still runs there");
    let mut batch = Vec::new();
    gone.report(incarnation, elastune_api::agent::ReportBody::Progress { done: 1.0, step: 1, rates: Vec::new() }, &mut batch);
    assert_eq!(gone.send(&mut *world.conn().await, batch).await.dropped.len(), 1);
    assert!(gone.desired(&mut *world.conn().await).await.workers.is_empty());
}

#[tokio::test]
async fn a_silent_node_that_comes_back_finds_its_trial_where_it_was() {
    let world = World::new().await;
    let mut node = world.node(1).await;
    let study = world.study(&document(1, json!({}))).await;
    watch::look(&mut *world.conn().await).await.expect("a look");
    for _ in 0..4 {
        world.reconcile(study).await;
        node.step(&mut *world.conn().await).await;
    }
    pass(&world, 31_000, true).await;
    for _ in 0..3 {
        watch::look(&mut *world.conn().await).await.expect("a look");
        world.reconcile(study).await;
    }
    assert_eq!(nodes::get(&mut *world.conn().await, node.node).await.expect("the node").state, NodeState::Lost);
    assert_eq!(world.count(study, TrialState::Running).await, 1, "there is no other place for it");
    let now = crate::db::now(&mut *world.conn().await).await.expect("now");
    nodes::mark_seen(&mut *world.conn().await, node.node, now).await.expect("seen");
    world.run(study, &mut node).await;
    let trial = &world.trials(study).await[0];
    assert_eq!((trial.state, trial.attempt, trial.failures), (TrialState::Completed, 1, 0));
}

#[tokio::test]
async fn silence_counts_only_while_a_service_was_watching() {
    let world = World::new().await;
    let mut agent = world.node(1).await;
    let study = world.study(&document(1, json!({}))).await;
    watch::look(&mut *world.conn().await).await.expect("a look");
    for _ in 0..5 {
        world.reconcile(study).await;
        agent.step(&mut *world.conn().await).await;
    }
    // The service was down for ten minutes, and the node's heartbeats found nobody.
    pass(&world, 600_000, false).await;
    watch::look(&mut *world.conn().await).await.expect("a look");
    assert_eq!(nodes::get(&mut *world.conn().await, agent.node).await.expect("the node").state, NodeState::Ready);
    world.run(study, &mut agent).await;
    assert_eq!(world.trials(study).await[0].attempt, 1);
}

#[tokio::test]
async fn a_silent_outside_workers_trial_goes_to_another_one() {
    let world = World::new().await;
    let study = world.study(&document(1, json!({"workload": null}))).await;
    let mut conn = world.conn().await;
    watch::look(&mut conn).await.expect("a look");
    let mut lease = None;
    for attempt in 1..=4 {
        let suggested = outside::suggest(&mut conn, study, "w", 1).await.expect("a trial").trials;
        assert_eq!(suggested.len(), 1, "attempt {attempt}");
        assert!(outside::suggest(&mut conn, study, "w2", 1).await.expect("an answer").trials.is_empty());
        let old = lease.replace(suggested[0].lease);
        if let Some(old) = old {
            let error = outside::heartbeat(&mut conn, suggested[0].id, old).await.expect_err("a lease that ran out");
            assert!(matches!(error, crate::db::Error::Conflict { code: "stale_lease", .. }));
        }
        outside::heartbeat(&mut conn, suggested[0].id, suggested[0].lease).await.expect("it is held");
        pass(&world, 31_000, true).await;
        watch::look(&mut conn).await.expect("a look");
        let trial = &world.trials(study).await[0];
        let expected = if attempt < 4 { TrialState::Waiting } else { TrialState::Failed };
        assert_eq!((trial.state, trial.failures), (expected, attempt));
    }
    assert_eq!(world.trials(study).await[0].reason, Some(Reason::WorkerLost));
}

#[tokio::test]
async fn a_removed_node_may_not_come_back() {
    let world = World::new().await;
    let mut agent = world.node(1).await;
    let study = world.study(&document(1, json!({}))).await;
    for _ in 0..5 {
        world.reconcile(study).await;
        agent.step(&mut *world.conn().await).await;
    }
    let mut conn = world.conn().await;
    nodes::mark_state(&mut conn, agent.node, &[NodeState::Ready], NodeState::Removed).await.expect("it is removed");
    watch::look(&mut conn).await.expect("a look");
    let now = crate::db::now(&mut conn).await.expect("the time");
    assert!(nodes::mark_seen(&mut conn, agent.node, now).await.is_err());
    let trial = &world.trials(study).await[0];
    assert_eq!((trial.state, trial.attempt), (TrialState::Waiting, 2));
}
