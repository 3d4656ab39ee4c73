//! docker-compose.yml and deploy/Dockerfile keep their promises, as far as reading them tells: no engine is needed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

const SERVICES: [&str; 4] = ["postgres", "service", "node-1", "node-2"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository").to_path_buf()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The compose file with its `<<` keys resolved.
fn compose() -> Value {
    let mut document: serde_norway::Value = serde_norway::from_str(&read("docker-compose.yml")).expect("it is YAML");
    document.apply_merge().expect("its anchors merge");
    serde_json::to_value(document).expect("it has no other keys than strings")
}

fn service<'a>(compose: &'a Value, name: &str) -> &'a Value {
    compose["services"].get(name).unwrap_or_else(|| panic!("{name} is missing"))
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn volumes<'a>(compose: &'a Value, name: &str) -> Vec<&'a str> {
    texts(&service(compose, name)["volumes"])
}

#[test]
fn it_has_postgres_the_service_and_two_nodes_each_watched_and_started_again() {
    let compose = compose();
    let names: BTreeSet<&str> = compose["services"].as_object().expect("services").keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(SERVICES));
    for name in SERVICES {
        let service = service(&compose, name);
        assert!(!texts(&service["healthcheck"]["test"]).is_empty(), "{name} has a health check");
        assert_eq!(service["restart"], "unless-stopped", "{name}");
        let tag = service["image"].as_str().and_then(|image| image.split_once(':')).map(|(_, tag)| tag);
        assert!(tag.is_some_and(|tag| tag != "latest"), "{name}'s image names what it is");
        for volume in volumes(&compose, name) {
            let source = volume.split(':').next().expect("a source");
            assert!(compose["volumes"].get(source).is_some(), "{name} mounts {source}, which is no named volume");
        }
    }
    assert_eq!(service(&compose, "service")["depends_on"]["postgres"]["condition"], "service_healthy");
    for node in ["node-1", "node-2"] {
        assert_eq!(service(&compose, node)["depends_on"]["service"]["condition"], "service_healthy");
        let environment = &service(&compose, node)["environment"];
        assert_eq!(environment["ELASTUNE_ADVERTISE"], node, "peers reach its workers by the name that it has in the network");
        assert_eq!(service(&compose, node)["hostname"], node);
    }
    assert_ne!(volumes(&compose, "node-1")[0], volumes(&compose, "node-2")[0], "a state folder serves one agent");
}

#[test]
fn only_this_machine_reaches_it_and_only_the_service_reaches_postgres() {
    let compose = compose();
    for name in SERVICES {
        for port in texts(&service(&compose, name)["ports"]) {
            assert!(port.starts_with("127.0.0.1:"), "{name} publishes {port} beyond this machine");
        }
        let mounts_socket = volumes(&compose, name).iter().any(|volume| volume.starts_with("postgres-socket:"));
        assert_eq!(mounts_socket, name == "postgres" || name == "service", "{name}");
    }
    assert_eq!(service(&compose, "postgres")["network_mode"], "none");
    assert!(texts(&service(&compose, "service")["ports"]).len() == 1, "the page is published");
}

#[test]
fn secrets_are_made_at_the_first_start_and_travel_in_volumes() {
    let compose = compose();
    for name in SERVICES {
        let environment = service(&compose, name)["environment"].as_object().cloned().unwrap_or_default();
        for (key, value) in environment {
            let value = value.as_str().expect("text");
            let secret = ["TOKEN", "PASSWORD", "SECRET", "KEY"].iter().any(|word| key.contains(word));
            assert!(!secret || key.ends_with("_FILE") && value.starts_with("/var/lib/elastune/"), "{name}: {key}");
            let (_, authority) = value.split_once("://").unwrap_or_default();
            assert!(!authority.split('@').next().is_some_and(|user| user.contains(':') && authority.contains('@')), "{name}: {key}");
        }
    }
    let token = "ELASTUNE_JOIN_TOKEN_FILE";
    let written = service(&compose, "service")["environment"][token].as_str().expect("the service makes it");
    for node in ["node-1", "node-2"] {
        assert_eq!(service(&compose, node)["environment"]["ELASTUNE_TOKEN_FILE"], written);
        assert!(volumes(&compose, node).contains(&"join-token:/var/lib/elastune/join:ro"), "{node} reads it only");
        assert!(!volumes(&compose, node).iter().any(|volume| volume.starts_with("service-state:")), "{node} sees the admin's token");
    }
}

#[test]
fn images_hold_programs_of_this_repository_and_run_unprivileged() {
    let dockerfile = read("deploy/Dockerfile");
    let compose = compose();
    assert_eq!(service(&compose, "node-1")["image"], service(&compose, "node-2")["image"], "one build serves both");
    for name in ["service", "node-1"] {
        let build = &service(&compose, name)["build"];
        assert_eq!(build["dockerfile"], "deploy/Dockerfile");
        let target = build["target"].as_str().expect("a target");
        let stage = dockerfile.split("\nFROM ").find(|stage| stage.lines().next().is_some_and(|l| l.ends_with(&format!(" AS {target}"))));
        let stage = stage.unwrap_or_else(|| panic!("deploy/Dockerfile has no stage {target}"));
        let user = stage.lines().filter_map(|line| line.strip_prefix("USER ")).next_back().expect("a user");
        assert!(!user.starts_with('0') && user != "root", "{target} runs as {user}");
        assert_eq!(stage.contains("/elastune/lib"), target == "node", "libtorch is in the node's image only");
        assert!(service(&compose, name)["cap_drop"] == serde_json::json!(["ALL"]) && service(&compose, name)["read_only"] == true);
    }
    let ignored = read(".dockerignore");
    for line in dockerfile.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|line| !line.starts_with("--from")) {
        let sources = line.split_whitespace().rev().skip(1);
        for source in sources.filter(|source| *source != "deploy/prebuilt") {
            assert!(root().join(source).exists(), "deploy/Dockerfile copies {source}");
            let top = source.split('/').next().expect("a name");
            assert!(
                ignored.lines().any(|line| line.trim_start_matches('!').split('/').next() == Some(top)),
                ".dockerignore lets {source} in"
            );
        }
    }
    let members = read("Cargo.toml");
    for (member, program) in [
        ("crates/elastune-cli", "elastune"),
        ("service", "elastune-service"),
        ("trial-runner/agent", "trial-agent"),
        ("trial-runner/worker", "trial-worker"),
    ] {
        assert!(members.contains(&format!("\"{member}\"")) && dockerfile.contains(&format!("/elastune/bin/{program}")), "{program}");
    }
}
