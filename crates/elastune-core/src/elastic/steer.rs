//! Steers a group towards what is wanted: gives orders, arms them, gives them up, lets survivors re-form. Called by `carry_out`.

use super::Want;
use super::alone::carry_outs;
use super::carry_out::{ARM, Controller, FINISH, MOST_FAILURES, PREPARE, RE_FORM, RE_FORM_ALONE, note};
use crate::model::cluster::Slot;
use crate::model::group::{Finish, Member, Order, Phase};
use crate::model::ids::Incarnation;
use crate::time::{Span, Time};

impl Controller {
    pub(super) fn give_up(&mut self, why: String) {
        if let Some(next) = self.group.next.take() {
            if next.crash {
                self.effects.push(note(format!("the survivors' group did not come about: {why}")));
            } else {
                self.group.failures += 1;
                self.effects.push(note(format!("resize given up: {why}")));
            }
            if next.phase == Phase::Armed {
                self.group.abandoned = Some(next);
            }
        }
    }

    pub(super) fn end_with(&mut self, finish: Finish) {
        // Ranks of a first start have nothing to save.
        let finish = if self.group.generation == 0 { Finish::Stop } else { finish };
        if self.group.finish == Some(finish) || self.group.finish == Some(Finish::Stop) {
            return;
        }
        self.group.finish = Some(finish);
        self.group.finish_by = Some(self.now + FINISH);
        let unstarted = self.group.generation == 0;
        let given_up = self.group.next.take_if(|next| next.phase == Phase::Prepare || unstarted);
        if let Some(next) = given_up.filter(|_| unstarted) {
            self.group.members = next.members;
        }
    }

    pub(super) fn steer(&mut self, want: &Want) {
        match want {
            Want::Stop => self.end_with(Finish::Stop),
            Want::Save => self.end_with(Finish::Save),
            Want::Run { slots, run_until, plan } => {
                self.group.run_until = *run_until;
                self.group.plan = *plan;
                if self.group.target != *slots {
                    self.group.target = slots.clone();
                    self.group.failures = 0;
                    self.take_parts();
                }
            }
        }
        if self.group.finish.is_some() {
            return;
        }
        if self.group.crashed.is_some() {
            if self.group.members.is_empty() {
                // A joiner that got the state may still have committed on the armed order.
                let now = self.now;
                self.group.next.take_if(|next| next.phase == Phase::Prepare || now >= next.deadline);
            } else {
                self.re_form();
            }
            return;
        }
        if self.group.next.is_none() {
            self.order();
        }
        self.advance();
    }

    /// Another part of the device that a rank is on is a matter of accounts: its process runs on as it is.
    fn take_parts(&mut self) {
        let next = self.group.next.iter_mut().flat_map(|next| &mut next.members);
        for member in self.group.members.iter_mut().chain(next) {
            let here = |slot: &&Slot| (slot.node, slot.device) == (member.slot.node, member.slot.device);
            if let Some(slot) = self.group.target.iter().find(here) {
                member.slot = *slot;
            }
        }
    }

    /// A new order towards the target, if the membership differs from it.
    pub(super) fn order(&mut self) {
        let held: Vec<Slot> = self.group.members.iter().map(|member| member.slot).collect();
        if same_slots(&held, &self.group.target) || self.group.failures >= MOST_FAILURES {
            return;
        }
        self.group.order = carry_outs(self.group.order);
        let mut wanted = self.group.target.clone();
        let mut members: Vec<Member> = Vec::new();
        for member in &self.group.members {
            if let Some(place) = wanted.iter().position(|slot| *slot == member.slot) {
                wanted.remove(place);
                members.push(member.clone());
            }
        }
        for slot in wanted {
            let incarnation = Incarnation::derive(self.group.trial, self.group.attempt, self.group.order, members.len() as u32);
            members.push(Member { incarnation, slot, address: None });
        }
        self.group.next = Some(Order {
            trial: self.group.trial,
            attempt: self.group.attempt,
            generation: self.next_generation(),
            order: self.group.order,
            phase: Phase::Prepare,
            members,
            store: None,
            crash: false,
            deadline: self.now + PREPARE,
        });
    }

    /// The first start stays generation 1 however often it is tried: nobody holds state yet, so rank 0 seeds or loads.
    pub(super) fn next_generation(&self) -> u32 {
        if self.group.generation == 0 {
            return 1;
        }
        let tried = [&self.group.next, &self.group.abandoned].into_iter().flatten().map(|order| order.generation).max();
        self.group.generation.max(tried.unwrap_or(0)) + 1
    }

