//! Takes what happened to a trial's processes into its group. Called by `carry_out`, fact by fact.

use std::net::SocketAddr;

use super::carry_out::{Controller, note};
use super::{AttemptEnd, Effect, Fact, Want};
use crate::model::cluster::Slot;
use crate::model::group::{Exit, Finish, Member, Order, Phase};
use crate::model::ids::Incarnation;

impl Controller {
    pub(super) fn take(&mut self, fact: &Fact) {
        match fact {
            Fact::Ready { incarnation, address } => {
                if !self.is_member(*incarnation) {
                    let joining = self.group.next.iter_mut().flat_map(|next| &mut next.members);
                    for member in joining.filter(|member| member.incarnation == *incarnation) {
                        member.address = Some(*address);
                    }
                }
            }
            Fact::Committed { incarnation, generation, order, step, members, address } => {
                self.group.order = self.group.order.max(*order);
                if *generation > self.group.generation {
                    self.adopt(*generation, *order, *step, members);
                }
                if *generation == self.group.generation {
                    self.set_address(*incarnation, *address);
                }
            }
            Fact::Broken { incarnation, generation, order, address, .. } => {
                self.group.order = self.group.order.max(*order);
                self.hear_broken(*incarnation, *generation, *address);
            }
            Fact::OrderFailed { incarnation, generation, order, error, address } => {
                self.group.order = self.group.order.max(*order);
                self.set_address(*incarnation, *address);
                let current = self.group.next.as_ref().is_some_and(|next| (next.generation, next.order) == (*generation, *order));
                if current {
                    self.give_up(format!("a rank could not join the new group: {error}"));
                }
                // It is in no group, and ready for another try.
                if self.group.crashed.is_some() && self.group.next.is_none() && self.is_member(*incarnation) {
                    self.hear_outside(*incarnation);
                }
            }
            Fact::Exited { incarnation, exit } => self.lose(*incarnation, exit, false),
            Fact::NodeLost { node, .. } => {
                let gone: Vec<Incarnation> =
                    self.processes().filter(|member| member.slot.node == *node).map(|member| member.incarnation).collect();
                for incarnation in gone {
                    self.lose(incarnation, &Exit::Lost { message: "its node is lost".into() }, true);
                }
            }
        }
    }

    /// Every node that holds the trial's state is silent, and the plan leaves it there: ending the attempt would gain nothing.
    pub(super) fn is_stranded(&self, want: &Want, facts: &[Fact]) -> bool {
        let is_lost = |slot: &Slot| facts.iter().any(|fact| matches!(fact, Fact::NodeLost { node, .. } if *node == slot.node));
        let Want::Run { slots, .. } = want else { return false };
        let members = &self.group.members;
        !members.is_empty() && members.iter().all(|member| is_lost(&member.slot)) && slots.iter().all(is_lost)
    }

    fn hear_outside(&mut self, incarnation: Incarnation) {
        if !self.group.broken.contains(&incarnation) {
            self.group.broken.push(incarnation);
        }
    }

    pub(super) fn hear_broken(&mut self, incarnation: Incarnation, generation: u32, address: SocketAddr) {
        if !self.is_member(incarnation) || generation < self.group.generation {
            return;
        }
        self.set_address(incarnation, address);
        let re_forming = self.group.next.as_ref().filter(|next| next.crash);
        if re_forming.is_some_and(|next| next.generation != generation) {
            return;
        }
        self.group.crashed.get_or_insert(self.now);
        self.hear_outside(incarnation);
        // The survivors' new group broke in its turn: nothing is left to wait for.
        if let Some(next) = self.group.next.as_mut().filter(|next| next.crash && next.generation == generation) {
            next.deadline = self.now;
        }
    }

