//! Calls about nodes, plans and the cluster, the agent's own among them. Used through `Client`.

use elastune_core::model::ids::NodeId;
use reqwest::Method;

use super::{Client, LONG_POLL, QUICK, Result, is_no_content};
use crate::agent::{Desired, NodeHeartbeat, RegisterRequest, RegisterResponse, ReportAnswer, ReportBatch};
use crate::cluster::{Cluster, JoinRequest, JoinToken, LoginLink, Node, PlanPage};

impl Client {
    pub async fn cluster(&self) -> Result<Cluster> {
        self.get("/cluster").await
    }

    /// Plan `number`, or the current one.
    pub async fn plan(&self, number: Option<u64>) -> Result<PlanPage> {
        match number {
            Some(number) => self.get(&format!("/plans/{number}")).await,
            None => self.get("/plans/current").await,
        }
    }

    pub async fn nodes(&self) -> Result<Vec<Node>> {
        self.get("/nodes").await
    }

    pub async fn node(&self, id: NodeId) -> Result<Node> {
        self.get(&format!("/nodes/{id}")).await
    }

    /// A token for one more agent.
    pub async fn join_token(&self, request: &JoinRequest) -> Result<JoinToken> {
        self.post("/nodes", request).await
    }

    /// `verb`: drain, cordon or uncordon.
    pub async fn node_verb(&self, id: NodeId, verb: &str) -> Result<Node> {
        self.verb(&format!("/nodes/{id}:{verb}")).await
    }

    pub async fn remove_node(&self, id: NodeId) -> Result<()> {
        self.send(self.request(Method::DELETE, &format!("/nodes/{id}")).timeout(QUICK)).await.map(drop)
    }

    pub async fn login_link(&self) -> Result<LoginLink> {
        self.verb("/login-links").await
    }

    pub async fn register(&self, request: &RegisterRequest) -> Result<RegisterResponse> {
        self.post("/nodes/register", request).await
    }

    /// What the node should run; None when it is still `after` once `wait_s` (at most 30) are over.
    pub async fn desired(&self, id: NodeId, after: Option<&str>, wait_s: u32) -> Result<Option<Desired>> {
        let mut request = self.request(Method::GET, &format!("/nodes/{id}/desired")).query(&[("wait_s", wait_s)]);
        if let Some(after) = after {
            request = request.query(&[("after", after)]);
        }
        let response = self.send(request.timeout(LONG_POLL)).await?;
        if is_no_content(&response) {
            return Ok(None);
        }
        let url = self.base.clone();
        response.json().await.map(Some).map_err(|source| super::ClientError::Unreachable { url, source })
    }

    pub async fn node_heartbeat(&self, id: NodeId, heartbeat: &NodeHeartbeat) -> Result<()> {
        self.send(self.request(Method::POST, &format!("/nodes/{id}/heartbeat")).json(heartbeat).timeout(QUICK)).await.map(drop)
    }

    pub async fn node_reports(&self, id: NodeId, batch: &ReportBatch) -> Result<ReportAnswer> {
        self.post(&format!("/nodes/{id}/reports"), batch).await
    }
}
