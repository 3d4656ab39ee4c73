//! Wake-ups between replicas and within one: a NOTIFY at commit, a broadcast in each process. They carry no data that matters:
//! whoever wakes reads the database. Used by the reconcilers' driver, long polls and event streams.

use std::time::Duration;

use elastune_core::model::ids::{NodeId, StudyId};
use sqlx::postgres::PgListener;
use sqlx::{PgConnection, PgPool};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Result;

const CHANNEL: &str = "elastune";

/// Where something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wake {
    Study(StudyId),
    /// The node's desired state may have changed.
    Node(NodeId),
    /// Nodes or the plan.
    Cluster,
    /// Wake-ups may have been missed: look at everything.
    All,
}

impl Wake {
    fn payload(self) -> String {
        match self {
            Wake::Study(id) => format!("study:{id}"),
            Wake::Node(id) => format!("node:{id}"),
            Wake::Cluster => "cluster".into(),
            Wake::All => "all".into(),
        }
    }

    fn parse(payload: &str) -> Wake {
        let id = |text: &str| Uuid::parse_str(text).ok();
        match payload.split_once(':') {
            Some(("study", text)) => id(text).map_or(Wake::All, |id| Wake::Study(StudyId(id))),
            Some(("node", text)) => id(text).map_or(Wake::All, |id| Wake::Node(NodeId(id))),
            _ if payload == "cluster" => Wake::Cluster,
            _ => Wake::All,
        }
    }
}

/// Sent when the transaction commits; the same wake-up twice in one transaction is sent once.
pub async fn send(conn: &mut PgConnection, wake: Wake) -> Result<()> {
    sqlx::query!("select pg_notify($1, $2)", CHANNEL, wake.payload()).execute(conn).await?;
    Ok(())
}

/// This process's ear. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Wakes(broadcast::Sender<Wake>);

impl Wakes {
    /// Listens until `stop`; after a lost connection it listens again and says `All`.
    pub fn listen(pool: PgPool, stop: CancellationToken) -> Wakes {
        let wakes = Wakes(broadcast::channel(1024).0);
        let sender = wakes.0.clone();
        tokio::spawn(async move {
            let _ = stop.run_until_cancelled(relay(pool, sender)).await;
        });
        wakes
    }

    /// From now on. A receiver that lags must look at everything, as on `All`.
    pub fn subscribe(&self) -> broadcast::Receiver<Wake> {
        self.0.subscribe()
    }
}

/// The next wake-up; `All` for those that a slow receiver missed, None when the process stops listening.
pub async fn next(receiver: &mut broadcast::Receiver<Wake>) -> Option<Wake> {
    match receiver.recv().await {
        Ok(wake) => Some(wake),
        Err(broadcast::error::RecvError::Lagged(_)) => Some(Wake::All),
        Err(broadcast::error::RecvError::Closed) => None,
    }
}

async fn relay(pool: PgPool, sender: broadcast::Sender<Wake>) {
    loop {
        if let Err(error) = relay_one(&pool, &sender).await {
            tracing::warn!(%error, "no wake-ups from the database; trying again");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn relay_one(pool: &PgPool, sender: &broadcast::Sender<Wake>) -> std::result::Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    // Nobody may be subscribed: that is no error.
    let _ = sender.send(Wake::All);
    while let Some(notification) = listener.try_recv().await? {
        let _ = sender.send(Wake::parse(notification.payload()));
    }
    Ok(())
}
