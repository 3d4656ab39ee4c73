//! Calls about studies. Used through `Client`.

use elastune_core::model::ids::StudyId;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Serialize;

use super::{Client, ClientError, LONG_POLL, QUICK, Result, SseStream};
use crate::study::{Curves, Export, Page, Parallel, Study, StudyPatch, StudyWidths, Validated};
use crate::trial::{SuggestRequest, SuggestResponse, Trial};

/// What `GET /studies` lists; the default is every study that is not archived, newest first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StudyQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_token: Option<String>,
}

/// What `GET /studies/{id}/trials` lists; the default is all of them by number.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TrialQuery {
    /// States, comma-separated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `number`, `-number`, `value` or `-value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_token: Option<String>,
}

impl Client {
    /// Creates a study from a document as a user wrote it: YAML, of which JSON is a part. `key`: a retry with the same one
    /// answers the study made before.
    pub async fn create_study(&self, document: &str, key: Option<&str>) -> Result<Study> {
        let mut request = self.request(Method::POST, "/studies").header(CONTENT_TYPE, "application/yaml").body(document.to_string());
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        self.json(request.timeout(QUICK)).await
    }

    /// The document as it would be stored, or every error in it.
    pub async fn validate_study(&self, document: &str) -> Result<Validated> {
        let request = self.request(Method::POST, "/studies:validate").header(CONTENT_TYPE, "application/yaml").body(document.to_string());
        self.json(request.timeout(QUICK)).await
    }

    pub async fn studies(&self, query: &StudyQuery) -> Result<Page<Study>> {
        self.get_query("/studies", query).await
    }

    pub async fn study(&self, id: StudyId) -> Result<Study> {
        self.get(&format!("/studies/{id}")).await
    }

    /// A study by id or by name; the newest of that name.
    pub async fn find_study(&self, id_or_name: &str) -> Result<Study> {
        if let Ok(id) = id_or_name.parse() {
            return self.study(StudyId(id)).await;
        }
        let query = StudyQuery { name: Some(id_or_name.into()), limit: Some(1), ..StudyQuery::default() };
        match self.studies(&query).await?.items.pop() {
            Some(study) => self.study(study.id).await,
            None => Err(ClientError::Invalid(format!("no study is called `{id_or_name}`; `elastune study ls` lists them"))),
        }
    }

    pub async fn change_study(&self, id: StudyId, patch: &StudyPatch) -> Result<Study> {
        self.json(self.request(Method::PATCH, &format!("/studies/{id}")).json(patch).timeout(QUICK)).await
    }

    pub async fn delete_study(&self, id: StudyId) -> Result<()> {
        self.send(self.request(Method::DELETE, &format!("/studies/{id}")).timeout(QUICK)).await.map(drop)
    }

    /// `verb`: pause, resume, stop, cancel or archive.
    pub async fn study_verb(&self, id: StudyId, verb: &str) -> Result<Study> {
        self.verb(&format!("/studies/{id}:{verb}")).await
    }

    pub async fn trials(&self, id: StudyId, query: &TrialQuery) -> Result<Page<Trial>> {
        self.get_query(&format!("/studies/{id}/trials"), query).await
    }

    /// Every trial by number, page after page.
    pub async fn all_trials(&self, id: StudyId) -> Result<Vec<Trial>> {
        let mut query = TrialQuery { limit: Some(1000), ..TrialQuery::default() };
        let mut trials = Vec::new();
        loop {
            let page = self.trials(id, &query).await?;
            trials.extend(page.items);
            match page.next_page_token {
                Some(token) => query.page_token = Some(token),
                None => return Ok(trials),
            }
        }
    }

    pub async fn optimal_trials(&self, id: StudyId) -> Result<Vec<Trial>> {
        self.get(&format!("/studies/{id}/optimal-trials")).await
    }

    /// `metric`: the study's first if None.
    pub async fn curves(&self, id: StudyId, metric: Option<&str>) -> Result<Curves> {
        let query: Vec<_> = metric.map(|metric| ("metric", metric)).into_iter().collect();
        self.get_query(&format!("/studies/{id}/curves"), &query).await
    }

    pub async fn study_widths(&self, id: StudyId) -> Result<StudyWidths> {
        self.get(&format!("/studies/{id}/widths")).await
    }

    pub async fn parallel(&self, id: StudyId) -> Result<Parallel> {
        self.get(&format!("/studies/{id}/trials:parallel")).await
    }

    /// Asks for parameters to try; holds on for `request.wait_s`.
    pub async fn suggest(&self, id: StudyId, request: &SuggestRequest, key: Option<&str>) -> Result<SuggestResponse> {
        let mut call = self.request(Method::POST, &format!("/studies/{id}/trials:suggest")).json(request);
        if let Some(key) = key {
            call = call.header("Idempotency-Key", key);
        }
        self.json(call.timeout(LONG_POLL)).await
    }

    pub async fn export(&self, id: StudyId) -> Result<Export> {
        self.get(&format!("/studies/{id}/export.json")).await
    }

    /// `format`: csv or json; the text as the service wrote it.
    pub async fn export_text(&self, id: StudyId, format: &str) -> Result<String> {
        let response = self.send(self.request(Method::GET, &format!("/studies/{id}/export.{format}"))).await?;
        response.text().await.map_err(|source| ClientError::Unreachable { url: self.base.clone(), source })
    }

    /// The study's events after `seq`, then as they come; `StudyEventLine`s by `SseStream::next_json`.
    pub async fn events(&self, id: StudyId, after: u64) -> Result<SseStream> {
        let request = self.request(Method::GET, &format!("/studies/{id}/events")).header("Last-Event-ID", after.to_string());
        Ok(SseStream::new(self.send(request).await?))
    }
}
