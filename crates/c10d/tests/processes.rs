//! Groups of real processes: what collectives answer, and what happens when a peer dies, stops, never comes or is aborted.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use c10d::{Error, Group, Store};

/// Far beyond anything that a passing test needs.
const PATIENCE: Duration = Duration::from_secs(60);

fn host() -> (Store, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Store::host(listener, PATIENCE).unwrap(), address)
}

/// A `c10d-rank`, killed at the latest when the test is done with it.
struct Rank {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Rank {
    fn start(scenario: &str, rank: usize, size: usize, store: SocketAddr, timeout_ms: u64) -> Rank {
        let mut child = Command::new(env!("CARGO_BIN_EXE_c10d-rank"))
            .args([scenario, &rank.to_string(), &size.to_string(), &store.to_string(), "test/1", &timeout_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Rank { child, stdin, lines }
    }

    fn all(scenarios: &[&str], store: SocketAddr, timeout_ms: u64) -> Vec<Rank> {
        let size = scenarios.len();
        scenarios.iter().enumerate().map(|(rank, scenario)| Rank::start(scenario, rank, size, store, timeout_ms)).collect()
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a rank that speaks")
    }

    /// "WHAT KIND MS TEXT" of a failure.
    fn failure(&self, what: &str) -> (String, u64, String) {
        let line = self.line();
        let mut words = line.splitn(4, ' ');
        assert_eq!(words.next(), Some(what), "{line}");
        let kind = words.next().unwrap().to_owned();
        let ms = words.next().unwrap().parse().unwrap();
        (kind, ms, words.next().unwrap_or_default().to_owned())
    }

    fn tell(&mut self) {
        self.stdin.write_all(b"go\n").unwrap();
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn ends_well(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn collectives_agree_at_every_size() {
    for size in 1..=4 {
        let (_store, address) = host();
        let ranks = Rank::all(&vec!["collectives"; size], address, 20_000);
        for rank in ranks {
            assert_eq!(rank.line(), "ok");
            rank.ends_well();
        }
    }
}

#[test]
fn a_killed_peer_is_an_error_within_a_second() {
    let (_store, address) = host();
    let ranks = Rank::all(&["reduce"; 3], address, 30_000);
    for rank in &ranks {
        assert_eq!(rank.line(), "ready");
    }
    let killed = Instant::now();
    ranks[1].signal(rustix::process::Signal::KILL);
    for survivor in [&ranks[0], &ranks[2]] {
        let (_, _, text) = survivor.failure("reduce");
        assert!(killed.elapsed() < Duration::from_secs(1), "{:?}: {text}", killed.elapsed());
        assert!(!text.is_empty());
        let (_, ms, _) = survivor.failure("again");
        assert!(ms < 1000);
    }
}

#[test]
fn a_stopped_peer_is_an_error_at_the_timeout() {
    let (_store, address) = host();
    let ranks = Rank::all(&["reduce"; 2], address, 1500);
    for rank in &ranks {
        assert_eq!(rank.line(), "ready");
    }
    ranks[1].signal(rustix::process::Signal::STOP);
    let (kind, ms, text) = ranks[0].failure("reduce");
    assert_eq!(kind, "timeout", "{text}");
    assert!((1400..4000).contains(&ms), "{ms} ms");
}

#[test]
fn a_peer_that_never_comes_is_an_error_at_the_timeout() {
    let (_store, address) = host();
    let ranks: Vec<Rank> = (0..2).map(|rank| Rank::start("build", rank, 3, address, 1500)).collect();
    for rank in ranks {
        let (kind, ms, text) = rank.failure("build");
        assert_eq!(kind, "timeout", "{text}");
        assert!((1400..5000).contains(&ms), "{ms} ms");
        rank.ends_well();
    }
}

#[test]
fn an_abort_frees_the_caller_and_its_peers() {
    let (_store, address) = host();
    let mut ranks = Rank::all(&["abort", "reduce", "wait"], address, 30_000);
    for rank in &ranks {
        assert_eq!(rank.line(), "ready");
    }
    ranks[0].tell();
    let (_, ms, text) = ranks[0].failure("reduce");
    assert!(ms < 1000, "{ms} ms: {text}");
    // One comes to the same all-reduce later, the other may wait in it for that one.
    ranks[2].tell();
    assert!(ranks[2].failure("reduce").1 < 1000);
    let told = Instant::now();
    ranks[1].failure("reduce");
    assert!(told.elapsed() < Duration::from_secs(1));
    for rank in ranks {
        rank.ends_well();
    }
}

#[test]
fn a_hundred_rebuilds_leak_no_file_and_no_thread() {
    let (store, address) = host();
    let ranks = Rank::all(&["rebuild"; 2], address, 20_000);
    for rank in ranks {
        let line = rank.line();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[1], words[4]), (words[2], words[5]), "{line}");
        rank.ends_well();
    }
    // What they do leave is keys of the store, which is why a trial's store doesn't outlive its group for long.
    assert!(store.num_keys().unwrap() >= 110);
}

#[test]
fn the_reducer_averages_gradients() {
    for size in [1, 2, 3] {
        let (_store, address) = host();
        for rank in Rank::all(&vec!["train"; size], address, 20_000) {
            assert_eq!(rank.line(), "ok");
            rank.ends_well();
        }
    }
}

#[test]
fn clients_may_come_before_the_store_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        let store = Store::connect(address, PATIENCE)?;
        store.set("here", b"yes")
    });
    let store = Store::host(listener, PATIENCE).unwrap();
    assert_eq!(store.get("here").unwrap(), b"yes");
    client.join().unwrap().unwrap();
}

#[test]
fn a_port_has_one_holder_from_bind_to_the_end_of_its_store() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let in_use = |when: &str| assert_eq!(TcpListener::bind(address).unwrap_err().kind(), std::io::ErrorKind::AddrInUse, "{when}");
    in_use("bound");
    let store = Store::host(listener, PATIENCE).unwrap();
    in_use("hosted");
    let prefix = store.prefix("p").unwrap();
    drop(store);
    in_use("a prefix holds it");
    assert_eq!(prefix.add("n", 2).unwrap(), 2);
    drop(prefix);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn stores_keep_keys_under_their_prefix() {
    let (store, address) = host();
    let (a, b) = (store.prefix("a").unwrap(), Store::connect(address, PATIENCE).unwrap().prefix("b").unwrap());
    let keys = store.num_keys().unwrap();
    a.set("k", b"1").unwrap();
    b.set("k", &[0, 255]).unwrap();
    b.set("empty", b"").unwrap();
    assert_eq!((a.get("k").unwrap(), b.get("k").unwrap(), b.get("empty").unwrap()), (b"1".to_vec(), vec![0, 255], vec![]));
    assert_eq!(store.get("a/k").unwrap(), b"1");
    assert_eq!((a.add("n", 3).unwrap(), a.add("n", -1).unwrap()), (3, 2));
    assert_eq!(store.num_keys().unwrap(), keys + 4);
    assert!(a.check("k").unwrap() && !a.check("empty").unwrap());
    assert!(a.delete_key("k").unwrap() && !a.delete_key("k").unwrap());
    assert!(!a.check("k").unwrap());

    let since = Instant::now();
    let error = a.get_within("k", Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error, Error::Timeout(_)), "{error}");
    assert!((250..5000).contains(&since.elapsed().as_millis()));
    assert!(matches!(a.set("zero\0byte", b"").unwrap_err(), Error::Failed(_)));
}

#[test]
fn no_store_is_an_error_at_the_timeout() {
    // Bound but not served by anyone, and a port that nobody holds.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = listener.local_addr().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [held, free] {
        let since = Instant::now();
        let error = Store::connect(address, Duration::from_millis(500)).unwrap_err();
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}: {error}", since.elapsed());
    }
}

#[test]
fn a_group_of_one_needs_nobody_and_a_rank_beyond_it_is_refused() {
    let (store, _) = host();
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let group = Group::gloo(&store.prefix("g/1").unwrap(), 0, 1, PATIENCE, here).unwrap();
    group.barrier().unwrap();
    assert!(Group::gloo(&store.prefix("g/2").unwrap(), 1, 1, PATIENCE, here).is_err());
    // An address that isn't this machine's.
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    assert!(Group::gloo(&store.prefix("g/3").unwrap(), 0, 1, PATIENCE, elsewhere).is_err());
}
