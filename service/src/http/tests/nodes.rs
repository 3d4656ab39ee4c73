//! Nodes: registration, desired state, verbs.

use std::time::{Duration, Instant};

use elastune_api::agent::NodeHeartbeat;
use elastune_core::model::cluster::NodeState;
use reqwest::Method;

use super::*;

#[tokio::test]
async fn an_agent_registers_and_comes_back_as_the_same_node() {
    let service = Service::start().await;
    let (node, token) = service.node().await;
    let agent = service.client.with_token(&token).expect("a client");
    let again = agent.register(&RegisterRequest { name: "renamed".into(), ..registration() }).await.expect("back");
    assert_eq!((again.node, again.token), (node, None));
    assert_eq!(service.client.node(node).await.expect("a node").name, "renamed");
    agent.node_heartbeat(node, &NodeHeartbeat { workers: Vec::new() }).await.expect("alive");
    let cluster = service.client.cluster().await.expect("a cluster");
    assert_eq!((cluster.nodes.len(), cluster.devices, cluster.devices_in_use, cluster.plan), (1, 2, 0.0, 0));
    let plan = service.client.plan(None).await.expect("a plan");
    assert_eq!((plan.plan.number, plan.plan.entries.len()), (0, 0));
}

#[tokio::test]
async fn verbs_move_a_node_and_wake_its_agent() {
    let service = Service::start().await;
    let (node, token) = service.node().await;
    let agent = service.client.with_token(&token).expect("a client");
    let first = agent.desired(node, None, 0).await.expect("an answer").expect("a state");
    assert!(first.workers.is_empty() && !first.draining);
    assert_eq!(agent.desired(node, Some(&first.version), 0).await.expect("an answer"), None);
    let started = Instant::now();
    let (polled, _) = tokio::join!(agent.desired(node, Some(&first.version), 30), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        service.client.node_verb(node, "drain").await.expect("draining")
    });
    assert!(polled.expect("an answer").expect("it changed").draining);
    assert!(started.elapsed() < Duration::from_secs(20));
    for (verb, state) in
        [("drain", NodeState::Draining), ("cordon", NodeState::Cordoned), ("uncordon", NodeState::Ready), ("uncordon", NodeState::Ready)]
    {
        assert_eq!(service.client.node_verb(node, verb).await.expect("moved").state, state, "{verb}");
    }
    let request = service.bare(Method::GET, &format!("/api/v1/nodes/{node}/desired?wait_s=31")).bearer_auth(&token);
    refused(request, 422, "invalid_value").await;
}

#[tokio::test]
async fn join_tokens_live_as_long_as_asked() {
    let service = Service::start().await;
    for ttl_s in [0, 59, 30 * 24 * 3600 + 1] {
        refused(service.post("/nodes", serde_json::json!({"ttl_s": ttl_s})), 422, "invalid_value").await;
    }
    let join = service.client.join_token(&JoinRequest { ttl_s: Some(60) }).await.expect("a token");
    assert!(join.command.contains(&join.token) && join.command.contains(&service.base));
    sqlx::query("update tokens set expires_ms = 1 where kind = 'join'").execute(&service.pool).await.expect("aged");
    let late = Client::new(&service.base, Some(&join.token)).expect("a client").register(&registration()).await;
    assert_eq!(late.expect_err("expired").status(), Some(401));
}
