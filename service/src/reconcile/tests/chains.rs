//! Commit rules: of two with one parent one wins; work cut off at any moment leaves nothing half done.

use std::time::Duration;

use elastune_core::model::event::Event;
use elastune_core::model::ids::StudyId;
use elastune_core::model::trial::TrialState;
use serde_json::json;
use sqlx::Connection;

use super::agent::Agent;
use super::{World, document};
use crate::db::{Error, cluster, events, plans};
use crate::reconcile::change::Change;
use crate::reconcile::decide::{self, Outcome};
use crate::reconcile::{driver, propose};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_decisions_at_once_one_becomes_the_plan() {
    let world = World::new().await;
    world.node(2).await;
    world.study(&document(5, json!({}))).await;
    let (mut one, mut other) = (world.conn().await, world.conn().await);
    let (a, b) = tokio::join!(decide::run(&mut one), decide::run(&mut other));
    let planned = [&a, &b].into_iter().filter(|outcome| matches!(outcome, Ok(Outcome::Planned { number: 1, .. }))).count();
    let lost = [&a, &b].into_iter().filter(|outcome| matches!(outcome, Err(Error::Conflict { code: "stale_plan", .. }))).count();
    let same = [&a, &b].into_iter().filter(|outcome| matches!(outcome, Ok(Outcome::Same { .. }))).count();
    assert_eq!((planned, lost + same), (1, 1), "{a:?} {b:?}");
    let mut conn = world.conn().await;
    assert_eq!(cluster::get(&mut conn).await.expect("the cluster").plan, 1);
    assert_eq!(plans::current(&mut conn).await.expect("a plan").open.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_slots_are_filled_once_however_many_replicas_look() {
    let world = World::new().await;
    world.node(3).await;
    let study = world.study(&document(50, json!({}))).await;
    decide::run(&mut *world.conn().await).await.expect("a plan");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let pool = world.database.pool.clone();
        tasks.spawn(async move {
            let mut conn = pool.acquire().await.expect("a connection");
            propose::fill(&mut conn, study).await.expect("a look")
        });
    }
    let drawn: u32 = tasks.join_all().await.into_iter().sum();
    assert_eq!((drawn, world.trials(study).await.len()), (3, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_numbered_in_the_order_of_their_commits() {
    let world = World::new().await;
    let study = world.study(&document(1, json!({}))).await;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..6u32 {
        let pool = world.database.pool.clone();
        tasks.spawn(async move {
            let mut conn = pool.acquire().await.expect("a connection");
            for round in 0..20 {
                let mut tx = conn.begin().await.expect("a transaction");
                let mut change = Change::begin(&mut tx, study).await.expect("the lock");
                for part in 0..3 {
                    change.note(None, format!("{writer} {round} {part}"));
                }
                change.finish(&mut tx).await.expect("events");
                if round % 5 == 4 {
                    tx.rollback().await.expect("given up");
                } else {
                    tx.commit().await.expect("kept");
                }
            }
        });
    }
    // A reader that goes by its cursor alone sees every event once.
    let mut cursor = 0;
    let mut conn = world.database.another_pool().await.acquire().await.expect("a connection");
    let mut seen = 0;
    while seen < 1 + 6 * 16 * 3 {
        let page = events::after(&mut conn, study, cursor, 7).await.expect("events");
        for event in page {
            assert_eq!(event.seq, cursor + 1);
            cursor = event.seq;
            seen += 1;
        }
        tokio::task::yield_now().await;
    }
    tasks.join_all().await;
    let all = world.events(study).await;
    let texts: Vec<&str> =
        all.iter().filter_map(|event| if let Event::Noted { text, .. } = event { Some(text.as_str()) } else { None }).collect();
    assert_eq!(texts.len(), 6 * 16 * 3);
    assert!(texts.chunks(3).all(|three| three[0].rsplit_once(' ').map(|t| t.0) == three[2].rsplit_once(' ').map(|t| t.0)));
}

/// Number, parameters and measurements: what an undisturbed run and one that was cut off again and again must agree on.
async fn table(world: &World, study: StudyId) -> String {
    let mut text = String::new();
    for trial in world.trials(study).await {
        let measured = crate::db::measurements::list_page(&mut *world.conn().await, trial.id, 0.0, 100).await.expect("measurements");
        let measured: Vec<_> = measured.iter().map(|m| (m.step, format!("{:?}", m.metrics))).collect();
        text += &format!("{} {:?} {:?} {measured:?}\n", trial.number, trial.parameters, trial.state);
    }
    text
}

#[tokio::test]
async fn work_cut_off_at_any_moment_is_done_once_in_the_end() {
    let calm = World::new().await;
    let mut agent = calm.node(2).await;
    let expected = calm.study(&document(6, json!({}))).await;
    calm.run(expected, &mut agent).await;

    let world = World::new().await;
    let mut agent = world.node(2).await;
    let study = world.study(&document(6, json!({}))).await;
    let mut cut = 0;
    for round in 0..2000u64 {
        // Dropped after a time that differs each round: the connection closes, the transaction is gone. It grows, so that a slow
        // machine gets there too.
        let patience = Duration::from_micros((200 + (round * 7919) % 9000) * (1 + round / 100));
        cut += usize::from(tokio::time::timeout(patience, one_round(&world, study)).await.is_err());
        if round % 2 == 0 {
            agent.step(&mut *world.conn().await).await;
        }
        if world.state(study).await.is_final() {
            break;
        }
    }
    assert!(cut > 0, "nothing was ever cut off");
    assert!(world.trials(study).await.iter().all(|trial| trial.state == TrialState::Completed && trial.attempt == 1));
    assert_eq!(table(&world, study).await, table(&calm, expected).await);
    world.events(study).await;
}

async fn one_round(world: &World, study: StudyId) {
    let mut conn = world.conn().await;
    driver::one_study(&mut conn, study).await.expect("a look");
    decide::run(&mut conn).await.expect("a decision");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_run_a_study_as_one_does() {
    let calm = World::new().await;
    let mut agent = calm.node(2).await;
    let expected = calm.study(&document(8, json!({}))).await;
    calm.run(expected, &mut agent).await;

    let world = World::new().await;
    let mut agent: Agent = world.node(2).await;
    let study = world.study(&document(8, json!({}))).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let pool = world.database.another_pool().await;
        let wakes = crate::db::notify::Wakes::listen(pool.clone(), stop.clone());
        replicas.push(driver::spawn(pool, &wakes, stop.clone()));
    }
    let ended = tokio::time::timeout(Duration::from_secs(60), async {
        while !world.state(study).await.is_final() {
            agent.step(&mut *world.conn().await).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    ended.await.expect("the study ends");
    stop.cancel();
    for replica in replicas {
        replica.join_all().await;
    }
    assert_eq!(table(&world, study).await, table(&calm, expected).await);
}
