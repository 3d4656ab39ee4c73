//! A trial over two nodes: one dies with everything on it, the other is cut off from the service. The weights stay those of a
//! calm run.

use std::time::Instant;

use e2e::agent::Node;
use e2e::world::Outcome;
use e2e::{Proxy, World, seconds, studies};
use elastune_api::study::StudyPatch;

const EPOCHS: u32 = 400;
/// Six heartbeats: twice what makes a silent node lost.
const CUT_OFF_S: u64 = 60;

fn widths(min: u16, max: u16) -> StudyPatch {
    StudyPatch { min_width: Some(min), max_width: Some(max), ..StudyPatch::default() }
}

async fn calm() -> Outcome {
    let world = World::with_node(2048, 1).await;
    let study = world.create(&studies::plain("calm", "sobol", 1, EPOCHS, 1)).await.id;
    world.completed(study, 600).await;
    world.result(study).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_and_one_cut_off_leave_no_trace_in_the_weights() {
    let mut world = World::new(2048).await;
    let wire = Proxy::start(world.service.address()).await;
    world.join(Node { server: Some(wire.server()), ..Node::new("cut-off", 2) }).await;
    world.join(Node { address: "127.0.0.2".into(), ..Node::new("dead", 2) }).await;
    let study = world.create(&studies::plain("two-nodes", "sobol", 1, EPOCHS, 1)).await.id;
    world.width_becomes(e2e::until("a trial", seconds(60), async || Some(world.trials(study).await.first()?.id)).await, 1).await;
    let trial = world.trials(study).await.remove(0).id;
    world.trained(trial, 2).await;

    // Two cores gain nothing by four ranks, and the policy knows; the user insists.
    world.client().change_study(study, &widths(4, 4)).await.expect("limits may change");
    world.width_becomes(trial, 4).await;
    assert_eq!(world.agents.iter().map(|agent| agent.workers().len()).collect::<Vec<_>>(), [2, 2]);
    world.trained(trial, 5).await;

    let killed = Instant::now();
    world.agents[1].kill();
    world.agents[1].kill_workers();
    world.width_becomes(trial, 2).await;
    println!("survivors went on {:?} after their peers' node had died", killed.elapsed());
    world.client().change_study(study, &widths(2, 2)).await.expect("limits may change");
    world.trained(trial, 5).await;

    let known = world.client().measurements(trial).await.expect("measurements are listed");
    wire.hold();
    let cut = Instant::now();
    let disturbed = async {
        tokio::time::sleep(seconds(CUT_OFF_S)).await;
        let meanwhile = world.measured(trial).await.len();
        assert!(meanwhile <= known.len() + 3, "the wire was cut, yet {} more measurements came", meanwhile - known.len());
        wire.release();
        world.completed(study, 300).await;
        println!("completed {:?} after the wire was cut", cut.elapsed());
    };
    let (expected, ()) = tokio::join!(calm(), disturbed);

    let measured = world.client().measurements(trial).await.expect("measurements are listed");
    let last_known = known.last().expect("it had measured").elapsed_s;
    let trained_alone = measured[known.len()..].iter().filter(|later| later.elapsed_s < last_known + CUT_OFF_S as f64 - 5.0).count();
    println!("{trained_alone} epochs were trained while the node was cut off");
    assert!(trained_alone > 10, "training stopped with the wire");
    let trial = world.client().trial(trial).await.expect("the trial is there");
    assert_eq!((trial.attempt, trial.failures), (1, 0), "nothing was started over");
    assert_eq!(world.result(study).await, expected);
}
