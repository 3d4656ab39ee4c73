//! A fake world of ranks, nodes and a slow network: thousands of seeds of joins, leaves, kills and late messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use uuid::Uuid;

use super::*;
use crate::elastic::Survivors;
use crate::elastic::steer::same_slots;
use crate::model::cluster::Slot;
use crate::model::group::{Exit, Finish, Order};
use crate::model::ids::{NodeId, TrialId};
use crate::model::width::Width;
use crate::rng::Seed;

const TICK: i64 = 100;

fn slot(device: u16) -> Slot {
    Slot { node: NodeId(Uuid::from_u128(u128::from(device / 2))), device: device % 2, parts: 1 }
}

fn run(slots: &[Slot]) -> Want {
    Want::Run { slots: slots.to_vec(), run_until: 1.0, plan: 1 }
}

fn attempt() -> Attempt {
    Attempt { trial: TrialId(Uuid::from_u128(7)), attempt: 1 }
}

#[derive(Debug)]
struct Process {
    slot: Slot,
    ready_at: i64,
    ready: bool,
    alive: bool,
    broken: bool,
    /// The group that it is really in, whatever the row says.
    generation: u32,
    member: bool,
    seen: Option<(u32, u32)>,
    /// An order that it could not take part in.
    failed: Option<(u32, u32)>,
    /// The generation on which it last committed, and with whom.
    committed: u32,
    peers: Vec<Member>,
    outbox: VecDeque<(i64, Fact)>,
}

struct World {
    rng: ChaCha8Rng,
    now: i64,
    group: Option<Group>,
    processes: BTreeMap<Incarnation, Process>,
    /// The real membership: who computes together.
    real: Option<(u32, Vec<Incarnation>)>,
    port: u16,
    orders: BTreeSet<(u32, u32)>,
    ended: u32,
    chaos: bool,
    /// Each node's agent, and the order that one of them gave.
    agents: BTreeMap<NodeId, Survivors>,
    own: Option<Order>,
}

impl World {
    fn new(seed: u64) -> Self {
        World {
            rng: Seed(seed).child("world", 0).rng(),
            now: 0,
            group: None,
            processes: BTreeMap::new(),
            real: None,
            port: 1000,
            orders: BTreeSet::new(),
            ended: 0,
            chaos: true,
            agents: BTreeMap::new(),
            own: None,
        }
    }

