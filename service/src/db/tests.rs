//! Tests of the storage functions on a real Postgres.

use elastune_core::model::event::{Event, MetricValue};
use elastune_core::model::ids::{StudyId, TrialId};
use elastune_core::model::space::{ParamValue, Params};
use elastune_core::model::study::StudySpec;
use elastune_core::model::trial::{CheckpointRef, TrialState};
use elastune_core::rng::Seed;
use elastune_core::time::Time;
use serde_json::json;
use uuid::Uuid;

use super::trials::{Cursor, NewTrial, Order, Trial};
use super::{Conn, checkpoints, events, logs, measurements, studies, trials};
use crate::testing::database;

fn spec(goal: &str) -> StudySpec {
    let document = json!({
        "name": "s", "metrics": [{"name": "loss", "goal": goal}], "search_space": {},
        "algorithm": {"name": "random"}, "budget": {"max_trials": 100}
    });
    serde_json::from_value(document).expect("the document is a study")
}

async fn study_of(conn: &mut Conn, goal: &str, trials: u32) -> (StudyId, Vec<TrialId>) {
    let id = StudyId(Uuid::now_v7());
    studies::insert(conn, id, &spec(goal), Seed(u64::MAX), Time(1)).await.expect("a study");
    studies::claim_numbers(conn, id, 0, trials).await.expect("numbers");
    let new = |number| NewTrial { id: TrialId(Uuid::now_v7()), number, parameters: Params::new(), run_until: f64::INFINITY };
    let new: Vec<NewTrial> = (0..trials).map(new).collect();
    trials::insert(conn, id, &new, Time(1)).await.expect("trials");
    (id, new.into_iter().map(|trial| trial.id).collect())
}

#[tokio::test]
async fn a_study_and_its_trials_read_back_as_they_were_written() {
    let mut conn = database().await.pool.acquire().await.expect("a connection");
    let (study, _) = study_of(&mut conn, "minimize", 0).await;
    let row = studies::get(&mut conn, study).await.expect("the study");
    assert_eq!((row.seed, row.spec), (Seed(u64::MAX), spec("minimize")));
    // Numbers that lose their kind if their text is touched, and text that JSON must escape.
    let parameters: Params = [
        ("int".to_string(), ParamValue::Int(1)),
        ("float".to_string(), ParamValue::Float(1.0)),
        ("large".to_string(), ParamValue::Float(1e21)),
        ("tiny".to_string(), ParamValue::Float(5e-324)),
        ("text".to_string(), ParamValue::Text("\u{1}\"ü".into())),
    ]
    .into();
    let id = TrialId(Uuid::now_v7());
    let new = NewTrial { id, number: 7, parameters: parameters.clone(), run_until: f64::INFINITY };
    trials::insert(&mut conn, study, &[new], Time(5)).await.expect("a trial");
    let trial = trials::get(&mut conn, id).await.expect("the trial");
    assert_eq!((&trial.parameters, trial.number, trial.run_until), (&parameters, 7, f64::INFINITY));
    assert_eq!(trials::get_number(&mut conn, study, 7).await.expect("the trial"), trial);
}

#[tokio::test]
async fn a_change_of_state_names_the_state_that_it_expects() {
    let mut conn = database().await.pool.acquire().await.expect("a connection");
    let (_, ids) = study_of(&mut conn, "minimize", 1).await;
    let mut trial = trials::get(&mut conn, ids[0]).await.expect("the trial");
    trial.state = TrialState::Starting;
    assert!(trials::store(&mut conn, &trial, (TrialState::Running, 1)).await.is_err());
    assert!(trials::store(&mut conn, &trial, (TrialState::Waiting, 2)).await.is_err());
    trials::store(&mut conn, &trial, (TrialState::Waiting, 1)).await.expect("it was waiting");
    assert!(trials::store(&mut conn, &trial, (TrialState::Waiting, 1)).await.is_err(), "once");
}

#[tokio::test]
async fn pages_put_together_are_the_sorted_list() {
    let mut conn = database().await.pool.acquire().await.expect("a connection");
    let (study, ids) = study_of(&mut conn, "maximize", 60).await;
    for (index, id) in ids.iter().enumerate() {
        let draw = |purpose| Seed(3).child(purpose, index as u64).0 % 10;
        let mut trial = trials::get(&mut conn, *id).await.expect("the trial");
        // Ties and trials without a value are likely.
        trial.value = (draw("missing") < 7).then(|| draw("value") as f64 - 5.0);
        trial.state = if draw("state") < 5 { TrialState::Running } else { TrialState::Paused };
        trials::store(&mut conn, &trial, (TrialState::Waiting, 1)).await.expect("stored");
    }
    for states in [vec![], vec![TrialState::Paused], vec![TrialState::Failed]] {
        for descending in [false, true] {
            for order in [Order::Number { descending }, Order::Value { descending }] {
                let mut paged: Vec<Trial> = Vec::new();
                loop {
                    let cursor = paged.last().map(|last| Cursor { number: last.number, value: last.value });
                    let page = trials::list_page(&mut conn, study, &states, order, cursor, 7).await.expect("a page");
                    if page.is_empty() {
                        break;
                    }
                    paged.extend(page);
                }
                let all = trials::list_page(&mut conn, study, &states, order, None, 1000).await.expect("a list");
                assert_eq!(paged, all, "{order:?} {states:?}");
                let in_order = |pair: &[Trial]| match order {
                    Order::Number { descending } => (pair[0].number < pair[1].number) != descending,
                    Order::Value { descending } => match (pair[0].value, pair[1].value) {
                        (Some(a), Some(b)) if a != b => (a < b) != descending,
                        (Some(_), Some(_)) => (pair[0].number < pair[1].number) != descending,
                        (None, None) => pair[0].number < pair[1].number,
                        (Some(_), None) => true,
                        (None, Some(_)) => false,
                    },
                };
                assert!(all.windows(2).all(in_order), "{order:?}");
            }
        }
    }
    let counts = studies::counts(&mut conn, study).await.expect("counts");
    assert_eq!(counts.total(), 60);
    let row = studies::get(&mut conn, study).await.expect("the study");
    let best = studies::best(&mut conn, &row).await.expect("a query").expect("a best");
    let sorted = trials::list_page(&mut conn, study, &[], Order::Value { descending: true }, None, 1).await.expect("a list");
    assert_eq!(Some(best.value), sorted[0].value);
}

