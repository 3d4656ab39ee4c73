//! What a node should run, computed on read from the carry-out rows. Called by `http` for the agents' long poll.

use std::collections::BTreeMap;

use elastune_api::agent::{Control, Desired, DesiredWorker, Launch};
use elastune_core::model::cluster::NodeState;
use elastune_core::model::group::{Group, Member};
use elastune_core::model::ids::{NodeId, StudyId, TrialId};
use elastune_core::model::study::Workload;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;

use super::groups::{self, Stored};
use super::studies::{self, Study};
use super::trials::{self, Trial};
use super::{Error, Result, cluster, nodes};

/// The processes that `node` should have. `version` changes with anything that concerns it.
pub async fn get(conn: &mut PgConnection, node: NodeId) -> Result<Desired> {
    let state = nodes::get(conn, node).await?.state;
    let cluster = cluster::get(conn).await?;
    let groups = groups::on_node(conn, node).await?;
    let ids: Vec<TrialId> = groups.iter().map(|stored| stored.group.trial).collect();
    let trials: BTreeMap<TrialId, Trial> = trials::get_all(conn, &ids).await?.into_iter().map(|trial| (trial.id, trial)).collect();
    let mut study_ids: Vec<StudyId> = trials.values().map(|trial| trial.study).collect();
    study_ids.sort();
    study_ids.dedup();
    let studies: BTreeMap<StudyId, Study> = studies::get_all(conn, &study_ids).await?.into_iter().map(|study| (study.id, study)).collect();

    let mut workers = Vec::new();
    for stored in &groups {
        let Some(trial) = trials.get(&stored.group.trial) else { continue };
        let Some(study) = studies.get(&trial.study) else { continue };
        let Some(workload) = &study.spec.workload else { continue };
        let launch = launch(study, workload, trial, stored);
        workers.extend(on(&stored.group, node).map(|member| DesiredWorker {
            trial: trial.id,
            attempt: stored.group.attempt,
            incarnation: member.incarnation,
            slot: member.slot,
            launch: launch.clone(),
            control: control(&stored.group, member),
        }));
    }
    let draining = state == NodeState::Draining;
    let version = version(&(cluster.epoch, draining, &workers))?;
    Ok(Desired { epoch: cluster.epoch, plan: cluster.plan, version, workers, draining })
}

fn version(what: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_vec(what).map_err(|error| Error::Stored { what: "desired state", error: error.to_string() })?;
    Ok(hex::encode(&Sha256::digest(text)[..16]))
}

/// Members, joiners and leavers on the node, each process once.
fn on(group: &Group, node: NodeId) -> impl Iterator<Item = &Member> {
    let ordered = group.next.iter().flat_map(|order| &order.members);
    let mut seen = Vec::new();
    group.members.iter().chain(ordered).chain(&group.leavers).filter(move |member| {
        let new = member.slot.node == node && !seen.contains(&member.incarnation);
        if new {
            seen.push(member.incarnation);
        }
        new
    })
}

fn launch(study: &Study, workload: &Workload, trial: &Trial, stored: &Stored) -> Launch {
    Launch {
        study_name: study.spec.name.clone(),
        trial_number: trial.number,
        workload: workload.clone(),
        parameters: trial.parameters.clone(),
        seed: study.seed.child("train", u64::from(trial.number)),
        metrics: study.spec.metrics.iter().map(|metric| metric.name.clone()).collect(),
        max_resource: study.spec.max_resource(),
        checkpoint: stored.checkpoint.clone(),
    }
}

fn control(group: &Group, member: &Member) -> Control {
    let is = |other: &Member| other.incarnation == member.incarnation;
    let is_member = group.members.iter().any(is);
    let takes_part = |order: &&elastune_core::model::group::Order| is_member || order.members.iter().any(is);
    Control {
        generation: if is_member { group.generation } else { 0 },
        order: group.next.as_ref().filter(takes_part).cloned(),
        run_until: group.run_until,
        finish: group.finish,
    }
}
