//! The agent's program against a service and scripted workers: what must hold through crashes, absences and hand-overs.

mod fake;

use std::process::Command;
use std::time::Duration;

use elastune_api::agent::{Exit, ReportBody};
use fake::{Agent, JOIN_TOKEN, Service, checkpoint_of, scripted};

fn kind(body: &ReportBody) -> &'static str {
    match body {
        ReportBody::Ready { .. } => "ready",
        ReportBody::Progress { .. } => "progress",
        ReportBody::Measured { .. } => "measured",
        ReportBody::Milestone { .. } => "milestone",
        ReportBody::Checkpointed { .. } => "checkpointed",
        ReportBody::Exited { .. } => "exited",
        _ => "other",
    }
}

fn lost(exits: &[Exit]) -> String {
    match exits {
        [Exit::Lost { message }] => message.clone(),
        other => panic!("one loss was expected, not {other:?}"),
    }
}

#[tokio::test]
async fn a_worker_starts_reports_and_ends() {
    let service = Service::start().await;
    let agent = Agent::start(&service, &["--advertise", "127.9.9.9"]);
    let mut worker = scripted(0, "ready;measure:1;save:weights;milestone:1;log:hello");
    service.desire(1, 1, &[&worker]);
    service.wait("the milestone", |seen| seen.bodies(&worker).iter().any(|body| kind(body) == "milestone")).await;
    {
        let seen = service.seen();
        assert_eq!(seen.registrations[0].devices.len(), 2);
        let bodies = seen.bodies(&worker);
        assert_eq!(bodies.iter().map(kind).collect::<Vec<_>>(), ["ready", "measured", "checkpointed", "milestone"]);
        assert_eq!(bodies[0], ReportBody::Ready { address: "127.9.9.9:4711".parse().expect("an address") }, "as peers reach it");
        assert_eq!(seen.checkpoints[&checkpoint_of("weights").sha256], "weights");
    }
    service.wait("its log", |seen| seen.logs(&worker) == ["hello"]).await;
    service.wait("a heartbeat", |seen| seen.heartbeats.iter().any(|beat| beat.workers == [worker.incarnation])).await;
    assert!(agent.trace(&worker)[0].ends_with("threads=1 omp=Ok(\"1\") token=false"), "{:?}", agent.trace(&worker));

    worker.control.run_until = 2.0;
    service.desire(1, 1, &[&worker]);
    agent.traced(&worker, "control 2").await;

    service.desire(1, 2, &[]);
    service.wait("its exit", |seen| seen.exits(&worker) == [Exit::Clean]).await;

    // Listed again, it is not started again: the service is told once more how it ended.
    service.desire(1, 3, &[&worker]);
    service.wait("its exit again", |seen| seen.exits(&worker).len() == 2).await;
    assert_eq!(agent.starts(&worker), 1);
    assert_eq!(service.seen().exits(&worker), [Exit::Clean, Exit::Clean]);
    let log = agent.log();
    assert!(!log.contains(JOIN_TOKEN) && !log.contains("node-91c2"), "tokens are not logged");
}

#[tokio::test]
async fn an_agent_that_is_killed_takes_its_workers_over_again() {
    let service = Service::start().await;
    let mut agent = Agent::start(&service, &[]);
    let worker = scripted(0, "ready;many:60;save:end;milestone:1");
    service.desire(1, 1, &[&worker]);
    for enough in [3, 20] {
        service.wait("measurements", |seen| seen.measured(&worker).len() >= enough).await;
        agent.kill();
        agent.start_again();
    }
    service.wait("the milestone", |seen| seen.bodies(&worker).iter().any(|body| kind(body) == "milestone")).await;
    assert_eq!(service.seen().measured(&worker), (1..=60).map(f64::from).collect::<Vec<_>>(), "each once, in order");
    service.desire(1, 2, &[]);
    service.wait("its exit", |seen| !seen.exits(&worker).is_empty()).await;
    assert_eq!(service.seen().exits(&worker), [Exit::Clean]);
    assert_eq!(agent.starts(&worker), 1);
    assert!(!agent.overlapped());
}

