//! A node looks after its own ranks: who dies or hangs is found and the group goes on, whether or not the service is there.

use std::time::Instant;

use e2e::agent::Node;
use e2e::process::kill;
use e2e::{World, seconds, studies, until};
use elastune_core::model::ids::TrialId;
use rustix::process::Signal;

const EPOCHS: u32 = 250;

fn document(name: &str, min_width: u16) -> String {
    studies::plain(name, "sobol", 1, EPOCHS, 2).replace("min_width: 1", &format!("min_width: {min_width}"))
}

/// The last step that any rank on the node has committed, by the ledgers that they leave there, and its generation.
fn committed(world: &World, trial: TrialId) -> (u64, u64) {
    let folder = world.path().join("one/trials").join(trial.to_string());
    let mut last = (0, 0);
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "csv") {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // The last line may be half written.
            for line in text.lines().rev().skip(1).take(1) {
                let mut numbers = line.split(',').map_while(|field| field.parse().ok());
                last = last.max((numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)));
            }
        }
    }
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_forms_its_group_anew_without_the_service_and_finds_a_stopped_rank() {
    let disturbed = async {
        let mut world = World::new(2048).await;
        world.join(Node { arguments: ["--silence-s", "4"].map(String::from).into(), ..Node::new("one", 2) }).await;
        let study = world.create(&document("liveness", 2)).await.id;
        let trial = until("a trial", seconds(60), async || Some(world.trials(study).await.first()?.id)).await;
        world.width_becomes(trial, 2).await;
        world.trained(trial, 2).await;

        world.service.kill();
        let killed = Instant::now();
        kill(world.agents[0].workers()[1], Signal::KILL);
        let (_, generation) = committed(&world, trial);
        until("the survivor goes on alone", seconds(60), async || (committed(&world, trial).1 > generation).then_some(())).await;
        println!("with the service down, the survivor went on after {:?}", killed.elapsed());
        let (step, _) = committed(&world, trial);
        until("it trains", seconds(60), async || (committed(&world, trial).0 > step + 100).then_some(())).await;
        world.service.resume().await;
        world.width_becomes(trial, 1).await;
        world.width_becomes(trial, 2).await;

        let stopped = world.agents[0].workers()[0];
        let at = Instant::now();
        kill(stopped, Signal::STOP);
        until("the stopped rank is found", seconds(60), async || (!world.agents[0].workers().contains(&stopped)).then_some(())).await;
        println!("the stopped rank was found and killed after {:?}", at.elapsed());
        world.trained(trial, 2).await;
        world.completed(study, 300).await;
        let trial = world.client().trial(trial).await.expect("the trial is there");
        assert_eq!((trial.attempt, trial.failures), (1, 0), "nothing was started over");
        world.result(study).await
    };
    let calm = async {
        let world = World::with_node(2048, 1).await;
        let study = world.create(&document("calm", 1)).await.id;
        world.completed(study, 300).await;
        world.result(study).await
    };
    let (disturbed, calm) = tokio::join!(disturbed, calm);
    assert_eq!(disturbed, calm);
}