    /// A rank committed on `generation`: whatever order made it, it is the membership now.
    pub(super) fn adopt(&mut self, generation: u32, order: u32, step: u64, together: &[Incarnation]) {
        let named = |candidate: &Option<Order>| candidate.as_ref().is_some_and(|o| (o.generation, o.order) == (generation, order));
        let (members, crash) = if named(&self.group.next) {
            self.group.next.take().map(|next| (next.members, next.crash)).unwrap_or_default()
        } else if named(&self.group.abandoned) {
            self.effects.push(note("the ranks had already switched when the order was given up: the switch stands"));
            self.group.abandoned.take().map(|given_up| (given_up.members, given_up.crash)).unwrap_or_default()
        } else {
            // No order of ours: their node's agent formed the group anew.
            let ordered = [&self.group.next, &self.group.abandoned].into_iter().flatten().flat_map(|order| &order.members);
            let known: Vec<&Member> = self.group.members.iter().chain(ordered).collect();
            let find = |who: &Incarnation| known.iter().find(|member| member.incarnation == *who).map(|member| (*member).clone());
            (together.iter().filter_map(find).collect(), true)
        };
        if members.is_empty() {
            return;
        }
        let stays = |member: &Member| members.iter().any(|m| m.incarnation == member.incarnation);
        // Whoever was lost before is of no account to it; if it broke since, its ranks say so.
        self.group.crashed = None;
        if !crash {
            let leavers: Vec<Member> = self.group.members.iter().filter(|member| !stays(member)).cloned().collect();
            self.group.leavers.extend(leavers);
        }
        // Sockets bound ahead are spent: each rank names its next one when it has committed.
        self.group.members = members.into_iter().map(|member| Member { address: None, ..member }).collect();
        self.group.lost.clear();
        self.group.generation = generation;
        self.group.next = None;
        self.group.abandoned = None;
        self.group.broken.clear();
        self.group.last_resize = Some(self.now);
        if self.group.members.len() == self.group.target.len() {
            self.group.failures = 0;
        }
        self.effects.push(Effect::Stable { generation, width: self.group.width(), step });
    }

    pub(super) fn lose(&mut self, incarnation: Incarnation, exit: &Exit, with_node: bool) {
        self.group.leavers.retain(|member| member.incarnation != incarnation);
        let was_member = self.is_member(incarnation);
        let was_joiner = self.joiners().any(|member| member.incarnation == incarnation);
        if !was_member && !was_joiner {
            return;
        }
        let end = match exit {
            Exit::OutOfMemory { peak_bytes } => AttemptEnd::OutOfMemory { peak_bytes: *peak_bytes },
            Exit::Unusable { message } => AttemptEnd::Unusable { message: message.clone() },
            Exit::Lost { .. } if with_node => AttemptEnd::NodeLost,
            Exit::Lost { message } => AttemptEnd::Lost { message: message.clone() },
            // Told to go by its agent (a drain, an agent that shuts down).
            Exit::Clean => AttemptEnd::NodeLost,
        };
        let has_left = was_member && *exit == Exit::Clean && self.is_leaving(incarnation);
        let message = match exit {
            Exit::Lost { message } | Exit::Unusable { message } => message.as_str(),
            Exit::OutOfMemory { .. } => "out of memory",
            Exit::Clean => "it was told to exit",
        };
        if was_joiner {
            self.lose_joiner(incarnation, message);
        } else if self.group.next.as_ref().is_some_and(|next| next.crash && next.members.iter().any(|m| m.incarnation == incarnation)) {
            // Survivors wait for it in vain.
            self.give_up(format!("a surviving rank was lost ({message})"));
        }
        let (gone, left) = std::mem::take(&mut self.group.members).into_iter().partition(|member| member.incarnation == incarnation);
        self.group.members = left;
        self.group.lost.extend::<Vec<Member>>(gone);
        self.group.broken.retain(|member| *member != incarnation);
        for order in [&mut self.group.next, &mut self.group.abandoned].into_iter().flatten() {
            order.members.retain(|member| member.incarnation != incarnation);
        }
        if matches!(end, AttemptEnd::OutOfMemory { .. } | AttemptEnd::Unusable { .. }) {
            self.group.fault = Some(end);
            self.end_with(Finish::Stop);
        } else if self.group.finish.is_none() && !has_left {
            if was_member {
                self.group.crashed.get_or_insert(self.now);
                self.effects.push(note(format!("a rank was lost ({message})")));
            }
            if was_member || self.group.generation == 0 {
                self.group.fault = Some(end);
            }
        }
    }

    /// An armed order leaves it out, so it goes by itself once the switch is done.
    pub(super) fn is_leaving(&self, incarnation: Incarnation) -> bool {
        let orders = [&self.group.next, &self.group.abandoned];
        orders.into_iter().flatten().any(|o| o.phase == Phase::Armed && !o.crash && o.members.iter().all(|m| m.incarnation != incarnation))
    }

    pub(super) fn lose_joiner(&mut self, incarnation: Incarnation, message: &str) {
        let Some(next) = &mut self.group.next else { return };
        match next.phase {
            Phase::Prepare => {
                next.members.retain(|member| member.incarnation != incarnation);
                self.group.failures += 1;
                self.effects.push(note(format!("a joining rank was lost before it was ready ({message})")));
            }
            // Frozen: the order cannot come about without it. At a first start nobody trains on, so those left start over.
            Phase::Armed => self.give_up(format!("a joining rank was lost ({message})")),
        }
    }
}
