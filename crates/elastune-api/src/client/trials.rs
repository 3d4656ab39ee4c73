//! Calls about trials and checkpoints. Used through `Client`.

use elastune_core::model::ids::TrialId;
use futures::{Stream, StreamExt};
use reqwest::Method;

use super::{Client, ClientError, QUICK, Result, SseStream};
use crate::study::Page;
use crate::trial::{
    Checkpoint, CompleteRequest, ExcludeRequest, Explain, HeartbeatRequest, Lease, LogLine, Measurement, ReportRequest, Reported,
    ShouldStop, StoredCheckpoint, Trial, WidthPoint,
};

impl Client {
    pub async fn trial(&self, id: TrialId) -> Result<Trial> {
        self.get(&format!("/trials/{id}")).await
    }

    pub async fn measurements(&self, id: TrialId) -> Result<Vec<Measurement>> {
        self.get(&format!("/trials/{id}/measurements")).await
    }

    pub async fn widths(&self, id: TrialId) -> Result<Vec<WidthPoint>> {
        self.get(&format!("/trials/{id}/widths")).await
    }

    pub async fn explain(&self, id: TrialId) -> Result<Explain> {
        self.get(&format!("/trials/{id}/explain")).await
    }

    /// `lease`: the asker's, so that a trial that has gone to another worker is answered with stop.
    pub async fn should_stop(&self, id: TrialId, lease: Option<uuid::Uuid>) -> Result<ShouldStop> {
        let asked = lease.map(|lease| format!("?lease={lease}")).unwrap_or_default();
        self.get(&format!("/trials/{id}/should-stop{asked}")).await
    }

    pub async fn report(&self, id: TrialId, request: &ReportRequest) -> Result<Reported> {
        self.post(&format!("/trials/{id}/measurements"), request).await
    }

    pub async fn heartbeat(&self, id: TrialId, lease: uuid::Uuid) -> Result<Lease> {
        self.post(&format!("/trials/{id}:heartbeat"), &HeartbeatRequest { lease }).await
    }

    pub async fn complete(&self, id: TrialId, request: &CompleteRequest, key: Option<&str>) -> Result<Trial> {
        let mut call = self.request(Method::POST, &format!("/trials/{id}:complete")).json(request);
        if let Some(key) = key {
            call = call.header("Idempotency-Key", key);
        }
        self.json(call.timeout(QUICK)).await
    }

    /// `verb`: stop, cancel or retry.
    pub async fn trial_verb(&self, id: TrialId, verb: &str) -> Result<Trial> {
        self.verb(&format!("/trials/{id}:{verb}")).await
    }

    pub async fn exclude(&self, id: TrialId, excluded: bool) -> Result<Trial> {
        self.post(&format!("/trials/{id}:exclude"), &ExcludeRequest { excluded }).await
    }

    /// Lines with an id above `after`, oldest first; at most `limit` (1,000 at the most).
    pub async fn logs(&self, id: TrialId, after: i64, limit: u32) -> Result<Vec<LogLine>> {
        let page: Page<LogLine> = self.get_query(&format!("/trials/{id}/logs"), &[("after", after), ("limit", i64::from(limit))]).await?;
        Ok(page.items)
    }

    /// `LogLine`s after `after`, then as they come.
    pub async fn follow_logs(&self, id: TrialId, after: i64) -> Result<SseStream> {
        let request = self.request(Method::GET, &format!("/trials/{id}/logs")).query(&[("after", after), ("follow", 1)]);
        Ok(SseStream::new(self.send(request).await?))
    }

    pub async fn checkpoints(&self, id: TrialId) -> Result<Vec<Checkpoint>> {
        self.get(&format!("/trials/{id}/checkpoints")).await
    }

    /// The bytes of a checkpoint, as they come.
    pub async fn download_checkpoint(&self, sha256: &str) -> Result<impl Stream<Item = Result<Vec<u8>>> + use<>> {
        let response = self.send(self.request(Method::GET, &format!("/checkpoints/{sha256}"))).await?;
        let url = self.base.clone();
        Ok(response
            .bytes_stream()
            .map(move |chunk| chunk.map(|bytes| bytes.to_vec()).map_err(|source| ClientError::Unreachable { url: url.clone(), source })))
    }

    /// Stores bytes under their hash; one that is there already is left as it is.
    pub async fn upload_checkpoint(&self, sha256: &str, body: impl Into<reqwest::Body>) -> Result<StoredCheckpoint> {
        self.json(self.request(Method::PUT, &format!("/checkpoints/{sha256}")).body(body)).await
    }
}
