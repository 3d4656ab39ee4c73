//! The two loops that empty the outbox: reports in batches, checkpoints one by one. Both try for as long as it takes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use elastune_api::agent::ReportBatch;
use tokio::sync::Semaphore;

use super::Outbox;
use super::queue::{BATCH, Line, Upload};
use crate::backoff::Backoff;
use crate::service::{Failure, Service};

/// Reports are gathered this long.
const GATHER: Duration = Duration::from_millis(200);
const UPLOADS_AT_ONCE: usize = 2;

impl Outbox {
    /// Sends reports forever; a backlog of whole batches goes without pauses.
    pub async fn send_reports(&self, service: &Service) {
        let mut backoff = Backoff::new();
        // After a refusal reports go one by one, so that the one at fault is found and only it is dropped.
        let mut most = usize::MAX;
        loop {
            let batch = match self.next_batch(most).await {
                Ok(Some(batch)) => batch,
                Ok(None) => {
                    tokio::time::sleep(GATHER).await;
                    continue;
                }
                Err(error) => {
                    tracing::error!("cannot use the outbox: {error:#}");
                    tokio::time::sleep(backoff.fail()).await;
                    continue;
                }
            };
            let last = batch.reports.last().map_or(0, |report| report.seq);
            let acked = match service.reports(&batch).await {
                Ok(answer) => {
                    for dropped in &answer.dropped {
                        tracing::debug!(seq = dropped.seq, reason = dropped.reason, "the service dropped a report");
                    }
                    backoff = Backoff::new();
                    most = usize::MAX;
                    answer.accepted_seq.min(last)
                }
                Err(Failure::Refused { status, detail }) if batch.reports.len() == 1 => {
                    tracing::error!(status, detail, report = ?batch.reports[0].body, "the service refuses a report; it is dropped");
                    last
                }
                Err(Failure::Refused { .. }) => {
                    most = 1;
                    continue;
                }
                Err(failure) => {
                    tracing::debug!("cannot send reports: {failure}");
                    tokio::time::sleep(backoff.fail()).await;
                    continue;
                }
            };
            if acked < batch.reports[0].seq {
                tracing::warn!(acked, first = batch.reports[0].seq, "the service took none of the reports");
                tokio::time::sleep(backoff.fail()).await;
                continue;
            }
            let full = batch.reports.len() >= BATCH;
            match self.append(&Line::Acked { seq: acked }) {
                Ok(_) if full || most == 1 => {}
                Ok(_) => tokio::time::sleep(GATHER).await,
                Err(error) => {
                    tracing::error!("cannot use the outbox: {error:#}");
                    tokio::time::sleep(backoff.fail()).await;
                }
            }
        }
    }

    /// What is to be sent now; a first sending is on disk before it happens, since its `seq`s must not be given twice.
    async fn next_batch(&self, most: usize) -> Result<Option<ReportBatch>> {
        let position = {
            let mut inner = self.lock();
            match inner.journal.queue.send() {
                Some(line) => {
                    inner.append(&line)?;
                    Some(inner.lines)
                }
                None => None,
            }
        };
        if let Some(position) = position {
            self.durable(position).await?;
        }
        let inner = self.lock();
        let reports = inner.journal.queue.batch(most);
        Ok((!reports.is_empty()).then(|| ReportBatch { spool: inner.journal.queue.spool, reports }))
    }

    /// Uploads checkpoints forever.
    pub async fn upload_checkpoints(self: Arc<Self>, service: Arc<Service>) {
        let running: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
        let permits = Arc::new(Semaphore::new(UPLOADS_AT_ONCE));
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let uploads = self.lock().journal.queue.uploads();
            for upload in uploads {
                if !running.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(upload.id) {
                    continue;
                }
                let (outbox, service, running, permits) = (self.clone(), service.clone(), running.clone(), permits.clone());
                tokio::spawn(async move {
                    let _permit = permits.acquire().await;
                    outbox.upload(&service, &upload).await;
                    running.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&upload.id);
                });
            }
            changed.await;
        }
    }

    /// Returns when the checkpoint is in the store or never will be, and the journal says so.
    async fn upload(&self, service: &Service, upload: &Upload) {
        let mut backoff = Backoff::new();
        let outcome = loop {
            let file = match open(upload).await {
                Ok(file) => file,
                Err(error) => {
                    tracing::error!(trial = %upload.trial, path = %upload.path.display(), "a checkpoint cannot be read: {error}");
                    break Line::Abandoned { id: upload.id };
                }
            };
            match service.put_checkpoint(&upload.sha256, file.0, file.1).await {
                Ok(()) => break Line::Uploaded { id: upload.id },
                Err(Failure::Refused { status, detail }) => {
                    tracing::error!(trial = %upload.trial, status, detail, "the service refuses a checkpoint");
                    break Line::Abandoned { id: upload.id };
                }
                Err(failure) => tracing::debug!("cannot upload: {failure}"),
            }
            tokio::time::sleep(backoff.fail()).await;
        };
        while let Err(error) = self.append(&outcome) {
            tracing::error!("cannot use the outbox: {error:#}");
            tokio::time::sleep(backoff.fail()).await;
        }
    }
}

async fn open(upload: &Upload) -> std::io::Result<(tokio::fs::File, u64)> {
    let file = tokio::fs::File::open(&upload.path).await?;
    let bytes = file.metadata().await?.len();
    Ok((file, bytes))
}
