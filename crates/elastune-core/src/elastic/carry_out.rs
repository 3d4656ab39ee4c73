//! The controller's one function: facts in, the next group row out. Called through `elastic::carry_out`.
//!
//! The life of an order: PREPARE while joiners start, ARMED once its members are frozen, then either a first commit makes it
//! the membership or it is given up. Ranks decide when to switch, so giving up an armed order is only a request: a commit
//! on it is still taken as the truth.

use std::net::SocketAddr;

use super::{Attempt, AttemptEnd, Effect, Fact, Step, Want};
use crate::model::group::{Group, Member, Phase};
use crate::model::ids::Incarnation;
use crate::time::{Span, Time};

/// Joiners load libtorch and data in it: far above what a loaded machine needs.
pub const PREPARE: Span = Span::from_secs(90);
/// Ranks build a group in milliseconds; a connect that hangs takes up to 25 s to give up.
pub const ARM: Span = Span::from_secs(40);
/// How long survivors of a crash are waited for before the group is re-formed with those who spoke. Longer than an agent that
/// lost its service waits between two tries, so that all nodes have spoken once the service is back.
pub const RE_FORM: Span = Span::from_secs(8);
/// The same where the node's agent forms the group by itself: it had its time.
pub const RE_FORM_ALONE: Span = Span::from_secs(20);
/// How long processes may take to save and exit.
pub const FINISH: Span = Span::from_secs(90);
/// Orders towards one target that may fail before carry-out keeps what runs.
pub const MOST_FAILURES: u32 = 3;

/// Takes the stored group (None: no process of the trial exists), what is wanted, and what happened since; gives the group
/// to store. Idempotent: the same facts again change nothing.
pub fn carry_out(attempt: Attempt, group: Option<Group>, want: &Want, facts: &[Fact], now: Time) -> Step {
    let Some(group) = group.or_else(|| first(attempt, want)) else {
        return Step { group: None, effects: Vec::new(), wake_at: None };
    };
    let mut controller = Controller { group, effects: Vec::new(), now };
    let stranded = controller.is_stranded(want, facts);
    for fact in facts.iter().filter(|fact| !(stranded && matches!(fact, Fact::NodeLost { for_good: false, .. }))) {
        controller.take(fact);
    }
    controller.steer(want);
    controller.finish()
}

fn first(attempt: Attempt, want: &Want) -> Option<Group> {
    let Want::Run { slots, run_until, plan } = want else { return None };
    (!slots.is_empty()).then(|| Group {
        trial: attempt.trial,
        attempt: attempt.attempt,
        generation: 0,
        order: 0,
        members: Vec::new(),
        lost: Vec::new(),
        next: None,
        leavers: Vec::new(),
        run_until: *run_until,
        finish: None,
        target: slots.clone(),
        plan: *plan,
        last_resize: None,
        failures: 0,
        abandoned: None,
        crashed: None,
        broken: Vec::new(),
        finish_by: None,
        fault: None,
    })
}

pub(super) struct Controller {
    pub(super) group: Group,
    pub(super) effects: Vec<Effect>,
    pub(super) now: Time,
}

impl Controller {
    pub(super) fn finish(mut self) -> Step {
        if self.group.finish_by.is_some_and(|by| self.now >= by) {
            self.group.members.clear();
            self.group.next = None;
            self.group.leavers.clear();
        }
        if self.group.last_resize.is_some_and(|at| self.now >= at + FINISH) {
            self.group.leavers.clear();
        }
        if self.processes().next().is_none() {
            let end = match (self.group.fault.take(), self.group.finish) {
                (Some(end @ (AttemptEnd::OutOfMemory { .. } | AttemptEnd::Unusable { .. })), _) => end,
                (_, Some(_)) => AttemptEnd::Asked,
                (Some(end), None) => end,
                (None, None) => AttemptEnd::Lost { message: "its processes did not start".into() },
            };
            self.effects.push(Effect::Ended { end });
            return Step { group: None, effects: self.effects, wake_at: None };
        }
        if self.group.generation > 0 && self.group.crashed.is_none() && self.group.finish.is_none() {
            self.group.fault = None;
        }
        let group = &self.group;
        let deadlines = [
            group.next.as_ref().map(|next| next.deadline),
            group.crashed.map(|at| at + self.patience()),
            group.finish_by,
            group.last_resize.filter(|_| !group.leavers.is_empty()).map(|at| at + FINISH),
        ];
        let wake_at = deadlines.into_iter().flatten().min();
        Step { group: Some(self.group), effects: self.effects, wake_at }
    }

    pub(super) fn is_member(&self, incarnation: Incarnation) -> bool {
        self.group.members.iter().any(|member| member.incarnation == incarnation)
    }

    pub(super) fn joiners(&self) -> impl Iterator<Item = &Member> {
        let joiner = |member: &&Member| !self.is_member(member.incarnation);
        self.group.next.iter().flat_map(|next| &next.members).filter(joiner)
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Member> {
        self.group.members.iter().chain(self.joiners()).chain(&self.group.leavers)
    }

    pub(super) fn set_address(&mut self, incarnation: Incarnation, address: SocketAddr) {
        let preparing = self.group.next.as_mut().filter(|next| next.phase == Phase::Prepare);
        let ordered = preparing.into_iter().flat_map(|next| &mut next.members);
        for member in self.group.members.iter_mut().chain(ordered).filter(|member| member.incarnation == incarnation) {
            member.address = Some(address);
        }
    }
}

pub(super) fn note(text: impl Into<String>) -> Effect {
    Effect::Note { text: text.into() }
}

#[cfg(test)]
#[path = "carry_out/tests.rs"]
mod tests;
