//! Takes what a node's agent reports: one transaction a batch, each report once, late ones answered and dropped. Called by `http`.

use std::collections::BTreeMap;

use elastune_api::agent::{AgentReport, DroppedReport, ReportAnswer, ReportBatch};
use elastune_core::model::ids::{NodeId, StudyId, TrialId};
use sqlx::{Connection, PgConnection};

use super::carry_out::Placements;
use super::change::{Change, Subject};
use super::report;
use crate::db::{Result, nodes, studies, trials};

/// Applies a batch. Studies are locked in id order, then the node's row, so that a batch that comes twice is taken once.
pub async fn apply(conn: &mut PgConnection, node: NodeId, batch: &ReportBatch) -> Result<ReportAnswer> {
    let mut tx = conn.begin().await?;
    let done = async {
        let mut trial_ids: Vec<TrialId> = batch.reports.iter().map(|report| report.trial).collect();
        trial_ids.sort();
        trial_ids.dedup();
        let study_of = trials::studies_of(&mut tx, &trial_ids).await?;
        let mut study_ids: Vec<StudyId> = study_of.values().copied().collect();
        study_ids.sort();
        study_ids.dedup();
        let locked = studies::lock_all(&mut tx, &study_ids).await?;
        let mut accepted_seq = nodes::lock_spool(&mut tx, node, batch.spool).await?;
        let now = crate::db::now(&mut tx).await?;

        let mut changes: BTreeMap<StudyId, Change> = locked.into_iter().map(|study| (study.id, Change::of(study, now))).collect();
        let mut subjects: BTreeMap<TrialId, Subject> = BTreeMap::new();
        let (mut placements, unplaced) = (None, Placements::default());
        let mut dropped = Vec::new();
        for report in &batch.reports {
            if report.seq <= accepted_seq {
                dropped.push(drop_of(report, "it was taken before"));
                continue;
            }
            accepted_seq = report.seq;
            let Some(change) = study_of.get(&report.trial).and_then(|study| changes.get_mut(study)) else {
                dropped.push(drop_of(report, "there is no such trial any more"));
                continue;
            };
            let subject = match subjects.entry(report.trial) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => entry.insert(Subject::load(&mut tx, report.trial).await?),
            };
            // The plan is long and most batches need nothing of it.
            if placements.is_none() && report::needs_placement(&report.body) {
                placements = Some(Placements::read(&mut tx, &trial_ids).await?);
            }
            let placed = placements.as_ref().unwrap_or(&unplaced);
            if let Err(late) = report::take(&mut tx, change, subject, placed, report).await? {
                dropped.push(drop_of(report, late));
            }
        }
        for subject in subjects.values_mut() {
            subject.store(&mut tx).await?;
        }
        for change in changes.into_values() {
            change.finish(&mut tx).await?;
        }
        nodes::mark_spool(&mut tx, node, batch.spool, accepted_seq, now).await?;
        Ok(ReportAnswer { accepted_seq, dropped })
    }
    .await;
    crate::db::end(tx, done).await
}

fn drop_of(report: &AgentReport, reason: impl Into<String>) -> DroppedReport {
    DroppedReport { seq: report.seq, reason: reason.into() }
}