    /// Arms an order whose joiners are ready, drops those who are late, gives up what hangs.
    pub(super) fn advance(&mut self) {
        let old: Vec<Incarnation> = self.group.members.iter().map(|member| member.incarnation).collect();
        let late = self.group.next.as_ref().is_some_and(|next| self.now >= next.deadline);
        let Some(next) = &mut self.group.next else { return };
        match next.phase {
            Phase::Armed if late => self.give_up("the ranks did not agree on a step in time".into()),
            Phase::Armed => {}
            Phase::Prepare => {
                let before = next.members.len();
                if late {
                    next.members.retain(|member| member.address.is_some() || old.contains(&member.incarnation));
                }
                let dropped = before - next.members.len();
                let joined = next.members.iter().all(|member| member.address.is_some() || old.contains(&member.incarnation));
                let hosted = next.members.first().is_some_and(|host| host.address.is_some());
                let hostable = hosted || (late && next.members.iter().any(|member| member.address.is_some()));
                let unchanged = next.members.len() == old.len() && next.members.iter().all(|member| old.contains(&member.incarnation));
                if dropped > 0 {
                    self.group.failures += 1;
                    self.effects.push(note(format!("{dropped} joining rank(s) were not ready in time and are dropped")));
                }
                if next.members.is_empty() || unchanged {
                    self.group.next = None;
                } else if joined && hostable {
                    arm(next, self.now);
                }
            }
        }
    }

    /// Whether every rank of the membership, the lost ones included, is or was on one node: its agent forms the group anew.
    pub(super) fn is_alone(&self) -> bool {
        let mut nodes = self.group.members.iter().chain(&self.group.lost).map(|member| member.slot.node);
        nodes.next().is_some_and(|first| nodes.all(|node| node == first))
    }

    /// How long after a crash to wait for those who have not spoken.
    pub(super) fn patience(&self) -> Span {
        if self.is_alone() { RE_FORM_ALONE } else { RE_FORM }
    }

    /// Survivors of a crash form a group of their own at once; the target is worked towards afterwards.
    pub(super) fn re_form(&mut self) {
        let Some(crashed) = self.group.crashed else { return };
        let now = self.now;
        let under_way = |next: &Order| next.crash && now < next.deadline && self.group.broken.is_empty();
        if self.group.next.as_ref().is_some_and(under_way) {
            return;
        }
        let has_spoken = |member: &&Member| self.group.broken.contains(&member.incarnation);
        let hosts = |member: &&Member| member.address.is_some();
        let mut survivors: Vec<Member> = self.group.members.iter().filter(hosts).filter(has_spoken).cloned().collect();
        let waits = survivors.len() < self.group.members.len() || self.is_alone();
        if waits && now < crashed + self.patience() {
            return;
        }
        if survivors.is_empty() {
            // Their group holds, with ranks in it that only they can reach: they are called out of it.
            survivors = self.group.members.iter().filter(hosts).cloned().collect();
        }
        if survivors.is_empty() {
            return;
        }
        let silent = self.group.members.len() - survivors.len();
        if silent > 0 {
            self.effects.push(note(format!("{silent} rank(s) could not be reached after the group broke and are left behind")));
        }
        let reached = |member: &Member| survivors.iter().any(|other| other.incarnation == member.incarnation);
        let unreached: Vec<Member> = self.group.members.iter().filter(|member| !reached(member)).cloned().collect();
        self.group.lost.extend(unreached);
        self.group.members = survivors;
        let generation = self.next_generation();
        self.group.order = carry_outs(self.group.order);
        self.group.abandoned = self.group.next.take().filter(|next| next.phase == Phase::Armed).or(self.group.abandoned.take());
        let mut order = Order {
            trial: self.group.trial,
            attempt: self.group.attempt,
            generation,
            order: self.group.order,
            phase: Phase::Prepare,
            members: self.group.members.clone(),
            store: None,
            crash: true,
            deadline: self.now,
        };
        arm(&mut order, self.now);
        self.group.broken.clear();
        self.group.crashed = Some(self.now);
        self.group.next = Some(order);
    }
}

/// Freezes the members. The store is on the lowest stayer, else the lowest joiner: members are in that order already.
fn arm(order: &mut Order, now: Time) {
    order.phase = Phase::Armed;
    order.store = order.members.iter().find_map(|member| member.address);
    order.deadline = now + ARM;
}

pub(super) fn same_slots(a: &[Slot], b: &[Slot]) -> bool {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort();
    b.sort();
    a == b
}