    fn address(&mut self) -> SocketAddr {
        self.port += 1;
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn say(&mut self, who: Incarnation, fact: Fact) {
        let delay = self.rng.random_range(0..800);
        let twice = self.rng.random_bool(0.1);
        if let Some(process) = self.processes.get_mut(&who) {
            self.agents.entry(process.slot.node).or_default().hear(&fact);
            let at = process.outbox.back().map_or(0, |(at, _)| *at).max(self.now + delay);
            process.outbox.push_back((at, fact.clone()));
            if twice {
                process.outbox.push_back((at + 300, fact));
            }
        }
    }

    fn kill(&mut self, who: Incarnation, exit: Exit) {
        let Some(process) = self.processes.get_mut(&who).filter(|process| process.alive) else { return };
        process.alive = false;
        self.say(who, Fact::Exited { incarnation: who, exit: exit.clone() });
        if let Some((generation, members)) = self.real.clone().filter(|(_, members)| members.contains(&who)) {
            let rest: Vec<_> = members.into_iter().filter(|m| *m != who).collect();
            for peer in &rest {
                self.break_rank(*peer, generation);
            }
            self.real = (!rest.is_empty()).then_some((generation, rest));
        }
    }

    fn break_rank(&mut self, who: Incarnation, generation: u32) {
        let address = self.address();
        if let Some(process) = self.processes.get_mut(&who).filter(|process| process.alive && !process.broken) {
            process.broken = true;
            let (committed, members, order) = (process.committed, process.peers.clone(), process.seen.map_or(0, |(_, order)| order));
            self.say(who, Fact::Broken { incarnation: who, generation, order, step: 0, committed, members, address });
        }
    }

    fn tick(&mut self, want: &Want) {
        self.now += TICK;
        self.run_agents();
        self.run_ranks();
        if self.chaos && self.rng.random_bool(0.002) {
            // Agents that start again know nothing of what was said before.
            (self.agents, self.own) = (BTreeMap::new(), None);
        }
        if self.chaos && self.rng.random_bool(0.01) {
            let alive: Vec<_> = self.processes.iter().filter(|(_, process)| process.alive).map(|(who, _)| *who).collect();
            if !alive.is_empty() {
                let victim = alive[self.rng.random_range(0..alive.len())];
                self.kill(victim, Exit::Lost { message: "killed".into() });
            }
        }
        let mut facts = Vec::new();
        for process in self.processes.values_mut() {
            while process.outbox.front().is_some_and(|(at, _)| *at <= self.now) {
                facts.extend(process.outbox.pop_front().map(|(_, fact)| fact));
            }
        }
        let before = self.group.clone();
        let step = carry_out(attempt(), self.group.take(), want, &facts, Time(self.now));
        let again = carry_out(attempt(), step.group.clone(), want, &facts, Time(self.now));
        if step.group.is_some()
            && !facts.iter().any(|fact| matches!(fact, Fact::Exited { .. } | Fact::Broken { .. } | Fact::OrderFailed { .. }))
        {
            assert_eq!(again.group, step.group, "the same facts again change nothing");
        }
        self.check(before.as_ref(), step.group.as_ref(), &step.effects);
        self.group = step.group;
    }

    fn check(&mut self, before: Option<&Group>, after: Option<&Group>, effects: &[Effect]) {
        if let (Some(before), Some(after)) = (before, after) {
            assert!(after.order >= before.order && after.generation >= before.generation);
        }
        if let Some(next) = after.and_then(|group| group.next.as_ref()) {
            let known = before.and_then(|group| group.next.as_ref()).is_some_and(|old| old.order == next.order);
            if !known {
                assert!(self.orders.insert((next.generation, next.order)), "an order's name is never reused");
            }
            assert!(next.generation > after.map_or(0, |group| group.generation));
            assert_eq!(next.phase == Phase::Armed, next.store.is_some());
        }
        if effects.iter().any(|effect| matches!(effect, Effect::Ended { .. })) {
            self.ended += 1;
            self.real = None;
            self.orders.clear();
            for process in self.processes.values_mut() {
                process.alive = false;
                process.outbox.clear();
            }
            self.processes.clear();
            (self.agents, self.own) = (BTreeMap::new(), None);
        }
    }

    /// Starts what is listed and was never started, ends what is not.
    fn run_agents(&mut self) {
        let listed: Vec<Member> = self.group.iter().flat_map(listed).collect();
        for member in &listed {
            let taken = self.processes.values().any(|process| process.alive && process.slot == member.slot);
            if !self.processes.contains_key(&member.incarnation) && !taken {
                let ready_at = self.now + self.rng.random_range(300..3000);
                let process = Process {
                    slot: member.slot,
                    ready_at,
                    ready: false,
                    alive: true,
                    broken: false,
                    generation: 0,
                    member: false,
                    seen: None,
                    failed: None,
                    committed: 0,
                    peers: Vec::new(),
                    outbox: VecDeque::new(),
                };
                self.processes.insert(member.incarnation, process);
            }
        }
        let unlisted: Vec<_> = self
            .processes
            .iter()
            .filter(|(who, process)| process.alive && listed.iter().all(|member| member.incarnation != **who))
            .map(|(who, _)| *who)
            .collect();
        for who in unlisted {
            self.kill(who, Exit::Lost { message: "ended by its agent".into() });
        }
    }

    fn run_ranks(&mut self) {
        let waking: Vec<_> =
            self.processes.iter().filter(|(_, p)| p.alive && !p.ready && p.ready_at <= self.now).map(|(who, _)| *who).collect();
        for who in waking {
            let address = self.address();
            self.processes.get_mut(&who).expect("it is there").ready = true;
            self.say(who, Fact::Ready { incarnation: who, address });
        }
        let Some(group) = self.group.clone() else { return };
        self.form_alone();
        let overtakes =
            |own: &mut Order| group.generation >= own.generation || group.next.as_ref().is_some_and(|next| next.order > own.order);
        self.own.take_if(overtakes);
        let current = self.own.clone().or(group.next.clone());
        self.fail_orders(current.as_ref());
        if group.finish.is_some() {
            let alive: Vec<_> = self.processes.iter().filter(|(_, process)| process.alive).map(|(who, _)| *who).collect();
            for who in alive {
                self.processes.get_mut(&who).expect("it is there").alive = false;
                self.say(who, Fact::Exited { incarnation: who, exit: Exit::Clean });
            }
            return;
        }
        let Some(next) = current.filter(|next| next.phase == Phase::Armed) else { return };
        let old = self.real.clone().map(|(_, members)| members).unwrap_or_default();
        let new: Vec<_> = next.members.iter().map(|member| member.incarnation).collect();
        for who in old.iter().chain(&new) {
            let reached = self.rng.random_bool(0.4);
            let fresh = |process: &&mut Process| reached && process.failed != Some((next.generation, next.order));
            if let Some(process) = self.processes.get_mut(who).filter(fresh) {
                process.seen = Some((next.generation, next.order));
            }
        }
        let has_seen = |who: &Incarnation| {
            self.processes.get(who).is_some_and(|p| p.alive && p.ready && p.seen == Some((next.generation, next.order)))
        };
        let healthy = old.iter().all(|who| self.processes.get(who).is_some_and(|process| process.alive && !process.broken));
        let all = new.iter().all(has_seen) && (next.crash || (healthy && old.iter().all(has_seen)));
        // The state comes from somebody: a crash order needs a survivor, a resize an old rank.
        if !all {
            return;
        }
        for who in &new {
            let address = self.address();
            let process = self.processes.get_mut(who).expect("it has seen the order");
            process.generation = next.generation;
            process.member = true;
            process.broken = false;
            process.committed = next.generation;
            process.peers.clone_from(&next.members);
            let (generation, order, members) = (next.generation, next.order, new.clone());
            self.say(*who, Fact::Committed { incarnation: *who, generation, order, step: 1, members, address });
        }
        if !next.crash {
            for who in old.iter().filter(|who| !new.contains(who)) {
                self.processes.get_mut(who).expect("it was a member").alive = false;
                self.say(*who, Fact::Exited { incarnation: *who, exit: Exit::Clean });
            }
        }
        self.real = Some((next.generation, new));
    }
}

impl World {
    /// Nodes form their own groups anew.
    fn form_alone(&mut self) {
        let nodes: BTreeSet<NodeId> = self.processes.values().map(|process| process.slot.node).collect();
        for node in nodes {
            let of_node = self.processes.iter().filter(|(_, process)| process.alive && process.slot.node == node);
            let alive = of_node.map(|(who, _)| *who).collect();
            let agent = self.agents.entry(node).or_default();
            if let Some(order) = agent.form(attempt().trial, attempt().attempt, node, &alive, Time(self.now)) {
                assert!(self.orders.insert((order.generation, order.order)), "an order's name is never reused");
                assert!(order.members.iter().all(|member| member.slot.node == node));
                self.own = Some(order);
            }
        }
    }

