//! Widths and places: one snapshot, one decision, one transaction that stores the plan and steers whom it moves. Called by the
//! driver.

use std::collections::{BTreeMap, BTreeSet};

use elastune_core::check::check;
use elastune_core::decide::{DecideMemory, Decision, decide};
use elastune_core::judge::groups;
use elastune_core::model::cluster::NodeView;
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::plan::{Plan, PlanEntry};
use elastune_core::model::snapshot::{Snapshot, StudyView};
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::TrialView;
use elastune_core::model::width::Width;
use elastune_core::propose::unproposed;
use elastune_core::rng::Seed;
use elastune_core::time::{Span, Time};
use sqlx::{Connection, PgConnection};

use super::carry_out::{Placements, steer};
use super::change::{Change, Subject};
use super::memory;
use crate::db::groups::Stored;
use crate::db::notify::{self, Wake};
use crate::db::studies::Study;
use crate::db::trials::Trial;
use crate::db::{Error, Result, cluster, nodes, plans, studies, trials};

/// Old ranks train on while joiners start, so a change of width costs about one step and a cold cache.
const RESIZE_COST: Span = Span::from_secs(1);

/// What came of a look at the cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Nothing should move. Look again at `wake_at` at the latest.
    Same {
        wake_at: Option<Time>,
    },
    Planned {
        number: u64,
        wake_at: Option<Time>,
    },
    /// The decision failed its check; the plan before it stays.
    Refused {
        problem: String,
        is_new: bool,
    },
}

/// Decides once. A conflict means that another replica decided first: look again.
pub async fn run(conn: &mut PgConnection) -> Result<Outcome> {
    let (snapshot, memory) = read(conn).await?;
    let seed = Seed(0).child("decide", snapshot.current.number + 1);
    let before = memory.clone();
    // It may take tens of milliseconds, during which other tasks of this thread want to go on.
    let thought = tokio::task::spawn_blocking(move || {
        let decision = decide(&snapshot, &memory, seed);
        let violations: Vec<String> = check(&decision.plan, &snapshot).iter().map(ToString::to_string).collect();
        (snapshot, decision, violations)
    });
    let (snapshot, decision, violations) =
        thought.await.map_err(|error| Error::conflict("decision_failed", format!("the decision could not be made: {error}")))?;
    if !violations.is_empty() {
        let problem = format!("plan {} was refused: {}", decision.plan.number, violations.join("; "));
        let is_new = cluster::mark_problem(conn, &problem).await?;
        return Ok(Outcome::Refused { problem, is_new });
    }
    let wake_at = decision.wake_at;
    if (&decision.plan.entries, &decision.plan.open) == (&snapshot.current.entries, &snapshot.current.open) {
        cluster::mark_same(conn, snapshot.current.number, &decision.report, &decision.memory).await?;
        return Ok(Outcome::Same { wake_at });
    }
    let number = decision.plan.number;
    apply(conn, &snapshot, &before, &decision, seed).await?;
    Ok(Outcome::Planned { number, wake_at })
}

/// Everything that `decide` may look at, from one snapshot of the database.
pub async fn read(conn: &mut PgConnection) -> Result<(Snapshot, DecideMemory)> {
    let mut tx = conn.begin().await?;
    sqlx::query("set transaction isolation level repeatable read, read only").execute(&mut *tx).await?;
    let now = crate::db::now(&mut tx).await?;
    let current = plans::current(&mut tx).await?;
    let memory = cluster::memory(&mut tx).await?;
    let groups_by_trial = crate::db::groups::all(&mut tx).await?;
    let mut live: BTreeMap<StudyId, Vec<TrialView>> = BTreeMap::new();
    for trial in trials::all_live(&mut tx).await? {
        let view = view(&trial, groups_by_trial.get(&trial.id));
        live.entry(trial.study).or_default().push(view);
    }
    let mut views = Vec::new();
    for study in studies::open(&mut tx).await?.into_iter().filter(|study| study.spec.workload.is_some()) {
        let trials = live.remove(&study.id).unwrap_or_default();
        views.push(study_view(&mut tx, study, trials).await?);
    }
    let nodes = nodes::all(&mut tx).await?;
    let nodes = nodes.into_iter().map(|node| NodeView { id: node.id, name: node.name, state: node.state, devices: node.devices });
    let snapshot = Snapshot { now, studies: views, nodes: nodes.collect(), current };
    tx.commit().await?;
    Ok((snapshot, memory))
}

