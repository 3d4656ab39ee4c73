//! The repository's rules: which crate may depend on which, which module may name what, how long a file may be. Run by `make test`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

const APPS: [&str; 4] = ["elastune-service", "trial-agent", "trial-worker", "elastune-cli"];
/// What the pure crates may use: data formats, hashing, seeded generators, numerics. Nothing that awaits, logs, reads a clock or does IO.
const PURE: [&str; 11] =
    ["serde", "serde_json", "thiserror", "rand", "rand_chacha", "uuid", "sha2", "sobol_burley", "libm", "nalgebra", "utoipa"];
const MAX_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository").to_path_buf()
}

fn metadata() -> Metadata {
    let rustc = std::process::Command::new("rustc").arg("-vV").output().expect("rustc is on the PATH");
    let said = String::from_utf8_lossy(&rustc.stdout).to_string();
    let host = said.lines().find_map(|l| l.strip_prefix("host: ")).expect("rustc names its host");
    // Of the host's platform only: what other platforms need is in the lock file but not on this disk.
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(["--offline", "--locked", "--filter-platform", host].map(String::from).to_vec())
        .exec()
        .expect("cargo metadata runs; `make setup` fetches what it needs")
}

/// Direct dependencies by package of the workspace; those of tests, or behind a feature that only tests switch on, left out.
fn direct(metadata: &Metadata) -> BTreeMap<String, BTreeSet<String>> {
    let names = |package: &cargo_metadata::Package| {
        let testing = package.features.get("testing").cloned().unwrap_or_default();
        let shipped =
            |d: &&cargo_metadata::Dependency| d.kind != DependencyKind::Development && !testing.contains(&format!("dep:{}", d.name));
        package.dependencies.iter().filter(shipped).map(|d| d.name.to_string()).collect()
    };
    metadata.workspace_packages().into_iter().map(|p| (p.name.to_string(), names(p))).collect()
}

fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|e| e.expect("the folder can be read").path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
            if path.is_dir() {
                if !["target", "node_modules", "dist", ".git", "api.d", "generated"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if extensions.iter().any(|e| name.ends_with(&format!(".{e}"))) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_test_file(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n == "tests.rs") || path.components().any(|c| c.as_os_str() == "tests")
}

/// The part of a source file before its unit tests, with comments blanked.
fn shipped(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
}

fn names_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word)
}

/// Lines of the shipped code under `folder` for which `bad` holds, as `file:line: text`.
fn offences(folder: &str, bad: impl Fn(&str) -> bool) -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    for path in files(&root.join(folder), &["rs"]).into_iter().filter(|p| !is_test_file(p.strip_prefix(&root).unwrap_or(p))) {
        let text = fs::read_to_string(&path).expect("sources are UTF-8");
        for (number, line) in shipped(&text).filter(|(_, line)| bad(line)) {
            found.push(format!("{}:{number}: {}", path.strip_prefix(&root).unwrap_or(&path).display(), line.trim()));
        }
    }
    found
}

fn assert_none(rule: &str, offences: Vec<String>) {
    assert!(offences.is_empty(), "{rule}\n  {}", offences.join("\n  "));
}

#[test]
fn core_is_pure_and_the_simulator_rests_on_core_alone() {
    let direct = direct(&metadata());
    let core: Vec<_> = direct["elastune-core"].iter().filter(|d| !PURE.contains(&d.as_str())).cloned().collect();
    assert_none("elastune-core may only use the crates of tidy.rs's list PURE", core);
    let sim = direct["elastune-sim"].iter().filter(|d| *d != "elastune-core" && !PURE.contains(&d.as_str())).cloned().collect();
    assert_none("elastune-sim may use elastune-core and, outside the workspace, the crates of PURE", sim);
}

#[test]
fn nothing_shipped_switches_testing_on() {
    let metadata = metadata();
    let mut found = Vec::new();
    for package in metadata.workspace_packages() {
        let shipped = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        found.extend(shipped.filter(|d| d.features.iter().any(|f| f == "testing")).map(|d| format!("{} -> {}", package.name, d.name)));
    }
    assert_none("the feature `testing` is for dev-dependencies", found);
}