    /// Survivors who wait for others in vain, or under an order that was given up, say that they are free again.
    fn fail_orders(&mut self, current: Option<&Order>) {
        let name = current.map(|order| (order.generation, order.order));
        let is_alive = |who: &Incarnation| self.processes.get(who).is_some_and(|process| process.alive);
        let vain = current.is_some_and(|order| !order.members.iter().all(|member| is_alive(&member.incarnation)));
        let free = |process: &Process| process.alive && process.broken && process.seen.is_some() && (vain || process.seen != name);
        let freed: Vec<_> = self.processes.iter().filter(|(_, process)| free(process)).map(|(who, _)| *who).collect();
        for who in freed {
            let address = self.address();
            let process = self.processes.get_mut(&who).expect("it is there");
            process.failed = process.seen.take();
            let (generation, order) = process.failed.expect("it has seen one");
            self.say(who, Fact::OrderFailed { incarnation: who, generation, order, error: "in vain".into(), address });
        }
    }
}

fn listed(group: &Group) -> Vec<Member> {
    let mut all: Vec<Member> = group.members.clone();
    for member in group.next.iter().flat_map(|next| &next.members).chain(&group.leavers) {
        if all.iter().all(|known| known.incarnation != member.incarnation) {
            all.push(member.clone());
        }
    }
    all
}

#[test]
fn any_history_of_targets_kills_and_late_messages_ends_at_the_target() {
    for seed in 0..600 {
        let mut world = World::new(seed);
        let mut target = vec![slot(0)];
        for round in 0..600 {
            if round % 60 == 0 {
                let width = world.rng.random_range(1..=4);
                let first = world.rng.random_range(0..3);
                target = (first..first + width).map(slot).collect();
            }
            world.tick(&run(&target));
        }
        world.chaos = false;
        // A fresh target forgets earlier failures; then nothing is left that could go wrong.
        target = vec![slot(6), slot(1), slot(2)];
        let want = run(&target);
        for _ in 0..3000 {
            world.tick(&want);
        }
        let group = world.group.as_ref().unwrap_or_else(|| panic!("seed {seed}: the trial runs"));
        let held: Vec<Slot> = group.members.iter().map(|member| member.slot).collect();
        assert!(same_slots(&held, &target), "seed {seed}: {group:#?}");
        assert!(group.next.is_none() && group.leavers.is_empty() && group.crashed.is_none(), "seed {seed}: {group:#?}");
        let real: BTreeSet<_> = world.real.clone().expect("ranks compute").1.into_iter().collect();
        assert_eq!(real, group.members.iter().map(|member| member.incarnation).collect(), "seed {seed}");
    }
}

#[test]
fn a_trial_that_must_stop_or_save_ends_once_and_leaves_no_process() {
    for seed in 0..500 {
        let mut world = World::new(seed);
        let want = run(&[slot(0), slot(1), slot(2)]);
        let moment = world.rng.random_range(1..120);
        for _ in 0..moment {
            world.tick(&want);
        }
        let ended = world.ended;
        let running = world.group.is_some();
        let end = if seed % 2 == 0 { Want::Save } else { Want::Stop };
        for _ in 0..1200 {
            world.tick(&end);
        }
        assert!(world.group.is_none(), "seed {seed}: {:#?}", world.group);
        assert_eq!(world.ended, ended + u32::from(running), "seed {seed}");
    }
}

fn ready(incarnation: Incarnation, port: u16) -> Fact {
    Fact::Ready { incarnation, address: SocketAddr::from(([127, 0, 0, 1], port)) }
}

/// A group of `width` that has committed its first step.
fn stable(width: u16) -> Group {
    let slots: Vec<Slot> = (0..width).map(slot).collect();
    let step = carry_out(attempt(), None, &run(&slots), &[], Time(0));
    let group = step.group.expect("a first order");
    let members = group.next.as_ref().expect("a first order").members.clone();
    let facts: Vec<Fact> = members.iter().zip(1..).map(|(member, port)| ready(member.incarnation, port)).collect();
    let group = carry_out(attempt(), Some(group), &run(&slots), &facts, Time(1)).group.expect("armed");
    let facts: Vec<Fact> = members
        .iter()
        .zip(100..)
        .map(|(member, port)| Fact::Committed {
            incarnation: member.incarnation,
            generation: 1,
            order: 2,
            step: 1,
            members: members.iter().map(|member| member.incarnation).collect(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        })
        .collect();
    let step = carry_out(attempt(), Some(group), &run(&slots), &facts, Time(2));
    assert!(matches!(step.effects.as_slice(), [Effect::Stable { generation: 1, .. }]));
    step.group.expect("stable")
}

#[test]
fn another_part_of_the_same_device_asks_for_no_order() {
    let half = Slot { parts: 2, ..slot(0) };
    let step = carry_out(attempt(), Some(stable(1)), &run(&[half]), &[], Time(0));
    let group = step.group.expect("it runs on");
    assert_eq!((&group.next, group.width(), group.members.len()), (&None, Width::Fraction(2), 1));
    assert_eq!(step.effects, []);
}

#[test]
fn a_late_joiner_is_dropped_and_the_old_ranks_keep_their_group() {
    let group = stable(1);
    let want = run(&[slot(0), slot(1)]);
    let asked = carry_out(attempt(), Some(group.clone()), &want, &[], Time(10));
    let wake = asked.wake_at.expect("a deadline");
    let step = carry_out(attempt(), asked.group, &want, &[], wake);
    let after = step.group.expect("still running");
    assert_eq!(after.members, group.members);
    assert_eq!(after.failures, 1);
    assert_eq!(after.width(), Width::ONE);
}

#[test]
fn carry_out_stops_asking_for_joiners_that_keep_failing_until_the_target_changes() {
    let mut group = Some(stable(1));
    let want = run(&[slot(0), slot(1)]);
    for round in 0..10i64 {
        let step = carry_out(attempt(), group, &want, &[], Time(1000 * 1000 * round));
        group = step.group;
    }
    let tired = group.expect("still running");
    assert_eq!((tired.failures, &tired.next), (MOST_FAILURES, &None));
    let step = carry_out(attempt(), Some(tired), &run(&[slot(0), slot(2)]), &[], Time(1000 * 1000 * 11));
    assert!(step.group.expect("still running").next.is_some());
}

#[test]
fn a_commit_on_an_order_that_was_given_up_is_the_truth() {
    let group = stable(1);
    let want = run(&[slot(0), slot(1)]);
    let group = carry_out(attempt(), Some(group), &want, &[], Time(10)).group.expect("preparing");
    let joiner = group.next.as_ref().expect("an order").members[1].incarnation;
    let armed = carry_out(attempt(), Some(group), &want, &[ready(joiner, 9)], Time(20)).group.expect("armed");
    let order = armed.next.clone().expect("an order");
    assert_eq!(order.phase, Phase::Armed);
    let given_up = carry_out(attempt(), Some(armed), &want, &[], order.deadline).group.expect("running");
    let commit = Fact::Committed {
        incarnation: joiner,
        generation: order.generation,
        order: order.order,
        step: 9,
        members: order.members.iter().map(|member| member.incarnation).collect(),
        address: SocketAddr::from(([127, 0, 0, 1], 77)),
    };
    let step = carry_out(attempt(), Some(given_up), &want, &[commit], order.deadline + Span(1));
    let after = step.group.expect("running");
    assert_eq!((after.generation, after.members.len(), after.next), (order.generation, 2, None));
}

#[test]
fn a_rank_out_of_memory_ends_the_whole_attempt_as_such() {
    let group = stable(2);
    let want = run(&[slot(0), slot(1)]);
    let (victim, other) = (group.members[0].incarnation, group.members[1].incarnation);
    let out = Fact::Exited { incarnation: victim, exit: Exit::OutOfMemory { peak_bytes: 5 } };
    let stopping = carry_out(attempt(), Some(group), &want, &[out], Time(10)).group.expect("the other rank still runs");
    assert_eq!(stopping.finish, Some(Finish::Stop));
    let step = carry_out(attempt(), Some(stopping), &want, &[Fact::Exited { incarnation: other, exit: Exit::Clean }], Time(20));
    assert_eq!(step.effects, [Effect::Ended { end: AttemptEnd::OutOfMemory { peak_bytes: 5 } }]);
}

fn lost(device: u16) -> Fact {
    Fact::NodeLost { node: slot(device).node, for_good: false }
}

#[test]
fn a_silent_node_with_every_rank_on_it_keeps_them_until_the_plan_has_another_place() {
    let group = stable(2);
    let stays = carry_out(attempt(), Some(group.clone()), &run(&[slot(0), slot(1)]), &[lost(0)], Time(10));
    assert_eq!((stays.group.as_ref(), stays.effects.as_slice()), (Some(&group), [].as_slice()));
    let elsewhere = run(&[slot(2), slot(3)]);
    let ordered = carry_out(attempt(), stays.group, &elsewhere, &[], Time(20)).group;
    let ended = carry_out(attempt(), ordered, &elsewhere, &[lost(0)], Time(30));
    assert_eq!(ended.group, None);
    assert!(ended.effects.contains(&Effect::Ended { end: AttemptEnd::NodeLost }), "and it is not the trial's failure");
    let gone = Fact::NodeLost { node: slot(0).node, for_good: true };
    assert_eq!(carry_out(attempt(), Some(group), &run(&[slot(0), slot(1)]), &[gone], Time(40)).group, None);
}

fn broken(incarnation: Incarnation, group: &Group, port: u16) -> Fact {
    let (generation, members) = (group.generation, group.members.clone());
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Fact::Broken { incarnation, generation, order: 2, step: 5, committed: generation, members, address }
}

#[test]
fn ranks_that_cannot_be_reached_after_a_crash_are_left_behind_and_no_attempt_is_lost() {
    let group = stable(4);
    let want = run(&[slot(0), slot(1), slot(2), slot(3)]);
    let names: Vec<Incarnation> = group.members.iter().map(|member| member.incarnation).collect();
    let facts = [broken(names[0], &group, 7), broken(names[1], &group, 8)];
    let waiting = carry_out(attempt(), Some(group), &want, &facts, Time(10));
    assert_eq!(waiting.group.as_ref().map(|group| &group.next), Some(&None), "the others may speak yet");
    let wake = waiting.wake_at.expect("it asks to be woken");
    let group = carry_out(attempt(), waiting.group, &want, &[], wake).group.expect("it goes on");
    let order = group.next.as_ref().expect("an order");
    assert_eq!(order.members.iter().map(|member| member.incarnation).collect::<Vec<_>>(), names[..2]);
    assert!(order.crash && order.phase == Phase::Armed && order.generation == 2);
    // The node is given up later; that the ranks on it are gone is no news.
    let after = carry_out(attempt(), Some(group.clone()), &want, &[lost(2)], wake + Span(1)).group;
    assert_eq!(after, Some(group));
}

#[test]
fn survivors_are_called_together_anew_when_one_of_them_dies_too() {
    let group = stable(3);
    let want = run(&[slot(0), slot(1), slot(2)]);
    let names: Vec<Incarnation> = group.members.iter().map(|member| member.incarnation).collect();
    let dies = |incarnation| Fact::Exited { incarnation, exit: Exit::Lost { message: "killed".into() } };
    let facts = [dies(names[2]), broken(names[0], &group, 7), broken(names[1], &group, 8)];
    let first = carry_out(attempt(), Some(group), &want, &facts, Time(10)).group.expect("it goes on");
    let order = first.next.clone().expect("an order");
    assert!(order.crash && order.members.len() == 2);
    let given_up = carry_out(attempt(), Some(first), &want, &[dies(names[1])], Time(20)).group.expect("it goes on");
    assert_eq!(given_up.next, None, "nobody waits for who is gone");
    let free = Fact::OrderFailed {
        incarnation: names[0],
        generation: order.generation,
        order: order.order,
        error: "given up".into(),
        address: SocketAddr::from(([127, 0, 0, 1], 9)),
    };
    let second = carry_out(attempt(), Some(given_up), &want, &[free], Time(30)).group.expect("it goes on").next.expect("an order");
    assert_eq!(second.members.iter().map(|member| member.incarnation).collect::<Vec<_>>(), names[..1]);
    assert!(second.generation > order.generation && second.order > order.order);
}

#[test]
fn a_group_that_never_left_its_node_is_formed_anew_there_and_that_is_a_fact() {
    let group = stable(2);
    let want = run(&[slot(0), slot(1)]);
    let (node, names) = (slot(0).node, [group.members[0].incarnation, group.members[1].incarnation]);
    let dies = Fact::Exited { incarnation: names[1], exit: Exit::Lost { message: "killed".into() } };
    let breaks = broken(names[0], &group, 7);
    let mut agent = Survivors::default();
    agent.hear(&breaks);
    let (both, one) = (BTreeSet::from(names), BTreeSet::from([names[0]]));
    assert_eq!(agent.form(attempt().trial, 1, node, &both, Time(1)), None, "the other has not spoken, and lives");
    let order = agent.form(attempt().trial, 1, node, &one, Time(1)).expect("an order");
    assert_eq!((order.generation, order.order, order.members.len(), order.crash), (2, 3, 1, true));
    assert_eq!(agent.form(attempt().trial, 1, node, &one, Time(2)), None, "once");

    // The service leaves it to the agent, for a while.
    let waiting = carry_out(attempt(), Some(group), &want, &[breaks, dies], Time(10));
    assert_eq!(waiting.group.as_ref().map(|group| &group.next), Some(&None));
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let commit = Fact::Committed { incarnation: names[0], generation: 2, order: 3, step: 6, members: vec![names[0]], address };
    let step = carry_out(attempt(), waiting.group.clone(), &want, &[commit], Time(20));
    assert!(step.effects.contains(&Effect::Stable { generation: 2, width: Width::ONE, step: 6 }));
    let adopted = step.group.expect("it runs");
    assert_eq!((adopted.generation, adopted.members.len(), adopted.crashed), (2, 1, None));
    let next = adopted.next.expect("back to the width of the plan");
    assert_eq!((next.generation, next.order, next.crash), (3, 4, false));

    let late = waiting.wake_at.expect("it asks to be woken");
    let order = carry_out(attempt(), waiting.group, &want, &[], late).group.expect("it runs").next.expect("the agent had its time");
    assert_eq!((order.crash, order.members.len(), order.order), (true, 1, 4));
}

#[test]
fn a_group_over_two_nodes_is_not_an_agents_to_form() {
    let group = stable(3);
    let mut agent = Survivors::default();
    let names: Vec<Incarnation> = group.members.iter().map(|member| member.incarnation).collect();
    agent.hear(&broken(names[0], &group, 7));
    agent.hear(&broken(names[1], &group, 8));
    let alive = BTreeSet::from([names[0], names[1]]);
    assert_eq!(agent.form(attempt().trial, 1, slot(0).node, &alive, Time(1)), None);
}