#[tokio::test]
async fn a_worker_that_dies_while_no_agent_is_there_is_reported() {
    let service = Service::start().await;
    let mut agent = Agent::start(&service, &[]);
    let (worker, next) = (scripted(0, "ready"), scripted(0, "ready"));
    service.desire(1, 1, &[&worker]);
    service.wait("ready", |seen| seen.bodies(&worker).len() == 1).await;
    agent.kill();
    agent.processes()[0].kill();
    service.desire(1, 2, &[&next]);
    agent.start_again();
    service.wait("its loss", |seen| !seen.exits(&worker).is_empty()).await;
    assert!(lost(&service.seen().exits(&worker)).contains("no agent"));
    service.wait("the next", |seen| seen.bodies(&next).len() == 1).await;
}

#[tokio::test]
async fn a_killed_worker_is_lost_once() {
    let service = Service::start().await;
    let agent = Agent::start(&service, &[]);
    let (worker, next) = (scripted(0, "ready"), scripted(0, "measure:9"));
    service.desire(1, 1, &[&worker]);
    service.wait("ready", |seen| seen.bodies(&worker).len() == 1).await;
    agent.processes()[0].kill();
    service.wait("its loss", |seen| !seen.exits(&worker).is_empty()).await;
    service.desire(1, 2, &[&next]);
    service.wait("the next", |seen| seen.measured(&next) == [9.0]).await;
    assert!(lost(&service.seen().exits(&worker)).contains("signal 9"));
    assert!(!agent.overlapped());
}

#[tokio::test]
async fn the_services_absence_costs_nothing() {
    let mut service = Service::start().await;
    let agent = Agent::start(&service, &[]);
    let worker = scripted(0, "ready;many:100;save:a;measure:101;save:b;milestone:2;exit");
    service.desire(1, 1, &[&worker]);
    service.wait("measurements", |seen| seen.measured(&worker).len() >= 3).await;
    service.go_away();
    // The worker goes on to its end meanwhile.
    agent.traced(&worker, "end").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    service.come_back().await;
    service.wait("its exit", |seen| !seen.exits(&worker).is_empty()).await;
    let seen = service.seen();
    assert_eq!(seen.measured(&worker), (1..=101).map(f64::from).collect::<Vec<_>>());
    let ends: Vec<_> = seen.bodies(&worker).iter().skip(101).map(kind).collect();
    assert_eq!(ends, ["checkpointed", "measured", "checkpointed", "milestone", "exited"]);
    assert_eq!(seen.checkpoints.len(), 2);
    assert_eq!(seen.exits(&worker), [Exit::Clean]);
}

#[tokio::test]
async fn an_upload_holds_back_its_own_trial_only() {
    let service = Service::start().await;
    let _agent = Agent::start(&service, &[]);
    service.seen().refuses_uploads = true;
    let (saving, other) = (scripted(0, "measure:1;save:x;milestone:1;progress"), scripted(1, "measure:1;milestone:1"));
    service.desire(1, 1, &[&saving, &other]);
    service.wait("progress", |seen| seen.bodies(&saving).iter().any(|body| kind(body) == "progress")).await;
    service.wait("the other", |seen| seen.bodies(&other).len() == 2).await;
    assert_eq!(service.seen().bodies(&saving).iter().map(kind).collect::<Vec<_>>(), ["measured", "progress"]);
    service.seen().refuses_uploads = false;
    service.wait("the milestone", |seen| seen.bodies(&saving).len() == 4).await;
    assert_eq!(service.seen().bodies(&saving).iter().map(kind).collect::<Vec<_>>(), ["measured", "progress", "checkpointed", "milestone"]);
}

