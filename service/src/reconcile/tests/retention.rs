//! What is swept away, and what must not be.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use elastune_core::model::trial::TrialState;
use serde_json::json;

use super::{World, document};
use crate::checkpoints::CheckpointStore;
use crate::db::checkpoints;
use crate::reconcile::retention;

fn file(folder: &Path, sha256: &str) -> PathBuf {
    folder.join(&sha256[..2]).join(sha256)
}

fn write(folder: &Path, sha256: &str, age: Duration) {
    let path = file(folder, sha256);
    std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder");
    std::fs::write(&path, "bytes").expect("a file");
    let file = std::fs::File::options().write(true).open(&path).expect("the file");
    file.set_modified(SystemTime::now() - age).expect("its age");
}

#[tokio::test]
async fn checkpoints_that_nothing_resumes_from_go_and_the_others_stay() {
    let world = World::new().await;
    let mut agent = world.node(1).await;
    let study = world.study(&document(1, json!({}))).await;
    world.run(study, &mut agent).await;
    assert_eq!(world.count(study, TrialState::Completed).await, 1);
    let mut conn = world.conn().await;
    let trial = world.trials(study).await.remove(0);
    let all = checkpoints::list(&mut conn, trial.id, 10).await.expect("checkpoints");
    assert_eq!(all.len(), 3, "one an epoch");

    let folder = tempfile::tempdir().expect("a folder");
    let store = CheckpointStore::folder(folder.path()).expect("a store");
    let day = Duration::from_secs(25 * 3600);
    for kept in &all {
        write(folder.path(), &kept.checkpoint.sha256, day);
    }
    let (forgotten, on_its_way) = ("ab".repeat(32), "cd".repeat(32));
    write(folder.path(), &forgotten, day);
    write(folder.path(), &on_its_way, Duration::ZERO);

    // The last epoch is the newest and, with this measure, the best.
    assert_eq!(retention::sweep_checkpoints(&mut conn, &store).await.expect("a sweep"), 3);
    assert!(file(folder.path(), &all[0].checkpoint.sha256).exists(), "the newest");
    assert!(!file(folder.path(), &all[1].checkpoint.sha256).exists() && !file(folder.path(), &all[2].checkpoint.sha256).exists());
    assert!(!file(folder.path(), &forgotten).exists(), "no study knows it");
    assert!(file(folder.path(), &on_its_way).exists(), "its report may still come");
    assert_eq!(retention::sweep_checkpoints(&mut conn, &store).await.expect("a sweep"), 0);
    retention::sweep(&mut conn).await.expect("a sweep of the rest");
}
