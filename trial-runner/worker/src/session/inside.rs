//! Inside a group: step after step, validation at each epoch's end, rounds of words at a milestone. What to do next follows from
//! the state and from what the ranks agreed on last, so all of them do the same.

use std::time::Duration;

use elastune_api::agent::{Exit, ReportBody};
use elastune_api::worker::Activity;

use super::{Membership, Next, Session};
use crate::control::{Agreed, Words};
use crate::exchange::Broken;

impl Session {
    pub(super) fn inside(&mut self, mut membership: Box<Membership>) -> Next {
        let mut heard = 0;
        self.pulse.set(Activity::InCollective);
        let mut exchanged = membership.exchange.control(self.words());
        self.pulse.set(Activity::Computing);
        if membership.leads() {
            self.tell_measured();
        }
        loop {
            let agreed = match exchanged {
                Ok(agreed) => agreed,
                Err(error) => return self.lose(membership, error.to_string()),
            };
            if let Some(finish) = agreed.finish {
                return Next::Exit(self.finish(finish, membership.leads()));
            }
            if let Some(order) = agreed.switch {
                return self.switch(membership, order);
            }
            if let Some(why) = self.must_go() {
                return Next::Exit(self.go(why));
            }
            let news = self.link.news();
            if news != heard {
                heard = news;
                if let Some(exit) = self.hear(&membership) {
                    return Next::Exit(exit);
                }
                if self.is_re_forming() {
                    return self.lose(membership, "the group is being formed anew".into());
                }
            }
            if let Some(exit) = self.glance_at_pending() {
                return Next::Exit(exit);
            }
            exchanged = if self.trainer.to_measure() {
                self.measure(&mut membership).map(|()| Agreed { run_until: agreed.run_until, ..Agreed::default() })
            } else if self.trainer.counters.step < agreed.run_until {
                self.step(&mut membership)
            } else {
                self.hold(&mut membership)
            };
        }
    }

    /// What this rank adds to an exchange.
    pub(super) fn words(&self) -> Words {
        let control = self.control();
        let pending = self.pending.as_ref().filter(|pending| pending.is_built()).map(|pending| pending.order.order);
        let ready = self.leaving.as_ref().map(|order| order.order).or(pending).unwrap_or_default();
        Words {
            step: self.trainer.counters.step,
            ready,
            finish: control.as_ref().and_then(|control| control.finish),
            run_until: control.map_or(0, |control| self.trainer.schedule.steps(control.run_until)),
            donated: false,
        }
    }

    fn step(&mut self, membership: &mut Membership) -> Result<Agreed, Broken> {
        let step = self.trainer.counters.step;
        let words = self.words();
        let agreed = membership.exchange.step(&mut self.trainer, || words)?;
        let batch = self.trainer.schedule.batch(step);
        let base = step / self.trainer.schedule.steps_per_epoch() * self.trainer.schedule.samples;
        self.ledger.commit(step, membership.generation, membership.exchange.width, base + batch.start..base + batch.end);
        self.rates.step();
        self.tell_committed(membership);
        if membership.leads() {
            self.tell_progress(membership, false);
            self.save_in_background();
        }
        Ok(agreed)
    }

    /// Once a group: it is the membership now. Its next socket goes with it.
    pub(super) fn tell_committed(&mut self, membership: &mut Membership) {
        if membership.committed {
            return;
        }
        membership.committed = true;
        self.generation = membership.generation;
        self.members.clone_from(&membership.members);
        if let Ok(address) = self.address() {
            let (generation, order, step) = (membership.generation, membership.order, self.trainer.counters.step);
            let members = self.members.iter().map(|member| member.incarnation).collect();
            self.link.report(ReportBody::Committed { generation, order, step, members, address });
        }
    }

    /// Takes up an order that is newer than the last: builds the next group, or gets ready to leave. Exit: the others go on
    /// without this rank.
    fn hear(&mut self, membership: &Membership) -> Option<Exit> {
        let order = self.control()?.order;
        // An order that was given up before this rank was ready for it: it never will be.
        let given_up = |of: u32| order.as_ref().is_none_or(|order| order.order != of);
        if self.pending.as_ref().is_some_and(|pending| !pending.is_built() && given_up(pending.order.order)) {
            self.drop_pending();
        }
        let order = order.filter(|order| self.is_news(order))?;
        let named = order.members.iter().any(|member| member.incarnation == self.config.incarnation);
        if order.crash {
            return (!named).then(|| self.go("the others form a group without it"));
        }
        self.tried = order.order;
        self.drop_pending();
        self.leaving = None;
        if !named {
            tracing::info!("leaves generation {} at the next common step", membership.generation);
            self.leaving = Some(order);
            return None;
        }
        match self.assemble(&order, false) {
            Ok(assembly) => self.pending = Some(assembly),
            Err(error) => return self.order_failed(order.generation, order.order, error.to_string()),
        }
        None
    }

    /// Survivors of a crash are called together while this rank still thinks its group sound.
    fn is_re_forming(&self) -> bool {
        self.control().and_then(|control| control.order).is_some_and(|order| order.crash && self.is_news(&order))
    }

    fn glance_at_pending(&mut self) -> Option<Exit> {
        match self.pending.as_mut()?.poll(Duration::ZERO)? {
            Ok(()) => None,
            Err(error) => self.pending_failed(error),
        }
    }

    /// The group broke, or is given up.
    fn lose(&mut self, membership: Box<Membership>, error: String) -> Next {
        let generation = membership.generation;
        // Closes the connections, so that peers who still wait hear of it.
        self.reaper.reap(membership);
        self.broke(generation, error)
    }
}
