//! The controller's one function: facts in, the next group row out. Called through `elastic::carry_out`.
//!
//! The life of an order: PREPARE while joiners start, ARMED once its members are frozen, then either a first commit makes it
//! the membership or it is given up. Ranks decide when to switch, so giving up an armed order is only a request: a commit
//! on it is still taken as the truth.

use std::net::SocketAddr;

use super::{Attempt, AttemptEnd, Effect, Fact, Step, Want};
use crate::model::cluster::Slot;
use crate::model::group::{Exit, Finish, Group, Member, Order, Phase};
use crate::model::ids::Incarnation;
use crate::time::{Span, Time};

/// Joiners load libtorch and data in it: far above what a loaded machine needs.
pub const PREPARE: Span = Span::from_secs(90);
/// Ranks build a group in milliseconds; a connect that hangs takes up to 25 s to give up.
pub const ARM: Span = Span::from_secs(40);
/// How long survivors of a crash are waited for before the group is re-formed with those who spoke.
pub const RE_FORM: Span = Span::from_secs(5);
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
    for fact in facts {
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

struct Controller {
    group: Group,
    effects: Vec<Effect>,
    now: Time,
}

impl Controller {
    fn take(&mut self, fact: &Fact) {
        match fact {
            Fact::Ready { incarnation, address } => {
                if !self.is_member(*incarnation) {
                    let joining = self.group.next.iter_mut().flat_map(|next| &mut next.members);
                    for member in joining.filter(|member| member.incarnation == *incarnation) {
                        member.address = Some(*address);
                    }
                }
            }
            Fact::Committed { incarnation, generation, order, step, address } => {
                if *generation > self.group.generation {
                    self.adopt(*generation, *order, *step);
                }
                if *generation == self.group.generation {
                    self.set_address(*incarnation, *address);
                }
            }
            Fact::Broken { incarnation, generation, address, .. } => self.hear_broken(*incarnation, *generation, *address),
            Fact::OrderFailed { incarnation, generation, order, error, address } => {
                self.set_address(*incarnation, *address);
                let current = self.group.next.as_ref().is_some_and(|next| (next.generation, next.order) == (*generation, *order));
                if current {
                    self.give_up(format!("a rank could not join the new group: {error}"));
                }
            }
            Fact::Exited { incarnation, exit } => self.lose(*incarnation, exit, false),
            Fact::NodeLost { node } => {
                let gone: Vec<Incarnation> =
                    self.processes().filter(|member| member.slot.node == *node).map(|member| member.incarnation).collect();
                for incarnation in gone {
                    self.lose(incarnation, &Exit::Lost { message: "its node is lost".into() }, true);
                }
            }
        }
    }

    fn hear_broken(&mut self, incarnation: Incarnation, generation: u32, address: SocketAddr) {
        if !self.is_member(incarnation) || generation < self.group.generation {
            return;
        }
        self.set_address(incarnation, address);
        let re_forming = self.group.next.as_ref().filter(|next| next.crash);
        if re_forming.is_some_and(|next| next.generation != generation) {
            return;
        }
        self.group.crashed.get_or_insert(self.now);
        if !self.group.broken.contains(&incarnation) {
            self.group.broken.push(incarnation);
        }
        // The survivors' new group broke in its turn: nothing is left to wait for.
        if let Some(next) = self.group.next.as_mut().filter(|next| next.crash && next.generation == generation) {
            next.deadline = self.now;
        }
    }

    /// A rank committed on `generation`: whatever order made it, it is the membership now.
    fn adopt(&mut self, generation: u32, order: u32, step: u64) {
        let named = |candidate: &Option<Order>| candidate.as_ref().is_some_and(|o| (o.generation, o.order) == (generation, order));
        let adopted = if named(&self.group.next) {
            self.group.next.take()
        } else if named(&self.group.abandoned) {
            self.effects.push(note("the ranks had already switched when the order was given up: the switch stands"));
            self.group.next = None;
            self.group.abandoned.take()
        } else {
            None
        };
        let Some(adopted) = adopted else { return };
        let stays = |member: &Member| adopted.members.iter().any(|m| m.incarnation == member.incarnation);
        if adopted.crash {
            self.group.crashed = None;
        } else {
            let leavers: Vec<Member> = self.group.members.iter().filter(|member| !stays(member)).cloned().collect();
            self.group.leavers.extend(leavers);
        }
        // Sockets bound ahead are spent: each rank names its next one when it has committed.
        self.group.members = adopted.members.into_iter().map(|member| Member { address: None, ..member }).collect();
        self.group.generation = generation;
        self.group.abandoned = None;
        self.group.broken.clear();
        self.group.last_resize = Some(self.now);
        if self.group.members.len() == self.group.target.len() {
            self.group.failures = 0;
        }
        self.effects.push(Effect::Stable { generation, width: self.group.width(), step });
    }

    fn lose(&mut self, incarnation: Incarnation, exit: &Exit, with_node: bool) {
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
        }
        self.group.members.retain(|member| member.incarnation != incarnation);
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
    fn is_leaving(&self, incarnation: Incarnation) -> bool {
        let orders = [&self.group.next, &self.group.abandoned];
        orders.into_iter().flatten().any(|o| o.phase == Phase::Armed && !o.crash && o.members.iter().all(|m| m.incarnation != incarnation))
    }

    fn lose_joiner(&mut self, incarnation: Incarnation, message: &str) {
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

    fn give_up(&mut self, why: String) {
        if let Some(next) = self.group.next.take() {
            self.group.failures += 1;
            self.effects.push(note(format!("resize given up: {why}")));
            if next.phase == Phase::Armed {
                self.group.abandoned = Some(next);
            }
        }
    }

    fn end_with(&mut self, finish: Finish) {
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

    fn steer(&mut self, want: &Want) {
        match want {
            Want::Stop => self.end_with(Finish::Stop),
            Want::Save => self.end_with(Finish::Save),
            Want::Run { slots, run_until, plan } => {
                self.group.run_until = *run_until;
                self.group.plan = *plan;
                if self.group.target != *slots {
                    self.group.target = slots.clone();
                    self.group.failures = 0;
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

    /// A new order towards the target, if the membership differs from it.
    fn order(&mut self) {
        let held: Vec<Slot> = self.group.members.iter().map(|member| member.slot).collect();
        if same_slots(&held, &self.group.target) || self.group.failures >= MOST_FAILURES {
            return;
        }
        self.group.order += 1;
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
    fn next_generation(&self) -> u32 {
        if self.group.generation == 0 {
            return 1;
        }
        let tried = [&self.group.next, &self.group.abandoned].into_iter().flatten().map(|order| order.generation).max();
        self.group.generation.max(tried.unwrap_or(0)) + 1
    }

    /// Arms an order whose joiners are ready, drops those who are late, gives up what hangs.
    fn advance(&mut self) {
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

    /// Survivors of a crash form a group of their own at once; the target is worked towards afterwards.
    fn re_form(&mut self) {
        let Some(crashed) = self.group.crashed else { return };
        let (members, now) = (&self.group.members, self.now);
        // Members are stripped from an order as they are lost, so the lengths tell whether it still holds.
        let under_way = |next: &Order| next.crash && now < next.deadline && self.group.broken.is_empty();
        if self.group.next.as_ref().is_some_and(under_way) {
            return;
        }
        let all_spoke = members.iter().all(|member| self.group.broken.contains(&member.incarnation));
        let none_can_host = members.iter().all(|member| member.address.is_none());
        if none_can_host || (!all_spoke && now < crashed + RE_FORM) {
            return;
        }
        let generation = self.next_generation();
        self.group.order += 1;
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

    fn finish(mut self) -> Step {
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
            group.crashed.map(|at| at + RE_FORM),
            group.finish_by,
            group.last_resize.filter(|_| !group.leavers.is_empty()).map(|at| at + FINISH),
        ];
        let wake_at = deadlines.into_iter().flatten().min();
        Step { group: Some(self.group), effects: self.effects, wake_at }
    }

    fn is_member(&self, incarnation: Incarnation) -> bool {
        self.group.members.iter().any(|member| member.incarnation == incarnation)
    }

    fn joiners(&self) -> impl Iterator<Item = &Member> {
        let joiner = |member: &&Member| !self.is_member(member.incarnation);
        self.group.next.iter().flat_map(|next| &next.members).filter(joiner)
    }

    fn processes(&self) -> impl Iterator<Item = &Member> {
        self.group.members.iter().chain(self.joiners()).chain(&self.group.leavers)
    }

    fn set_address(&mut self, incarnation: Incarnation, address: SocketAddr) {
        let preparing = self.group.next.as_mut().filter(|next| next.phase == Phase::Prepare);
        let ordered = preparing.into_iter().flat_map(|next| &mut next.members);
        for member in self.group.members.iter_mut().chain(ordered).filter(|member| member.incarnation == incarnation) {
            member.address = Some(address);
        }
    }
}

/// Freezes the members. The store is on the lowest stayer, else the lowest joiner: members are in that order already.
fn arm(order: &mut Order, now: Time) {
    order.phase = Phase::Armed;
    order.store = order.members.iter().find_map(|member| member.address);
    order.deadline = now + ARM;
}

fn same_slots(a: &[Slot], b: &[Slot]) -> bool {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort();
    b.sort();
    a == b
}

fn note(text: impl Into<String>) -> Effect {
    Effect::Note { text: text.into() }
}

#[cfg(test)]
#[path = "carry_out/tests.rs"]
mod tests;