#[tokio::test]
async fn a_late_desired_state_is_ignored() {
    let service = Service::start().await;
    let mut agent = Agent::start(&service, &[]);
    let (worker, wrong) = (scripted(0, "ready"), scripted(1, "ready"));
    service.desire(1, 5, &[&worker]);
    service.wait("ready", |seen| seen.bodies(&worker).len() == 1).await;
    for restarted in [false, true] {
        if restarted {
            agent.kill();
            agent.start_again();
        }
        service.desire(1, 4, &[&wrong]);
        let mark = service.seen().heartbeats.len();
        service.wait("signs of life", |seen| seen.heartbeats.len() > mark + 5).await;
    }
    let mut worker = worker;
    worker.control.run_until = 6.0;
    service.desire(1, 6, &[&worker]);
    agent.traced(&worker, "control 6").await;
    assert_eq!((agent.starts(&worker), agent.starts(&wrong)), (1, 0));
}

#[tokio::test]
async fn a_slot_changes_hands_only_after_the_exit() {
    let service = Service::start().await;
    let agent = Agent::start(&service, &["--grace-s", "1"]);
    let chain = [scripted(0, "ready;slow"), scripted(0, "ready;deaf"), scripted(0, "ready;crash"), scripted(0, "measure:1")];
    for (plan, worker) in (1..).zip(&chain) {
        service.desire(1, plan, &[worker]);
        service.wait("the next holder", |seen| !seen.bodies(worker).is_empty()).await;
    }
    service.wait("every exit", |seen| chain[..3].iter().all(|worker| !seen.exits(worker).is_empty())).await;
    assert_eq!(service.seen().exits(&chain[0]), [Exit::Clean], "it was slow and had its time");
    assert_eq!(service.seen().exits(&chain[1]), [Exit::Clean], "it was killed as unwanted");
    assert!(chain.iter().all(|worker| agent.starts(worker) == 1));
    assert!(!agent.overlapped());
}

#[tokio::test]
async fn the_silent_and_the_stuck_are_killed() {
    let service = Service::start().await;
    let _agent = Agent::start(&service, &["--silence-s", "1.5", "--stall-s", "3"]);
    let (silent, stuck) = (scripted(0, "ready;mute"), scripted(1, "ready;stuck"));
    service.desire(1, 1, &[&silent, &stuck]);
    service.wait("both losses", |seen| !seen.exits(&silent).is_empty() && !seen.exits(&stuck).is_empty()).await;
    assert!(lost(&service.seen().exits(&silent)).contains("nothing was heard"));
    assert!(lost(&service.seen().exits(&stuck)).contains("no progress"));
}

#[tokio::test]
async fn survivors_of_its_own_group_go_on_while_the_service_is_away() {
    let mut service = Service::start().await;
    let agent = Agent::start(&service, &[]);
    let (mut survivor, mut victim) = (scripted(0, ""), scripted(1, "ready"));
    victim.trial = survivor.trial;
    let members = format!("{}/0,{}/1", survivor.incarnation, victim.incarnation);
    survivor.launch.study_name = format!("ready;break:{members}");
    service.desire(1, 1, &[&survivor, &victim]);
    service.wait("the break", |seen| seen.bodies(&survivor).len() == 2 && seen.bodies(&victim).len() == 1).await;
    service.go_away();
    let orders = |agent: &Agent| agent.trace(&survivor).iter().filter(|line| line.starts_with("order ")).count();
    assert_eq!(orders(&agent), 0, "its peer lives and may speak yet");
    agent.kill_worker(&victim);
    agent.traced(&survivor, "order 3 generation 2 of 1").await;
    assert_eq!(orders(&agent), 1);
    service.come_back().await;
    service.wait("the loss", |seen| !seen.exits(&victim).is_empty()).await;
}

#[tokio::test]
async fn a_group_with_a_rank_elsewhere_is_left_to_the_service() {
    let service = Service::start().await;
    let agent = Agent::start(&service, &[]);
    let mut survivor = scripted(0, "");
    // The other one was on another node.
    let gone = scripted(1, "").incarnation;
    survivor.launch.study_name = format!("ready;break:{}/0,{gone}/1", survivor.incarnation);
    survivor.launch.study_name += "@elsewhere;log:told";
    service.desire(1, 1, &[&survivor]);
    service.wait("the break", |seen| seen.logs(&survivor) == ["told"]).await;
    let mark = service.seen().heartbeats.len();
    service.wait("signs of life", |seen| seen.heartbeats.len() > mark + 5).await;
    assert!(agent.trace(&survivor).iter().all(|line| !line.starts_with("order ")));
}

