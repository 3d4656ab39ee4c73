//! Widths that change and processes that die, at random moments: the result stays that of a calm run.

mod support;

use std::time::{Duration, Instant};

use elastune_core::elastic::{AttemptEnd, Effect};
use elastune_core::rng::Seed;
use rand_core::RngCore;
use rustix::process::Signal;
use support::Trial;
use support::world::World;

const SMALL: &str = r#"{"lr": 0.02, "channels": 3, "hidden": 8, "dropout": 0.1, "batch_norm": true}"#;
const WIDEST: u32 = 4;

fn churn(seed: u64, rounds: usize) {
    let mut rng = Seed(seed).rng();
    let mut pick = move |below: u32| rng.next_u32() % below;
    let mut world = World::new(Trial::new("fashion-mnist-cnn", 4, SMALL));
    let mut width = 2;
    world.run(0..2, 1e6);
    world.until("the first commit", |world| world.width() == 2);
    let mut story = Vec::new();
    for _ in 0..rounds {
        let pause = Duration::from_millis(u64::from(pick(1500)));
        let start = Instant::now();
        world.until("a pause", |_| start.elapsed() >= pause);
        let members = world.members();
        if pick(3) == 0 && members.len() > 1 {
            // Of the group, so one is left; joiners are killed by chance of being members later.
            let victim = pick(members.len() as u32) as usize;
            if world.is_alive(members[victim]) && members.iter().filter(|member| world.is_alive(**member)).count() > 1 {
                world.signal(members[victim], Signal::KILL);
                story.push(format!("kill rank {victim} of {} {pause:?}", members.len()));
            }
        } else {
            width = 1 + pick(WIDEST);
            let first = pick(2) as u16;
            world.run(first..first + width as u16, 1e6);
            story.push(format!("width {width} from device {first} after {pause:?}"));
        }
        let ends: Vec<&Effect> = world.effects.iter().filter(|effect| matches!(effect, Effect::Ended { .. })).collect();
        assert!(ends.is_empty(), "seed {seed}: {ends:?}; {story:#?}; {:#?}; exits {:?}", world.log, world.exits);
    }
    world.run(0..width as u16, 1e6);
    let seen = world.measured.len();
    world.until("calm", |world| world.measured.len() > seen);
    world.conclude(0..width as u16);
    let asked = |effect: &&Effect| matches!(effect, Effect::Ended { end: AttemptEnd::Asked });
    assert_eq!(world.effects.iter().filter(asked).count(), 1, "seed {seed}: {story:#?}");
    world.trained_exactly_once();
    println!("seed {seed}: {} generations, {} epochs; {story:#?}", world.stable().len(), world.measured.len());
    world.equals_a_calm_run();
}

#[test]
fn churn_leaves_no_trace_in_the_result() {
    // ELASTUNE_CHURN="seed rounds" plays another game, for instance a longer one.
    let game = std::env::var("ELASTUNE_CHURN").unwrap_or_else(|_| "1 12".into());
    let mut numbers = game.split(' ').map(|number| number.parse().expect("ELASTUNE_CHURN is two numbers"));
    churn(numbers.next().expect("a seed"), numbers.next().expect("rounds") as usize);
}
