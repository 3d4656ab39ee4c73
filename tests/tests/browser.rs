//! The web page in a real browser, against the real service. The steps are in `web/e2e/page.mjs`; this holds the stack, and does what
//! a browser cannot.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use e2e::World;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_keeps_its_promises() {
    let mut world = World::with_node(512, 2).await;
    let web = web();
    let token = std::fs::read_to_string(world.service.token_file()).expect("the service leaves the admin's token");
    let mut script = Command::new("node");
    script.arg("e2e/page.mjs").current_dir(&web).env("ELASTUNE_SERVER", world.service.server()).env("ELASTUNE_TOKEN", token.trim());
    // What the browser keeps goes with the test; it ends with the script, and that with the test.
    script.env("TMPDIR", world.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut script = script.spawn().expect("node starts; run `make setup`");
    let mut answer = script.stdin.take().expect("it is piped");
    let mut said = BufReader::new(script.stdout.take().expect("it is piped")).lines();
    let mut last = String::new();
    while let Some(line) = said.next_line().await.expect("it writes text") {
        println!("{line}");
        match line.strip_prefix('@').map(|order| order.split(' ').collect::<Vec<_>>()).as_deref() {
            None => {
                last = line;
                continue;
            }
            Some(["kill"]) => world.service.kill(),
            Some(["resume"]) => world.service.resume().await,
            Some(["multiply", study]) => multiply(&world, study).await,
            Some(order) => panic!("the script asks for {order:?}"),
        }
        answer.write_all(b"done\n").await.expect("the script listens");
    }
    let status = script.wait().await.expect("a child ends");
    assert!(status.success(), "not kept: {last}; what node said is above");
    assert_eq!(last, "done");
}

/// The folder of the page, with its packages.
fn web() -> PathBuf {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    assert!(web.join("node_modules/playwright-core").is_dir(), "the page's packages are missing; run `make setup`");
    web
}

/// A hundred trials become ten thousand: what takes outside workers minutes over REST.
async fn multiply(world: &World, study: &str) {
    let copies = format!(
        "with copies as (select t.*, k, md5(t.id::text || k)::uuid as copy from trials t, generate_series(1, 99) k where t.study = '{study}')
         insert into trials (id, study, number, parameters, state, run_until, done, metrics, value, value_resource, measured, created_ms,
                             started_ms, ended_ms)
         select copy, study, number + 100 * k, parameters, state, run_until, done, metrics, value + k * 0.01, value_resource, measured,
                created_ms, started_ms, ended_ms from copies;
         insert into measurements (trial, step, metrics, elapsed_s, attempt, at_ms)
         select md5(t.id::text || k)::uuid, m.step, m.metrics, m.elapsed_s, m.attempt, m.at_ms
         from trials t join measurements m on m.trial = t.id, generate_series(1, 99) k where t.study = '{study}' and t.number < 100"
    );
    world.postgres.run(&copies).await;
}