#[tokio::test]
async fn a_group_that_hangs_is_aborted_and_one_that_computes_is_not() {
    let service = Service::start().await;
    let agent = Agent::start(&service, &["--collective-s", "1"]);
    let hanging = scripted(0, "ready;hang");
    let (mut waits, computes) = (scripted(0, "ready;hang"), scripted(1, "ready"));
    service.desire(1, 1, &[&hanging]);
    agent.traced(&hanging, "abort 1").await;
    waits.trial = computes.trial;
    service.desire(1, 2, &[&waits, &computes]);
    service.wait("both", |seen| seen.bodies(&waits).len() + seen.bodies(&computes).len() == 2).await;
    let mark = service.seen().heartbeats.len();
    service.wait("signs of life", |seen| seen.heartbeats.len() > mark + 10).await;
    assert!(agent.trace(&waits).iter().all(|line| !line.starts_with("abort")), "the other one may come");
}

#[tokio::test]
async fn asked_to_end_the_agent_ends_its_workers_first() {
    let service = Service::start().await;
    let mut agent = Agent::start(&service, &[]);
    let worker = scripted(0, "ready;slow");
    service.desire(1, 1, &[&worker]);
    service.wait("ready", |seen| seen.bodies(&worker).len() == 1).await;
    assert!(agent.terminate().await.success());
    assert_eq!(service.seen().exits(&worker), [Exit::Clean]);
    assert!(agent.processes().is_empty());
}

#[tokio::test]
async fn asked_to_keep_them_it_leaves_its_workers_to_the_next_agent() {
    let service = Service::start().await;
    let mut agent = Agent::start(&service, &["--on-exit", "keep"]);
    let worker = scripted(0, "ready;many:30");
    service.desire(1, 1, &[&worker]);
    service.wait("ready", |seen| !seen.bodies(&worker).is_empty()).await;
    assert!(agent.terminate().await.success());
    assert_eq!(agent.processes().len(), 1);
    agent.start_again();
    service.wait("all of it", |seen| seen.measured(&worker).len() == 30).await;
    assert_eq!(agent.starts(&worker), 1);
}

#[tokio::test]
async fn a_worker_gets_its_checkpoint() {
    let service = Service::start().await;
    let _agent = Agent::start(&service, &[]);
    service.seen().checkpoints.insert(checkpoint_of("from afar").sha256, "from afar".into());
    let mut worker = scripted(0, "read");
    worker.launch.checkpoint = Some(checkpoint_of("from afar"));
    let mut lacking = scripted(1, "read");
    lacking.launch.checkpoint = Some(checkpoint_of("nowhere"));
    service.desire(1, 1, &[&worker, &lacking]);
    service.wait("its content", |seen| seen.logs(&worker) == ["checkpoint from afar"]).await;
    service.wait("the other's end", |seen| !seen.exits(&lacking).is_empty()).await;
    assert!(lost(&service.seen().exits(&lacking)).contains("cannot be fetched"));
}

#[tokio::test]
async fn a_restored_service_gets_its_node_empty_first() {
    let service = Service::start().await;
    let agent = Agent::start(&service, &[]);
    let (old, new) = (scripted(0, "ready;slow"), scripted(0, "ready"));
    service.desire(1, 9, &[&old]);
    service.wait("ready", |seen| !seen.bodies(&old).is_empty()).await;
    service.desire(2, 1, &[&old, &new]);
    service.wait("the new one", |seen| !seen.bodies(&new).is_empty()).await;
    assert_eq!(service.seen().exits(&old), [Exit::Clean]);
    assert!(!agent.overlapped());
}

#[test]
fn the_agent_needs_no_libtorch() {
    let output = Command::new("ldd").arg(env!("CARGO_BIN_EXE_trial-agent")).output().expect("ldd comes with libc");
    let needed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && needed.contains("libc.so"), "{needed}");
    for library in ["torch", "libc10", "cuda", "nvidia"] {
        assert!(!needed.contains(library), "{needed}");
    }
}
