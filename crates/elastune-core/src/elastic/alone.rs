//! What a node does by itself when a group breaks that never left it: forms it anew with the survivors, whether or not the service
//! is there. Called by the node's agent with what its ranks say; carry-out takes their first commit as a fact.
//!
//! Agents give odd orders, carry-out even ones, each above all that it has heard of: so no two groups share a name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::Fact;
use super::carry_out::ARM;
use crate::model::group::{Member, Order, Phase};
use crate::model::ids::{Incarnation, NodeId, TrialId};
use crate::time::Time;

/// What ranks of one attempt on this node have said since their group broke.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Survivors {
    /// The latest generation on which any of them committed, and all that did so together, the dead included.
    committed: u32,
    members: Vec<Member>,
    /// In no group, ready for another: where each would listen.
    free: BTreeMap<Incarnation, SocketAddr>,
    /// The highest ones heard of.
    generation: u32,
    order: u32,
}

impl Survivors {
    pub fn hear(&mut self, fact: &Fact) {
        match fact {
            Fact::Broken { incarnation, generation, order, committed, members, address, .. } => {
                if *committed > self.committed {
                    (self.committed, self.members) = (*committed, members.clone());
                }
                self.free.insert(*incarnation, *address);
                self.raise(*generation, *order);
            }
            Fact::OrderFailed { incarnation, generation, order, address, .. } => {
                // Of a resize, it is still in its group.
                if is_agents(*order) {
                    self.free.insert(*incarnation, *address);
                }
                self.raise(*generation, *order);
            }
            Fact::Committed { incarnation, generation, order, .. } => {
                self.free.remove(incarnation);
                self.raise(*generation, *order);
            }
            Fact::Ready { .. } | Fact::Exited { .. } | Fact::NodeLost { .. } => {}
        }
    }

    fn raise(&mut self, generation: u32, order: u32) {
        self.generation = self.generation.max(generation);
        self.order = self.order.max(order);
    }

    /// The order to give to its members now, if the group was this node's alone and all who are left of it wait for one.
    pub fn form(&mut self, trial: TrialId, attempt: u32, node: NodeId, alive: &BTreeSet<Incarnation>, now: Time) -> Option<Order> {
        if self.members.iter().any(|member| member.slot.node != node) {
            return None;
        }
        let mut left = Vec::new();
        for member in self.members.iter().filter(|member| alive.contains(&member.incarnation)) {
            let address = self.free.get(&member.incarnation)?;
            left.push(Member { address: Some(*address), ..member.clone() });
        }
        let store = left.first()?.address;
        self.free.clear();
        self.generation += 1;
        self.order = agents(self.order);
        Some(Order {
            trial,
            attempt,
            generation: self.generation,
            order: self.order,
            phase: Phase::Armed,
            members: left,
            store,
            crash: true,
            deadline: now + ARM,
        })
    }
}

/// The next order for an agent to give.
fn agents(highest: u32) -> u32 {
    (highest + 1) | 1
}

/// The next order for carry-out to give.
pub(super) fn carry_outs(highest: u32) -> u32 {
    (highest | 1) + 1
}

fn is_agents(order: u32) -> bool {
    order % 2 == 1
}