#[test]
fn decisions_read_no_clock_and_draw_no_ambient_randomness() {
    let ambient = [
        "SystemTime",
        "Instant",
        "HashMap",
        "HashSet",
        "thread_rng",
        "from_os_rng",
        "from_entropy",
        "new_v4",
        "now_v7",
        "println",
        "eprintln",
    ];
    for folder in ["crates/elastune-core/src", "crates/elastune-sim/src"] {
        let rule = format!("{folder}: time, randomness and order come from the caller");
        let main = |o: &String| !o.contains("/src/bin/") && !o.contains("/src/main.rs");
        let found = offences(folder, |line| ambient.iter().any(|word| names_word(line, word)));
        assert_none(&rule, found.into_iter().filter(main).collect());
    }
    let io =
        |line: &str| ["std::fs", "std::net::Tcp", "std::process", "std::thread", "std::env", "async fn"].iter().any(|w| line.contains(w));
    assert_none("elastune-core does no IO", offences("crates/elastune-core/src", io));
}

#[test]
fn apps_never_depend_on_apps() {
    let direct = direct(&metadata());
    let mut found = Vec::new();
    for (package, dependencies) in direct.iter().filter(|(p, _)| *p != "bench" && *p != "e2e") {
        found.extend(dependencies.iter().filter(|d| APPS.contains(&d.as_str())).map(|d| format!("{package} -> {d}")));
    }
    assert_none("apps share elastune-api and elastune-core, never each other", found);
}

#[test]
fn only_the_worker_the_binding_and_the_benches_name_tch() {
    let metadata = metadata();
    let allowed = ["trial-worker", "c10d", "bench"];
    let found = direct(&metadata)
        .into_iter()
        .filter(|(package, d)| !allowed.contains(&package.as_str()) && ["tch", "torch-sys", "c10d"].iter().any(|t| d.contains(*t)))
        .map(|(package, _)| package)
        .collect();
    assert_none("only trial-worker, c10d and bench may link libtorch", found);
    for app in ["trial-agent", "elastune-service", "elastune-cli"] {
        assert!(!reaches(&metadata, app, "torch-sys"), "{app} must not reach libtorch, not even through another crate");
    }
    assert!(reaches(&metadata, "trial-worker", "torch-sys"), "the walk over the dependency graph finds what is there");
}

fn reaches(metadata: &Metadata, from: &str, to: &str) -> bool {
    let resolve = metadata.resolve.as_ref().expect("metadata carries the graph");
    let name = |id: &cargo_metadata::PackageId| metadata[id].name.to_string();
    let mut open: Vec<_> = resolve.nodes.iter().filter(|n| name(&n.id) == from).map(|n| n.id.clone()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if name(&id) == to {
            return true;
        }
        if seen.insert(id.clone()) {
            let shipped = |d: &&cargo_metadata::NodeDep| d.dep_kinds.iter().any(|k| k.kind != DependencyKind::Development);
            open.extend(
                metadata
                    .resolve
                    .iter()
                    .flat_map(|r| &r.nodes)
                    .filter(|n| n.id == id)
                    .flat_map(|n| n.deps.iter().filter(shipped).map(|d| d.pkg.clone())),
            );
        }
    }
    false
}

#[test]
fn layers_keep_to_themselves() {
    assert_none(
        "service/src/http must not name `sched`: it stores and answers, reconcile decides",
        offences("service/src/http", |l| names_word(l, "sched")),
    );
    assert_none("service/src/db must not name `axum`: storage knows no HTTP", offences("service/src/db", |l| names_word(l, "axum")));
}

/// Shared crates with the features that a build of the workspace gives them; `edges` as `cargo tree` names them.
fn features(edges: &str) -> BTreeSet<String> {
    let asked = ["tree", "--offline", "--locked", "--workspace", "--prefix", "none", "-f", "{p} {f}", "-e", edges];
    let tree = std::process::Command::new("cargo").args(asked).current_dir(root()).output().expect("cargo is on the PATH");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    String::from_utf8_lossy(&tree.stdout).lines().map(|l| l.trim_end_matches(" (*)").trim().to_string()).collect()
}

