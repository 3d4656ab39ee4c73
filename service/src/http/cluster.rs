//! `/cluster` and `/plans`: who is on which device, and why. Called by the router.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use elastune_api::cluster::{Cluster, Occupant, PlanPage};
use elastune_core::model::group::{Group, Member};
use elastune_core::model::plan::{Plan, Report};
use elastune_core::model::trial::TrialState;
use elastune_core::time::Time;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth::Admin;
use super::extract::path_part;
use super::openapi::Problems;
use crate::app::App;
use crate::db::{self, groups, nodes, plans, studies, trials};
use crate::error::{ApiError, Result};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(cluster)).routes(routes!(plan))
}

/// Nodes, devices and which rank of which trial is on them.
#[utoipa::path(get, path = "/cluster", tag = "cluster", responses((status = 200, body = Cluster), Problems))]
pub async fn cluster(State(app): State<App>, _: Admin) -> Result<Json<Cluster>> {
    let mut conn = app.pool.acquire().await?;
    let row = db::cluster::get(&mut conn).await?;
    let nodes = nodes::all(&mut conn).await?;
    let open: BTreeMap<_, _> = studies::open(&mut conn).await?.into_iter().map(|study| (study.id, study.spec)).collect();
    // Trials of outside workers wait for no device.
    let waits =
        |trial: &trials::Trial| trial.state == TrialState::Waiting && open.get(&trial.study).is_some_and(|spec| spec.workload.is_some());
    let live = trials::all_live(&mut conn).await?;
    let groups = groups::all(&mut conn).await?;
    let mut occupants = Vec::new();
    for trial in &live {
        let Some(stored) = groups.get(&trial.id) else { continue };
        let occupant = |(rank, member, switching): (u32, &Member, bool)| Occupant {
            node: member.slot.node,
            device: member.slot.device,
            parts: member.slot.parts,
            study: trial.study,
            study_name: open.get(&trial.study).map(|spec| spec.name.clone()).unwrap_or_default(),
            trial: trial.id,
            trial_number: trial.number,
            rank,
            switching,
        };
        occupants.extend(members(&stored.group).into_iter().map(occupant));
    }
    Ok(Json(Cluster {
        epoch: row.epoch,
        plan: row.plan,
        devices: nodes.iter().map(|node| node.devices.len() as u32).sum(),
        devices_in_use: occupants.iter().map(|occupant| 1.0 / f64::from(occupant.parts.max(1))).sum(),
        waiting_trials: live.iter().filter(|trial| waits(trial)).count() as u32,
        occupants,
        nodes,
        problem: row.problem,
    }))
}

/// (rank, process, joins or leaves): those of the group, then those that join, then those that leave.
fn members(group: &Group) -> Vec<(u32, &Member, bool)> {
    let stays =
        |member: &Member| group.next.as_ref().is_none_or(|next| next.members.iter().any(|other| other.incarnation == member.incarnation));
    let is_old = |member: &Member| group.members.iter().any(|other| other.incarnation == member.incarnation);
    let mut all: Vec<_> = group.members.iter().enumerate().map(|(rank, member)| (rank as u32, member, !stays(member))).collect();
    if let Some(next) = &group.next {
        all.extend(next.members.iter().enumerate().filter(|(_, member)| !is_old(member)).map(|(rank, member)| (rank as u32, member, true)));
    }
    all.extend(group.leavers.iter().enumerate().map(|(rank, member)| (rank as u32, member, true)));
    all
}

/// The `{n}` of the path: a number, or `current`.
pub struct PlanNumber(Option<u64>);

impl axum::extract::FromRequestParts<App> for PlanNumber {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut axum::http::request::Parts, app: &App) -> Result<Self> {
        match path_part(parts, app, "n").await?.as_str() {
            "current" => Ok(PlanNumber(None)),
            text => match text.parse::<i64>() {
                Ok(number @ 0..) => Ok(PlanNumber(Some(number as u64))),
                _ => Err(ApiError::bad_request("invalid_plan", format!("`{text}` is neither a plan's number nor `current`"))),
            },
        }
    }
}

/// A plan by number, or the `current` one: the whole placement, with a reason for everything in it. Plan 0 is the empty one before the first.
#[utoipa::path(get, path = "/plans/{n}", tag = "cluster", params(("n" = String, Path, description = "A number, or `current`")),
    responses((status = 200, body = PlanPage), Problems))]
pub async fn plan(State(app): State<App>, _: Admin, PlanNumber(number): PlanNumber) -> Result<Json<PlanPage>> {
    let mut conn = app.pool.acquire().await?;
    let number = match number {
        Some(number) => number,
        None => db::cluster::get(&mut conn).await?.plan,
    };
    if number == 0 {
        return Ok(Json(PlanPage { plan: Plan::default(), report: Report::default(), created: Time(0) }));
    }
    Ok(Json(plans::get(&mut conn, number).await?))
}
