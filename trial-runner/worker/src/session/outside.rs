//! Outside any group: a joiner before its first, or a survivor of a broken one. Waits for an armed order that names it.

use std::time::{Duration, Instant};

use elastune_api::agent::Exit;
use elastune_api::worker::Activity;
use elastune_core::model::group::{Finish, Order, Phase};

use super::{Next, Session, UNORDERED};

const GLANCE: Duration = Duration::from_millis(20);

impl Session {
    pub(super) fn outside(&mut self) -> Next {
        let since = Instant::now();
        self.pulse.set(Activity::Waiting);
        self.rates.restart();
        loop {
            if let Some(why) = self.must_go() {
                return Next::Exit(self.go(why));
            }
            let seen = self.link.news();
            let control = self.control();
            if let Some(finish) = control.as_ref().and_then(|control| control.finish) {
                // A survivor can't know who else is left, so each saves; equal states give equal files.
                return Next::Exit(if finish == Finish::Save { self.go("it was asked to save") } else { Exit::Clean });
            }
            let given_up = |pending: &Order| {
                control.as_ref().is_some_and(|control| control.order.as_ref().is_none_or(|now| now.order != pending.order))
            };
            if self.has_state && self.pending.as_ref().is_some_and(|pending| given_up(&pending.order)) {
                // Survivors are called together anew once each has said that it is free, and where it listens.
                if let Some(exit) = self.pending_failed("it was given up".into()) {
                    return Next::Exit(exit);
                }
            }
            if let Some(order) = control.and_then(|control| control.order).filter(|order| self.is_news(order))
                && order.members.iter().any(|member| member.incarnation == self.config.incarnation)
            {
                self.tried = order.order;
                self.drop_pending();
                match self.assemble(&order, true) {
                    Ok(assembly) => self.pending = Some(assembly),
                    Err(error) => {
                        if let Some(exit) = self.order_failed(order.generation, order.order, error.to_string()) {
                            return Next::Exit(exit);
                        }
                    }
                }
            }
            match self.pending.as_mut().and_then(|pending| pending.poll(GLANCE)) {
                Some(Ok(())) => return self.enter(),
                Some(Err(error)) => {
                    if let Some(exit) = self.pending_failed(error) {
                        return Next::Exit(exit);
                    }
                }
                None if self.pending.is_none() => self.link.wait(seen, 5 * GLANCE),
                None => {}
            }
            if self.has_state && self.pending.is_none() && since.elapsed() >= UNORDERED {
                return Next::Exit(match self.go("its group broke and no order came") {
                    Exit::Clean => Exit::Lost { message: "its group broke and no order came to form another".into() },
                    exit => exit,
                });
            }
        }
    }

    /// An armed order that it has not taken up yet.
    pub(super) fn is_news(&self, order: &Order) -> bool {
        order.phase == Phase::Armed && order.order > self.tried
    }

    pub(super) fn pending_failed(&mut self, error: String) -> Option<Exit> {
        let pending = self.pending.take()?;
        let (generation, order) = (pending.order.generation, pending.order.order);
        self.reaper.reap(pending);
        self.order_failed(generation, order, error)
    }

    /// Into the group that is built, whose ranks have introduced themselves.
    fn enter(&mut self) -> Next {
        let Some(pending) = self.pending.take() else { return Next::Out };
        let order = pending.order.clone();
        match pending.take() {
            Some(assembled) => self.settle(order, assembled),
            None => Next::Out,
        }
    }
}
