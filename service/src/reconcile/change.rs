//! One transaction's changes to one study: its lock, the events in order, who must wake. Every reconciler writes through it.

use std::collections::BTreeSet;

use elastune_core::model::event::Event;
use elastune_core::model::ids::{NodeId, StudyId, TrialId};
use elastune_core::model::study::StudyState;
use elastune_core::model::trial::{Reason, TrialState};
use elastune_core::time::Time;
use sqlx::PgConnection;

use crate::db::groups::Stored;
use crate::db::notify::{self, Wake};
use crate::db::studies::{self, Study};
use crate::db::trials::Trial;
use crate::db::{Result, events, groups, trials};

/// The study, locked until the transaction ends.
#[derive(Debug)]
pub struct Change {
    pub study: Study,
    pub now: Time,
    events: Vec<Event>,
    nodes: BTreeSet<NodeId>,
    wake: bool,
}

impl Change {
    /// Takes the study's lock in the caller's transaction.
    pub async fn begin(conn: &mut PgConnection, study: StudyId) -> Result<Change> {
        let study = studies::lock(conn, study).await?;
        // After the lock: time must not run backwards from one writer to the next.
        let now = crate::db::now(conn).await?;
        Ok(Change::of(study, now))
    }

    /// For a study that the caller has locked.
    pub fn of(study: Study, now: Time) -> Change {
        Change { study, now, events: Vec::new(), nodes: BTreeSet::new(), wake: false }
    }

    pub fn record(&mut self, event: Event) {
        self.events.push(event);
    }

    pub fn note(&mut self, trial: Option<TrialId>, text: impl Into<String>) {
        self.record(Event::Noted { trial, text: text.into() });
    }

    /// Something changed that no event tells.
    pub fn wake(&mut self) {
        self.wake = true;
    }

    /// The node's desired state may have changed.
    pub fn wake_node(&mut self, node: NodeId) {
        self.nodes.insert(node);
    }

    /// The study's state, with its event.
    pub async fn enter(
        &mut self,
        conn: &mut PgConnection,
        state: StudyState,
        ending: Option<StudyState>,
        reason: Option<String>,
    ) -> Result<()> {
        let was = self.study.state;
        self.study.state = state;
        self.study.ending = ending;
        self.study.ended = state.is_final().then_some(self.now);
        self.study.reason = reason.clone();
        studies::mark_state(conn, &self.study, was).await?;
        self.record(Event::StudyState { state, reason });
        Ok(())
    }

    /// Appends the events and sends the wake-ups. The caller commits.
    pub async fn finish(self, conn: &mut PgConnection) -> Result<()> {
        if !self.events.is_empty() {
            events::append(conn, self.study.id, self.now, &self.events).await?;
        } else if self.wake {
            notify::send(conn, Wake::Study(self.study.id)).await?;
        }
        for node in self.nodes {
            notify::send(conn, Wake::Node(node)).await?;
        }
        Ok(())
    }
}

/// A trial under change: as it was read, as it will be written, and its group of processes.
#[derive(Debug)]
pub struct Subject {
    was: Trial,
    pub trial: Trial,
    pub group: Option<Stored>,
}

impl Subject {
    /// The caller holds the lock of the trial's study.
    pub async fn load(conn: &mut PgConnection, id: TrialId) -> Result<Subject> {
        let trial = trials::get(conn, id).await?;
        Subject::of(conn, trial).await
    }

    pub async fn of(conn: &mut PgConnection, trial: Trial) -> Result<Subject> {
        let group = groups::get(conn, trial.id).await?;
        Ok(Subject { was: trial.clone(), trial, group })
    }

    /// Writes the trial back if anything changed.
    pub async fn store(&mut self, conn: &mut PgConnection) -> Result<()> {
        if self.trial != self.was {
            trials::store(conn, &self.trial, (self.was.state, self.was.attempt)).await?;
            self.was = self.trial.clone();
        }
        Ok(())
    }

    /// The trial's state, with its event.
    pub fn enter(&mut self, change: &mut Change, state: TrialState, reason: Option<Reason>) {
        let trial = &mut self.trial;
        trial.state = state;
        trial.reason = reason;
        trial.ending = None;
        if state.is_final() {
            trial.ended = Some(change.now);
            trial.held = false;
            trial.lease = None;
        }
        change.record(Event::Changed { trial: trial.id, state, reason, attempt: trial.attempt });
    }

    /// A user or the study ends a trial that is not final: at once if nobody works on it, else once its processes are gone or
    /// its outside worker has heard of it.
    pub fn end(&mut self, change: &mut Change, ending: TrialState, reason: Reason) {
        let worked_on = self.group.is_some() || self.trial.lease.is_some();
        let started = worked_on || self.trial.started.is_some();
        if worked_on && self.trial.state.is_live() {
            self.enter(change, TrialState::Stopping, Some(reason));
            self.trial.ending = Some(ending);
        } else if !started && reason == Reason::StudyEnded {
            self.enter(change, TrialState::Cancelled, Some(Reason::NotStarted));
        } else {
            self.enter(change, ending, Some(reason));
        }
    }

    /// The attempt is over and the trial goes on later.
    pub fn next_attempt(&mut self, change: &mut Change, state: TrialState, reason: Option<Reason>) {
        self.trial.attempt += 1;
        self.trial.lease = None;
        self.rewind(change);
        self.enter(change, state, reason);
    }

    /// Back to the newest checkpoint, from which the next attempt starts. What outside workers keep is theirs to know.
    pub fn rewind(&mut self, change: &Change) {
        let trial = &mut self.trial;
        if change.study.spec.workload.is_some() {
            trial.done = trial.checkpoint.as_ref().map_or(0.0, |checkpoint| checkpoint.resource);
        }
        trial.held = trial.done >= trial.run_until;
    }
}
