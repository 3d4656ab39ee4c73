//! Whatever happens to a trial's processes, what it committed stays, and the result is that of a calm run.

mod support;

use std::time::{Duration, Instant};

use elastune_api::agent::Exit;
use elastune_core::elastic::{AttemptEnd, Effect, Want};
use elastune_core::model::event::MetricValue;
use rustix::process::Signal;
use support::Trial;
use support::world::World;

const SMALL: &str = r#"{"lr": 0.05, "channels": 4, "hidden": 16, "dropout": 0.2, "batch_norm": true}"#;

fn small() -> Trial {
    Trial::new("fashion-mnist-cnn", 4, SMALL)
}

fn started(width: u16) -> World {
    let mut world = World::new(small());
    world.run(0..width, 1e6);
    world.until("the first commit", |world| world.width() == usize::from(width));
    world
}

fn ends(world: &World) -> Vec<&AttemptEnd> {
    let mut ends = Vec::new();
    for effect in &world.effects {
        if let Effect::Ended { end } = effect {
            ends.push(end);
        }
    }
    ends
}

#[test]
fn a_killed_rank_is_replaced_and_the_step_redone() {
    for victim in [0, 1, 2] {
        let mut world = started(3);
        world.until("an epoch", |world| !world.measured.is_empty());
        let generation = world.generation();
        let killed = Instant::now();
        world.signal(world.members()[victim], Signal::KILL);
        world.until("survivors that go on", |world| world.generation() > generation);
        println!("rank {victim} killed, survivors committed after {:?}", killed.elapsed());
        world.until("full width again", |world| world.width() == 3 && world.generation() > generation + 1);
        world.conclude(0..3);
        assert_eq!(ends(&world), [&AttemptEnd::Asked]);
        world.trained_exactly_once();
        world.equals_a_calm_run();
    }
}

#[test]
fn old_ranks_train_on_while_a_joiner_is_late() {
    let mut world = started(1);
    world.ready_delay_ms = 4000;
    world.run(0..2, 1e6);
    let (before, start) = (world.measured.len(), Instant::now());
    world.until("the joiner", |world| world.width() == 2);
    assert!(start.elapsed() >= Duration::from_millis(4000));
    assert!(world.measured.len() > before + 1, "nothing was trained meanwhile");
    world.conclude(0..2);
    world.trained_exactly_once();
    world.equals_a_calm_run();
}

#[test]
fn a_joiner_that_dies_costs_the_others_nothing() {
    let mut world = started(2);
    world.ready_delay_ms = 60_000;
    world.run(0..3, 1e6);
    world.until("a third process", |world| world.alive() == 3);
    let members = world.members();
    let joiner = world.group.as_ref().and_then(|group| group.next.as_ref()).expect("an order").members[2].incarnation;
    world.ready_delay_ms = 0;
    world.signal(joiner, Signal::KILL);
    world.until("another joiner", |world| world.width() == 3);
    assert!(world.broken.is_empty() && world.members()[..2] == members[..]);
    world.conclude(0..3);
    world.equals_a_calm_run();
}

#[test]
fn a_trial_moves_to_other_devices_without_a_restart() {
    for (from, to) in [(0..1, 4..5), (0..2, 4..6)] {
        let mut world = World::new(small());
        world.run(from, 1e6);
        world.until("an epoch", |world| !world.measured.is_empty());
        let old = world.members();
        world.run(to.clone(), 1e6);
        world.until("the move", |world| !world.members().is_empty() && world.members().iter().all(|new| !old.contains(new)));
        world.until("the old ranks' exits", |world| old.iter().all(|old| world.exits.contains_key(old)));
        assert!(old.iter().all(|old| world.exits[old] == Exit::Clean), "{:?}", world.exits);
        world.conclude(to);
        world.trained_exactly_once();
        world.equals_a_calm_run();
    }
}

#[test]
fn an_agent_that_restarts_loses_nothing() {
    let mut world = started(2);
    world.hang_up();
    let gone = Instant::now();
    world.until("the agent's absence", |_| gone.elapsed() >= Duration::from_secs(2));
    let before = world.measured.len();
    world.listen();
    world.until("what happened meanwhile", |world| world.measured.len() > before);
    world.conclude(0..2);
    // Reports come in order and without a gap: `World` checks the numbers.
    assert_eq!(world.measured.len(), *world.measured.keys().last().expect("some") as usize);
    world.equals_a_calm_run();
}

