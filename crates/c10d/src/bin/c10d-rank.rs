//! One rank for this crate's own tests, which start several as processes of their own: `c10d-rank SCENARIO RANK SIZE STORE
//! PREFIX TIMEOUT_MS`. Prints what it saw, a line each; panics on a wrong result.

#![allow(clippy::unwrap_used)] // a panic is how a wrong result is told

use std::io::BufRead;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use c10d::{Error, Group, Op, Reaper, Reducer, ReducerOptions, Store};
use tch::{Device, Kind, Tensor};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct Rank {
    rank: usize,
    size: usize,
    store: SocketAddr,
    prefix: String,
    timeout: Duration,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().expect("usage: c10d-rank SCENARIO RANK SIZE STORE PREFIX TIMEOUT_MS");
    let scenario = next();
    let rank = Rank {
        rank: next().parse().expect("a rank"),
        size: next().parse().expect("a size"),
        store: next().parse().expect("an address"),
        prefix: next(),
        timeout: Duration::from_millis(next().parse().expect("milliseconds")),
    };
    tch::set_num_threads(1);
    match scenario.as_str() {
        "collectives" => rank.collectives(),
        "build" => rank.build(),
        "reduce" => rank.reduce(),
        "wait" => rank.wait(),
        "abort" => rank.abort(),
        "rebuild" => rank.rebuild(),
        "train" => rank.train(),
        other => panic!("no scenario {other}"),
    }
}

fn say(line: String) {
    println!("{line}");
}

fn told() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("a line on stdin");
}

fn failed(what: &str, since: Instant, error: &Error) {
    let kind = if error.is_timeout() { "timeout" } else { "failed" };
    say(format!("{what} {kind} {} {error}", since.elapsed().as_millis()));
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.flatten(0, -1)).expect("floats")
}

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice(values)
}

fn thousand() -> Tensor {
    Tensor::ones([1000], (Kind::Float, Device::Cpu))
}

impl Rank {
    fn store(&self) -> Store {
        let store = Store::connect(self.store, Duration::from_secs(20)).expect("the test's store");
        store.prefix(&self.prefix).expect("a prefix")
    }

    fn group(&self) -> Group {
        Group::gloo(&self.store(), self.rank, self.size, self.timeout, HERE).expect("a group")
    }

    fn collectives(&self) {
        let (group, rank, size) = (self.group(), self.rank as f32, self.size);
        assert_eq!((group.rank(), group.size(), group.timeout()), (self.rank, size, self.timeout));
        let ranks: Vec<f32> = (0..size).map(|r| r as f32).collect();
        for root in 0..size {
            let mut t = tensor(&[rank, rank + 0.5]);
            group.broadcast(&mut t, root).unwrap();
            assert_eq!(floats(&t), [root as f32, root as f32 + 0.5]);
        }
        let sum: f32 = ranks.iter().sum();
        for (op, want) in [(Op::Sum, sum), (Op::Min, 0.0), (Op::Max, size as f32 - 1.0)] {
            let mut t = tensor(&[rank, 1.0]);
            group.all_reduce(&mut t, op).unwrap();
            assert_eq!(floats(&t), [want, if op == Op::Sum { size as f32 } else { 1.0 }]);
        }
        let mut large = Tensor::full([1_000_000], rank as f64 + 1.0, (Kind::Float, Device::Cpu));
        group.all_reduce(&mut large, Op::Sum).unwrap();
        assert_eq!(large.min().double_value(&[]), f64::from(sum) + size as f64);
        assert_eq!(large.max().double_value(&[]), f64::from(sum) + size as f64);

        let mut outputs: Vec<Tensor> = (0..size).map(|_| Tensor::zeros([2], (Kind::Float, Device::Cpu))).collect();
        group.all_gather(&mut outputs, &tensor(&[rank, -rank])).unwrap();
        for (r, output) in outputs.iter().enumerate() {
            assert_eq!(floats(output), [r as f32, -(r as f32)]);
        }
        // Rank r sends s + 1 rows [r, s] to rank s.
        let send: Vec<i64> = (1..=size as i64).collect();
        let receive = vec![self.rank as i64 + 1; size];
        let rows: Vec<f32> = (0..size).flat_map(|s| [rank, s as f32].repeat(s + 1)).collect();
        let input = tensor(&rows).reshape([-1, 2]);
        let mut output = Tensor::zeros([receive.iter().sum(), 2], (Kind::Float, Device::Cpu));
        group.all_to_all(&mut output, &receive, &input, &send).unwrap();
        let want: Vec<f32> = ranks.iter().flat_map(|r| [*r, rank].repeat(self.rank + 1)).collect();
        assert_eq!(floats(&output), want);
        // 64-bit integers, as hashes and counters travel.
        let mut t = Tensor::from_slice(&[i64::MAX - self.rank as i64]);
        group.all_reduce(&mut t, Op::Min).unwrap();
        assert_eq!(t.int64_value(&[0]), i64::MAX - (size as i64 - 1));
        group.barrier().unwrap();

        // Wrong arguments are errors with a text, and the group lives on, since nobody sent anything.
        let mut scattered = Tensor::zeros([4, 4], (Kind::Float, Device::Cpu)).narrow(1, 0, 2);
        assert!(!group.all_reduce(&mut scattered, Op::Sum).unwrap_err().to_string().is_empty());
        assert!(group.broadcast(&mut tensor(&[0.0]), size).is_err());
        assert!(group.all_gather(&mut [], &tensor(&[0.0])).is_err());
        assert!(group.all_to_all(&mut output, &[1], &input, &[]).is_err());
        group.barrier().unwrap();
        say("ok".into());
    }

