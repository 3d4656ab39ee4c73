//! The `elastune` program as people call it: what it prints, what it says about mistakes, its exit codes.

use std::process::{Command, Output};

use e2e::{World, program, seconds, studies, until};

fn elastune(arguments: &[&str]) -> Output {
    let mut command = Command::new(program("elastune"));
    command.args(arguments).env_remove("ELASTUNE_SERVER").env_remove("ELASTUNE_TOKEN");
    command.output().expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn mistakes_are_named_with_what_mends_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("study.yaml");
    let file = file.to_str().expect("text");

    let nobody = elastune(&["--server", "http://127.0.0.1:1", "study", "ls"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert_eq!(said(&nobody), "elastune: no service at http://127.0.0.1:1; start one with `elastune up`, or name one with --server\n");

    let address = elastune(&["--server", "localhost", "study", "ls"]);
    assert_eq!(address.status.code(), Some(2), "{}", said(&address));
    assert!(said(&address).contains("http://127.0.0.1:8080"), "it shows how an address looks: {}", said(&address));

    let unknown = elastune(&["studies"]);
    assert_eq!(unknown.status.code(), Some(2));

    let missing = elastune(&["validate", "-f", file]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(said(&missing).contains(file) && said(&missing).contains("No such file"), "{}", said(&missing));

    std::fs::write(file, "name: [unclosed").expect("written");
    let malformed = elastune(&["validate", "-f", file]);
    assert_eq!(malformed.status.code(), Some(1));
    assert!(said(&malformed).contains("line 1"), "{}", said(&malformed));
}

#[test]
fn every_error_of_a_document_is_told_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("study.yaml");
    let document = studies::plain("bad", "sobol", 4, 1, 1)
        .replace("min: 0.01, max: 0.2, scale: log", "min: 0.0, max: 0.2, scale: log")
        .replace("min: 0.0, max: 0.9", "min: 0.9, max: 0.0")
        .replace("shards: 4", "shards: 5")
        + "colour: blue\n";
    std::fs::write(&file, document).expect("written");
    let output = elastune(&["validate", "-f", file.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1));
    for path in ["search_space.lr", "search_space.momentum", "workload", "colour"] {
        assert!(said(&output).lines().any(|line| line.starts_with(&format!("  {path}"))), "{path} in:\n{}", said(&output));
    }
    assert!(output.stdout.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn studies_are_created_listed_changed_and_removed() {
    let world = World::new(64).await;
    let server = world.service.server();
    let token = world.service.token_file().to_str().expect("text").to_owned();
    let call = |arguments: &[&str]| elastune(&[&["--server", &server, "--token-file", &token], arguments].concat());
    let json = |arguments: &[&str]| {
        let output = call(&[&["-o", "json"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("it is JSON")
    };
    let file = world.path().join("study.yaml");
    let file = file.to_str().expect("text");
    std::fs::write(file, studies::outside("mine", 3)).expect("written");

    let created = json(&["study", "create", "-f", file]);
    assert_eq!(created["name"], "mine");
    assert_eq!(json(&["study", "ls"])[0]["id"], created["id"]);
    assert_eq!(json(&["study", "set", "mine", "--max-trials", "5"])["max_trials"], 5);
    assert_eq!(json(&["study", "pause", "mine"])["state"], "paused");
    assert_eq!(json(&["study", "resume", "mine"])["state"], "active");
    let listed = call(&["study", "ls"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.starts_with("NAME") && text.contains("mine"), "{text}");
    assert_eq!(json(&["cluster"])["devices"], 0);

    std::fs::write(file, studies::outside("mine", 3).replace("max: 1.0", "max: -2.0")).expect("written");
    let refused = call(&["study", "create", "-f", file]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("\n  search_space.x"), "{}", said(&refused));

    let missing = call(&["study", "show", "other"]);
    assert!(said(&missing).contains("elastune study ls"), "{}", said(&missing));
    let trial = call(&["trial", "show", "mine"]);
    assert_eq!(trial.status.code(), Some(2));

    std::fs::write(world.path().join("wrong"), "not-the-token").expect("written");
    let wrong = world.path().join("wrong");
    let stranger = elastune(&["--server", &server, "--token-file", wrong.to_str().expect("text"), "study", "ls"]);
    assert_eq!(stranger.status.code(), Some(1));
    assert!(said(&stranger).contains("--token-file"), "{}", said(&stranger));

    assert_eq!(call(&["study", "rm", "mine"]).status.code(), Some(2), "removing asks for --yes");
    assert_eq!(call(&["study", "rm", "mine", "--yes"]).status.code(), Some(1), "a study that goes on is not removed");
    json(&["study", "stop", "mine"]);
    until("it has stopped", seconds(30), async || (json(&["study", "show", "mine"])["state"] == "completed").then_some(())).await;
    assert!(call(&["study", "rm", "mine", "--yes"]).status.success());
    assert_eq!(json(&["study", "ls"]).as_array().map(Vec::len), Some(0));
}