#[test]
fn a_saved_trial_resumes_where_it_was_even_within_an_epoch() {
    let mut first = started(2);
    first.until("an epoch", |world| world.measured.len() > 1);
    first.save();
    let (step, (_, path)) = first.saved.last_key_value().expect("it saved");
    let mut second = World::new(Trial { checkpoint: Some(path.clone()), ..small() });
    second.run(0..3, 1e6);
    second.until("the first commit", |world| world.width() == 3);
    assert!(second.committed.iter().all(|(_, committed)| committed > step));
    second.until("an epoch", |world| !world.measured.is_empty());
    second.run(0..3, *second.measured.keys().last().expect("some") as f64 + 2.0);
    second.until("the milestone", |world| !world.milestones.is_empty());
    second.save();
    second.equals_a_calm_run();
}

#[test]
fn milestones_hold_and_go_on() {
    let mut world = World::new(small());
    world.run(0..2, 2.0);
    world.until("the milestone", |world| world.milestones == [2.0]);
    // Held: it grows there too, and trains no further.
    world.run(0..3, 2.0);
    world.until("a wider group", |world| world.width() == 3);
    assert_eq!(world.measured.len(), 2);
    world.run(0..3, 3.0);
    world.until("the next milestone", |world| world.milestones.contains(&3.0));
    world.want = Want::Stop;
    world.until("the end", World::ended);
    assert_eq!(ends(&world), [&AttemptEnd::Asked]);
    assert!(world.exits.values().all(|exit| *exit == Exit::Clean));
    world.equals_a_calm_run();
}

#[test]
fn sigterm_saves_and_exits() {
    let mut world = started(1);
    world.until("an epoch", |world| !world.measured.is_empty());
    world.signal(world.members()[0], Signal::TERM);
    world.until("the end", World::ended);
    assert!(world.exits.values().all(|exit| *exit == Exit::Clean));
    let (step, (sha256, path)) = world.saved.last_key_value().expect("it saved");
    assert!(*step > 0);
    assert_eq!(*sha256, hex::encode(<sha2::Sha256 as sha2::Digest>::digest(std::fs::read(path).expect("the file"))));
}

#[test]
fn a_loss_that_is_not_finite_is_reported_and_training_goes_on() {
    let mut world = World::new(Trial::new("fashion-mnist-mlp", 4, r#"{"lr": 10.0, "weight_decay": 1.0, "hidden": 8}"#));
    world.run(0..2, 8.0);
    world.until("the milestone", |world| !world.milestones.is_empty());
    world.save();
    let last = &world.measured[&8];
    assert!(last.values().any(|value| matches!(value, MetricValue::NotFinite(_))), "{last:?}");
    world.equals_a_calm_run();
}

#[test]
fn what_cannot_work_says_so() {
    let unusable = |trial: Trial, part: &str| {
        let mut world = World::new(trial);
        world.run(0..1, 1.0);
        world.until("the end", World::ended);
        let [AttemptEnd::Unusable { message }] = ends(&world)[..] else { panic!("{:?}", world.effects) };
        assert!(message.contains(part), "{message}");
    };
    unusable(Trial::new("fashion-mnist-cnn", 4, r#"{"depth": 3}"#), "depth: the workload has no such parameter");
    unusable(Trial::new("fashion-mnist-cnn", 4, r#"{"dropout": 1.5}"#), "dropout: must be a number from 0 to 0.95");
    unusable(Trial::new("fashion-mnist-cnn", 65, SMALL), "shards must be from 1 to 64");
    let mut saved = started(1);
    saved.save();
    let (_, (_, path)) = saved.saved.last_key_value().expect("it saved");
    let resumed = |parameters: &str| Trial { checkpoint: Some(path.clone()), ..Trial::new("fashion-mnist-cnn", 4, parameters) };
    unusable(resumed(r#"{"lr": 0.01}"#), "is of another workload, other parameters");
    std::fs::write(saved.folder.path().join("damaged.safetensors"), b"{}").expect("a file");
    let damaged = Trial { checkpoint: Some(saved.folder.path().join("damaged.safetensors")), ..small() };
    unusable(damaged, "is not a safetensors file");
}

#[test]
fn missing_data_is_named() {
    let mut world = World::new(small());
    let file = world.folder.path().join("fashion-mnist/t10k-labels-idx1-ubyte.gz");
    std::fs::remove_file(&file).expect("it was there");
    world.run(0..1, 1.0);
    world.until("the end", World::ended);
    let [AttemptEnd::Lost { message }] = ends(&world)[..] else { panic!("{:?}", world.effects) };
    assert!(message.contains(&file.display().to_string()) && !message.contains('\n'), "{message}");
}