    fn build(&self) {
        let since = Instant::now();
        match Group::gloo(&self.store(), self.rank, self.size, self.timeout, HERE) {
            Ok(_) => say(format!("built {}", since.elapsed().as_millis())),
            Err(error) => failed("build", since, &error),
        }
    }

    /// All-reduces until it fails.
    fn reduce(&self) {
        let group = self.group();
        say("ready".into());
        let mut t = thousand();
        loop {
            let since = Instant::now();
            if let Err(error) = group.all_reduce(&mut t, Op::Max) {
                failed("reduce", since, &error);
                // Broken for good: the next call must not hang either.
                let again = Instant::now();
                failed("again", again, &group.all_reduce(&mut t, Op::Max).unwrap_err());
                return;
            }
        }
    }

    /// Is in the group, does nothing until told to, then joins in.
    fn wait(&self) {
        let group = self.group();
        say("ready".into());
        told();
        let since = Instant::now();
        match group.all_reduce(&mut thousand(), Op::Max) {
            Ok(()) => say("reduced".into()),
            Err(error) => failed("reduce", since, &error),
        }
    }

    /// Waits for peers in an all-reduce until told to abort it.
    fn abort(&self) {
        let group = self.group();
        let aborter = group.aborter();
        say("ready".into());
        let (sender, told_at) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            told();
            sender.send(Instant::now()).expect("the main thread");
            assert!(aborter.abort().expect("an abort"));
            aborter
        });
        let error = group.all_reduce(&mut thousand(), Op::Max).unwrap_err();
        failed("reduce", told_at.recv().expect("the aborting thread"), &error);
        let aborter = thread.join().expect("no panic");
        drop(group);
        assert!(!aborter.abort().expect("nothing to abort"));
    }

    /// Builds a hundred groups one after the other; says how many files and threads there were after the first ten and at the end.
    fn rebuild(&self) {
        let store = Store::connect(self.store, Duration::from_secs(20)).expect("the test's store");
        let reaper = Reaper::start().expect("a thread");
        let count = |folder: &str| std::fs::read_dir(folder).expect("/proc").count();
        let mut before = None;
        for round in 0..110 {
            if round == 10 {
                before = Some((count("/proc/self/fd"), count("/proc/self/task")));
            }
            let prefix = store.prefix(&format!("{}/{round}", self.prefix)).expect("a prefix");
            let group = Group::gloo(&prefix, self.rank, self.size, self.timeout, HERE).expect("a group");
            let mut t = tensor(&[1.0]);
            group.all_reduce(&mut t, Op::Sum).unwrap();
            assert_eq!(floats(&t), [self.size as f32]);
            // Both ways of letting go; the first waits, so that what it counts is all that is left.
            match round % 2 {
                0 if round > 10 && round < 108 => reaper.reap((group, prefix)),
                _ => drop((group, prefix)),
            }
        }
        drop(reaper);
        let (files, threads) = before.expect("110 rounds");
        // The reaper was a thread of the first count.
        let (files_after, threads_after) = (count("/proc/self/fd"), count("/proc/self/task") + 1);
        say(format!("files {files} {files_after} threads {threads} {threads_after}"));
    }

    /// A few steps of a small network on this rank's part of a batch; the gradients must be those of the whole batch.
    fn train(&self) {
        let group = self.group();
        let size = self.size as i64;
        for views in [true, false] {
            tch::manual_seed(7);
            let params: Vec<Tensor> = [vec![16, 8], vec![16], vec![4, 16], vec![4]]
                .iter()
                .map(|shape| (Tensor::randn(shape.as_slice(), (Kind::Float, Device::Cpu)) * 0.3).set_requires_grad(true))
                .collect();
            let (x, y) =
                (Tensor::randn([8 * size, 8], (Kind::Float, Device::Cpu)), Tensor::randint(4, [8 * size], (Kind::Int64, Device::Cpu)));
            let loss = |x: &Tensor, y: &Tensor| {
                let h = x.linear(&params[0], Some(&params[1])).relu();
                h.linear(&params[2], Some(&params[3])).cross_entropy_for_logits(y)
            };
            // Small buckets, so that there are several of them.
            let options = ReducerOptions { bucket_bytes: 256, first_bucket_bytes: 64, gradients_as_views: views };
            let mut reducer = Reducer::new(&group, &params, options).expect("a reducer");
            for _ in 0..5 {
                let whole = Tensor::run_backward(&[loss(&x, &y)], &params, false, false);
                reducer.forward().unwrap();
                let (from, rows) = (8 * self.rank as i64, 8);
                reducer.backward(&loss(&x.narrow(0, from, rows), &y.narrow(0, from, rows))).unwrap();
                for (param, want) in params.iter().zip(&whole) {
                    assert!(param.grad().allclose(want, 1e-4, 1e-6, false));
                    tch::no_grad(|| {
                        let mut param = param.shallow_clone();
                        let _ = param.g_sub_(&(param.grad() * 0.5));
                    });
                }
            }
            drop(reducer);
        }
        group.barrier().unwrap();
        say("ok".into());
    }
}