#[tokio::test]
async fn an_event_is_listed_under_the_kind_that_its_json_has() {
    let mut conn = database().await.pool.acquire().await.expect("a connection");
    let (study, ids) = study_of(&mut conn, "minimize", 1).await;
    let written = [
        Event::StudyCreated { spec: Box::new(spec("minimize")) },
        Event::Proposed { trial: ids[0], number: 0, parameters: Params::new(), run_until: f64::INFINITY },
        Event::Changed { trial: ids[0], state: TrialState::Running, reason: None, attempt: 1 },
        Event::Measured {
            trial: ids[0],
            resource: 1.0,
            metrics: [("loss".to_string(), MetricValue::new(f64::NAN))].into(),
            elapsed_s: 0.1,
        },
        Event::Excluded { trial: ids[0], excluded: true },
        Event::Noted { trial: None, text: "\u{0}".into() },
    ];
    let last = events::append(&mut conn, study, Time(9), &written).await.expect("events");
    assert_eq!(last, written.len() as u64);
    let lines = events::list_page(&mut conn, study, 0, 100).await.expect("lines");
    for line in &lines {
        assert_eq!(line.event["kind"], line.kind.as_str());
    }
    assert_eq!(lines[1].trial, Some(ids[0]));
    let read: Vec<Event> = events::after(&mut conn, study, 0, 100).await.expect("events").into_iter().map(|event| event.event).collect();
    assert_eq!(read, written);
    let of_trial = events::of_trial(&mut conn, ids[0], &["changed", "proposed"], 10).await.expect("events");
    assert_eq!(of_trial.iter().map(|event| event.seq).collect::<Vec<_>>(), [3, 2]);
}

#[tokio::test]
async fn a_long_log_keeps_its_newest_lines() {
    let mut conn = database().await.pool.acquire().await.expect("a connection");
    let (_, ids) = study_of(&mut conn, "minimize", 2).await;
    for line in 0..9 {
        logs::insert(&mut conn, ids[0], 1, Time(line), "rank 0", &line.to_string()).await.expect("a line");
    }
    logs::insert(&mut conn, ids[1], 1, Time(0), "agent", "alone").await.expect("a line");
    assert_eq!(logs::trim(&mut conn, 4).await.expect("a sweep"), 5);
    let kept = logs::list_page(&mut conn, ids[0], 0, 100).await.expect("lines");
    assert_eq!(kept.iter().map(|line| line.line.as_str()).collect::<Vec<_>>(), ["5", "6", "7", "8"]);
    assert_eq!(logs::list_page(&mut conn, ids[1], 0, 100).await.expect("lines").len(), 1);
}

#[tokio::test]
async fn the_newest_and_the_best_checkpoint_are_kept() {
    let mut conn = database().await.pool.acquire().await.expect("a connection");
    let (study, ids) = study_of(&mut conn, "minimize", 1).await;
    let name = |epoch: u32| format!("{epoch:064x}");
    for (epoch, loss) in [(1, 0.9), (2, 0.3), (3, 0.5), (4, f64::NAN)] {
        let resource = f64::from(epoch);
        let metrics = [("loss".to_string(), MetricValue::new(loss))].into();
        let measurement = elastune_api::trial::Measurement { step: resource, metrics, elapsed_s: 0.0 };
        measurements::insert(&mut conn, ids[0], 1, &measurement, Time(0)).await.expect("a measurement");
        let checkpoint = CheckpointRef { sha256: name(epoch), resource, step: u64::from(epoch) * 10, bytes: 1 };
        checkpoints::insert(&mut conn, ids[0], 1, &checkpoint, Time(0)).await.expect("a checkpoint");
        let mut trial = trials::get(&mut conn, ids[0]).await.expect("the trial");
        trial.checkpoint = Some(checkpoint);
        trials::store(&mut conn, &trial, (TrialState::Waiting, 1)).await.expect("stored");
    }
    assert_eq!(checkpoints::studies_with_surplus(&mut conn).await.expect("studies"), [study]);
    let row = studies::get(&mut conn, study).await.expect("the study");
    assert_eq!(checkpoints::prune(&mut conn, &row).await.expect("a sweep"), [name(1), name(3)]);
    let kept = checkpoints::list(&mut conn, ids[0], 10).await.expect("checkpoints");
    assert_eq!(kept.iter().map(|kept| kept.checkpoint.resource).collect::<Vec<_>>(), [4.0, 2.0]);
    assert_eq!(checkpoints::unknown(&mut conn, vec![name(1), name(2)]).await.expect("names"), [name(1)]);
}