async fn study_view(conn: &mut PgConnection, study: Study, trials: Vec<TrialView>) -> Result<StudyView> {
    let memory = memory::of_judge(conn, &study).await?.memory;
    let active = study.state == StudyState::Active;
    Ok(StudyView {
        id: study.id,
        created: study.created,
        active,
        unproposed: if active { unproposed(&study.spec, &memory.proposed) } else { 0 },
        groups: groups(&study.spec, &memory),
        trials,
        spec: study.spec,
    })
}

fn view(trial: &Trial, stored: Option<&Stored>) -> TrialView {
    let group = stored.map(|stored| &stored.group);
    TrialView {
        id: trial.id,
        number: trial.number,
        parameters: trial.parameters.clone(),
        state: trial.state,
        attempt: trial.attempt,
        run_until: trial.run_until,
        done: trial.done,
        rates: trial.rates.clone(),
        width: group.map_or(Width::ZERO, |group| group.width()),
        frozen: group.is_some_and(|group| group.next.is_some() || group.crashed.is_some()),
        held: trial.held,
        restart_cost: RESIZE_COST,
        last_resize: trial.last_resize,
        results_since_resize: trial.results_since_resize,
        checkpoint: trial.checkpoint.clone(),
        alone: trial.alone,
    }
}

/// Stores the plan as the child of the one that the snapshot saw, and steers every trial whose place differs.
async fn apply(conn: &mut PgConnection, snapshot: &Snapshot, memory: &DecideMemory, decision: &Decision, seed: Seed) -> Result<()> {
    let mut tx = conn.begin().await?;
    let done = async {
        // All of them: whoever reads the current plan under a study's lock must not see it change.
        let ids: Vec<StudyId> = snapshot.studies.iter().map(|study| study.id).collect();
        let locked = studies::lock_all(&mut tx, &ids).await?;
        let moved = moved(&snapshot.current, &decision.plan);
        let study_of = trials::studies_of(&mut tx, &moved).await?;
        let cluster = cluster::lock(&mut tx).await?;
        if cluster.plan != decision.plan.parent {
            return Err(Error::conflict("stale_plan", format!("plan {} was made by someone else", decision.plan.number)));
        }
        let now = crate::db::now(&mut tx).await?;
        let Decision { plan, memory: left, report, wake_at } = decision;
        plans::insert(&mut tx, &plans::Decided { plan, memory, report, snapshot, seed, wake_at: *wake_at }, now).await?;
        cluster::mark_decided(&mut tx, plan.number, report, left).await?;

        let placements = Placements::new(plan.number, plan.entries.iter().cloned());
        let mut changes: BTreeMap<StudyId, Change> = locked.into_iter().map(|study| (study.id, Change::of(study, now))).collect();
        for trial in moved {
            let Some(change) = study_of.get(&trial).and_then(|study| changes.get_mut(study)) else { continue };
            let mut subject = Subject::load(&mut tx, trial).await?;
            steer(&mut tx, change, &mut subject, &placements, &[]).await?;
            subject.store(&mut tx).await?;
        }
        let opened: BTreeSet<StudyId> = plan.open.iter().map(|open| open.study).collect();
        for (study, mut change) in changes {
            if opened.contains(&study) {
                change.wake();
            }
            change.finish(&mut tx).await?;
        }
        notify::send(&mut tx, Wake::Cluster).await?;
        Ok(())
    }
    .await;
    crate::db::end(tx, done).await
}

/// Trials whose place or attempt differs between two plans.
fn moved(old: &Plan, new: &Plan) -> Vec<TrialId> {
    let by_trial =
        |plan: &Plan| -> BTreeMap<TrialId, PlanEntry> { plan.entries.iter().map(|entry| (entry.trial, entry.clone())).collect() };
    let (old, new) = (by_trial(old), by_trial(new));
    let trials: BTreeSet<TrialId> = old.keys().chain(new.keys()).copied().collect();
    let place = |entry: Option<&PlanEntry>| entry.map(|entry| (entry.attempt, entry.slots.clone()));
    trials.into_iter().filter(|trial| place(old.get(trial)) != place(new.get(trial))).collect()
}