#[test]
fn programs_and_tests_share_one_build_of_every_crate() {
    let (programs, tests) = (features("normal,build"), features("normal,build,dev"));
    assert!(programs.iter().any(|l| l.starts_with("tokio ")), "the walk over the tree finds what is there");
    let twice = programs.difference(&tests).cloned().collect();
    assert_none("tests give these other features, so `cargo test` builds them anew: name the features in tests/Cargo.toml", twice);
}

#[test]
fn no_crate_shadows_rusts_own() {
    let found = metadata()
        .workspace_packages()
        .iter()
        .map(|p| p.name.to_string())
        .filter(|n| ["core", "std", "alloc"].contains(&n.as_str()))
        .collect();
    assert_none("a crate of this name shadows Rust's own", found);
}

#[test]
fn every_module_says_what_it_is_for() {
    let root = root();
    let found = files(&root, &["rs"])
        .into_iter()
        .filter(|p| {
            !fs::read_to_string(p).expect("sources are UTF-8").trim_start_matches("#![forbid(unsafe_code)]").trim_start().starts_with("//!")
        })
        .map(|p| p.strip_prefix(&root).unwrap_or(&p).display().to_string())
        .collect();
    assert_none("the first line of a module is `//!`, its purpose and who calls it", found);
}

#[test]
fn files_stay_short() {
    let root = root();
    let found = files(&root, &["rs", "ts", "tsx", "svelte", "css", "py", "sql", "cc", "cpp", "h"])
        .into_iter()
        .filter(|p| !is_test_file(p.strip_prefix(&root).unwrap_or(p)))
        // Generated from the OpenAPI document.
        .filter(|p| !p.ends_with("web/src/api/schema.ts"))
        .map(|p| (fs::read_to_string(&p).expect("sources are UTF-8").lines().count(), p))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, p)| format!("{} has {lines}", p.strip_prefix(&root).unwrap_or(&p).display()))
        .collect();
    assert_none(&format!("a file has at most {MAX_LINES} lines; split it by idea"), found);
}

#[test]
fn nothing_shipped_unwraps() {
    for folder in [
        "service/src",
        "trial-runner/agent/src",
        "trial-runner/worker/src",
        "crates/elastune-api/src",
        "crates/elastune-cli/src",
        "crates/c10d/src",
    ] {
        let bad = |line: &str| line.contains(".unwrap()") || line.contains("todo!(") || line.contains("unimplemented!(");
        // c10d's one program is a rank for its tests.
        let found = offences(folder, bad).into_iter().filter(|o| !o.starts_with("crates/c10d/src/bin/")).collect();
        assert_none("answer an error or say with `expect` why it cannot happen", found);
    }
}

#[test]
fn no_test_is_switched_off() {
    let root = root();
    let mut found = Vec::new();
    for path in files(&root, &["rs"]) {
        let text = fs::read_to_string(&path).expect("sources are UTF-8");
        let ignored = text.lines().enumerate().filter(|(_, l)| l.trim_start().starts_with("#[ignore"));
        found.extend(ignored.map(|(n, _)| format!("{}:{}", path.strip_prefix(&root).unwrap_or(&path).display(), n + 1)));
    }
    assert_none("a test that does not run proves nothing: mend it or remove it", found);
}

#[test]
fn the_scanner_sees_code_and_not_comments_or_tests() {
    let text = "use a::sched;\n// sched in words\nlet x = y.unwrap(); // why\n#[cfg(test)]\nmod tests { z.unwrap() }\n";
    let lines: Vec<_> = shipped(text).collect();
    assert_eq!(lines.len(), 3);
    assert!(names_word(lines[0].1, "sched") && !names_word(lines[1].1, "sched"));
    assert!(lines[2].1.contains(".unwrap()"));
    assert!(!names_word("scheduling: fluid", "sched"));
    assert!(is_test_file(Path::new("service/src/db/tests.rs")) && is_test_file(Path::new("tests/tests/tidy.rs")));
    assert!(!is_test_file(Path::new("service/src/db/trials.rs")));
}
