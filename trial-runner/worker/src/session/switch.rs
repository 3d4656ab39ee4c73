//! From one group into the next: who gives the state, who leaves, what happens when a group breaks.

use c10d::{Group, Store};
use elastune_api::agent::{Exit, ReportBody};
use elastune_api::worker::Activity;
use elastune_core::model::group::Order;

use super::{Membership, Next, Session};
use crate::assembly::{Assembled, prefix, remaining};
use crate::exchange::Exchange;
use crate::transfer::{Carried, Received, TransferError, differs, donor, give, introduce, receive};

impl Session {
    /// All ranks of the old group go over now, after the step that they have just committed together.
    pub(super) fn switch(&mut self, membership: Box<Membership>, order: u32) -> Next {
        if let Some(leaving) = self.leaving.take_if(|leaving| leaving.order == order) {
            return self.leave(membership, &leaving);
        }
        let Some(pending) = self.pending.take() else { return self.broke(membership.generation, "the next group is not there".into()) };
        let order = pending.order.clone();
        self.reaper.reap(membership);
        let Some(mut assembled) = pending.take() else { return self.broke(order.generation, "the next group is not there".into()) };
        self.pulse.set(Activity::InCollective);
        match introduce(assembled.group.as_ref(), self.introduction()) {
            Ok(all) => assembled.introductions = Some(all),
            Err(error) => {
                self.reaper.reap(assembled);
                return self.broke(order.generation, error.to_string());
            }
        }
        self.settle(order, assembled)
    }

    /// In a new group whose ranks know each other: gives or takes the state, then is a member.
    pub(super) fn settle(&mut self, order: Order, mut assembled: Assembled) -> Next {
        match self.share(&mut assembled) {
            Ok(()) => {}
            Err(SettleError::Exit(exit)) => return Next::Exit(exit),
            Err(SettleError::Transfer(error)) => {
                self.reaper.reap(assembled);
                if self.generation > 0 {
                    return self.broke(order.generation, error.to_string());
                }
                if let TransferError::Unlike = error {
                    return Next::Exit(Exit::Lost { message: format!("{error}: {}", self.subject.identity) });
                }
                return self.order_failed(order.generation, order.order, error.to_string()).map_or(Next::Out, Next::Exit);
            }
        }
        let aborter = assembled.group.as_ref().map(Group::aborter);
        let exchange = Exchange::new(assembled.group, self.trainer.schedule.shards, self.trainer.sum_len(), self.pulse.clone());
        self.link.set_group(exchange.rank, aborter);
        self.rates.restart();
        Next::In(Box::new(Membership {
            generation: order.generation,
            order: order.order,
            members: order.members,
            exchange,
            committed: false,
            milestone: None,
        }))
    }

    /// Afterwards every rank of the group holds the same verified state.
    fn share(&mut self, assembled: &mut Assembled) -> Result<(), SettleError> {
        if let Some(received) = assembled.received.take() {
            self.accept(received);
            return Ok(());
        }
        let all = assembled.introductions.take().unwrap_or_default();
        let rank = assembled.group.as_ref().map_or(0, Group::rank);
        let root = donor(&all);
        if root.is_none() && rank == 0 {
            self.begin().map_err(SettleError::Exit)?;
        }
        let Some(group) = assembled.group.as_ref().filter(|_| root.is_none() || differs(&all)) else { return Ok(()) };
        let root = root.unwrap_or(0);
        if rank == root {
            give(group, &self.trainer.state.flat, self.carried())?;
        } else {
            let received = receive(group, root, self.trainer.state.flat.numel(), &self.subject.identity)?;
            self.accept(received);
        }
        Ok(())
    }

    fn carried(&self) -> Carried {
        Carried { counters: self.trainer.counters.clone(), elapsed_s: self.elapsed(), identity: self.subject.identity.clone() }
    }

    /// A verified state; the same bits again for a rank that had them.
    fn accept(&mut self, received: Received) {
        self.trainer.state.set(&received.flat);
        self.trainer.counters = received.carried.counters;
        self.elapsed_s = received.carried.elapsed_s;
        self.clock = std::time::Instant::now();
        self.has_state = true;
    }

    /// Out of the group for good. Where nobody stays, the lowest rank first gives the state to the newcomers; if that fails, the
    /// old group goes on.
    fn leave(&mut self, mut membership: Box<Membership>, order: &Order) -> Next {
        let stays = |of: &Membership| of.members.iter().any(|old| order.members.iter().any(|new| new.incarnation == old.incarnation));
        if stays(&membership) {
            return Next::Exit(Exit::Clean);
        }
        let mut donated = Ok(());
        if membership.leads() {
            donated = self.donate(order);
        }
        let words = crate::control::Words { donated: membership.leads() && donated.is_ok(), ..self.words() };
        let gone = match membership.exchange.control(words) {
            Ok(agreed) => agreed.donated,
            Err(error) => return self.broke(membership.generation, error.to_string()),
        };
        if gone {
            return Next::Exit(Exit::Clean);
        }
        if let Err(error) = donated
            && let Some(exit) = self.order_failed(order.generation, order.order, error)
        {
            return Next::Exit(exit);
        }
        Next::In(membership)
    }

    fn donate(&mut self, order: &Order) -> Result<(), String> {
        let address = order.store.ok_or("the order names no store")?;
        let patience = remaining(order.deadline);
        let donors = Store::connect(address, patience)
            .and_then(|store| store.prefix(&format!("{}/state", prefix(order))))
            .and_then(|store| Group::gloo(&store, order.members.len(), order.members.len() + 1, patience, self.config.listen.ip()))
            .map_err(|error| format!("the newcomers cannot be reached: {error}"))?;
        give(&donors, &self.trainer.state.flat, self.carried()).map_err(|error| error.to_string())
    }

    /// The group is of no more use: what was committed stays, and an order will say with whom to go on.
    pub(super) fn broke(&mut self, generation: u32, error: String) -> Next {
        tracing::warn!("generation {generation} broke at step {}: {error}", self.trainer.counters.step);
        self.drop_pending();
        self.leaving = None;
        match self.address() {
            Ok(address) => {
                let (order, step, committed, members) = (self.tried, self.trainer.counters.step, self.generation, self.members.clone());
                self.link.report(ReportBody::Broken { generation, order, step, error, committed, members, address });
            }
            Err(exit) => return Next::Exit(exit),
        }
        Next::Out
    }
}

enum SettleError {
    Exit(Exit),
    Transfer(TransferError),
}

impl From<TransferError> for SettleError {
    fn from(error: TransferError) -> SettleError {
        SettleError::Transfer(error)
    }
}
