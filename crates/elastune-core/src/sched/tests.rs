//! What policies promise of claims alone (README, E to H).

use proptest::prelude::*;
use uuid::Uuid;

use super::pollux::Search;
use super::{Capacity, Claim, ClaimId, GAIN, Grant, PolicyConfig, PolicyMemory, Standing, UNITS_PER_DEVICE, afs, jsa, pollux, units};
use crate::model::ids::{StudyId, TrialId};
use crate::model::study::PolicyName;
use crate::model::width::Width;
use crate::rng::Seed;
use crate::time::Span;

/// Pollux's genetic search, small.
fn genetic() -> PolicyConfig {
    PolicyConfig::Pollux(pollux::Config { search: Search::Genetic { population: 8, generations: 5 }, ..pollux::Config::default() })
}

/// Every policy within a study.
fn policies() -> Vec<PolicyConfig> {
    PolicyName::ALL.into_iter().map(PolicyConfig::from).chain([genetic()]).collect()
}

/// Those that never stop a running trial for a waiting one.
fn gentle() -> Vec<PolicyConfig> {
    let preempts = |policy: &PolicyConfig| matches!(policy, PolicyConfig::Srtf(_) | PolicyConfig::Tiresias(_) | PolicyConfig::Afs(_));
    policies().into_iter().filter(|policy| !preempts(policy)).collect()
}

fn allocate(policy: PolicyConfig, claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    super::allocate(&policy, claims, capacity, &PolicyMemory::None, Seed(7)).grants
}

const WIDTHS: [(Width, f64); 5] =
    [(Width::Fraction(3), 0.45), (Width::Fraction(2), 0.65), (Width::ONE, 1.0), (Width::Devices(2), 1.74), (Width::Devices(4), 3.03)];

fn claim(number: u64, standing: Standing, current: Width, remaining_s: f64) -> Claim {
    Claim {
        id: ClaimId::Trial(TrialId(Uuid::from_u128(u128::from(number)))),
        standing,
        number,
        speedup: WIDTHS.to_vec(),
        min: Width::ONE,
        max: Width::Devices(4),
        remaining_s,
        attained_s: 0.0,
        current,
        frozen: false,
        settled: true,
        restart_cost: Span::from_secs(10),
        reallocation: 1.0,
        weight: 1.0,
        priority: 0,
    }
}

prop_compose! {
    fn trials()(parts in prop::collection::vec((0usize..5, prop::option::of(0usize..5), 0.0f64..1000.0, any::<bool>(), 0i32..10, 0.0f64..8000.0), 0..24)) -> Vec<Claim> {
        parts.into_iter().enumerate().map(|(number, (most, current, remaining_s, settled, frozen, attained_s))| {
            let width = current.map_or(Width::ZERO, |at| WIDTHS[at].0);
            let standing = match (current, number % 3) { (Some(_), _) => Standing::Running, (None, 0) => Standing::Resuming, _ => Standing::New };
            let mut claim = claim(number as u64, standing, width, remaining_s);
            claim.max = WIDTHS[most].0.max(Width::ONE).max(width);
            claim.settled = settled;
            claim.attained_s = attained_s;
            claim.reallocation = attained_s / 8000.0;
            claim.frozen = frozen == 0 && current.is_some();
            claim
        }).collect()
    }
}

prop_compose! {
    fn studies()(parts in prop::collection::vec((0u16..20, 0u16..20, 0.1f64..5.0, -1i32..2), 1..8)) -> Vec<Claim> {
        parts.into_iter().enumerate().map(|(number, (min, more, weight, priority))| {
            let mut claim = claim(number as u64, Standing::Running, Width::ZERO, 0.0);
            claim.id = ClaimId::Study(StudyId(Uuid::from_u128(number as u128)));
            (claim.min, claim.max, claim.weight, claim.priority) = (Width::Devices(min), Width::Devices(min + more), weight, priority);
            claim
        }).collect()
    }
}

fn used(grants: &[Grant]) -> u32 {
    grants.iter().map(|grant| units(grant.width)).sum()
}

fn capacity(devices: u32, claims: u32) -> Capacity {
    Capacity { devices, claims }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn max_min_never_over_allocates_and_is_monotone(claims in studies(), devices in 0u32..80) {
        let less = allocate(PolicyConfig::Between, &claims, capacity(devices, u32::MAX));
        let more = allocate(PolicyConfig::Between, &claims, capacity(devices + 1, u32::MAX));
        prop_assert!(used(&less) <= devices * UNITS_PER_DEVICE);
        for ((less, more), claim) in less.iter().zip(&more).zip(&claims) {
            prop_assert!(less.width <= more.width);
            prop_assert!(less.width <= claim.max);
        }
        let wanted: u32 = claims.iter().map(|claim| claim.max.ranks()).sum();
        prop_assert_eq!(used(&less), devices.min(wanted) * UNITS_PER_DEVICE, "nothing lies idle that a study could use");
    }

    #[test]
    fn no_study_of_the_highest_priority_starves(claims in studies(), devices in 0u32..80) {
        let grants = allocate(PolicyConfig::Between, &claims, capacity(devices, u32::MAX));
        let highest = claims.iter().filter(|claim| !claim.max.is_zero()).map(|claim| claim.priority).max();
        let top = |claim: &Claim| Some(claim.priority) == highest && !claim.max.is_zero();
        if devices as usize >= claims.iter().filter(|claim| top(claim)).count() {
            prop_assert!(claims.iter().zip(&grants).all(|(claim, grant)| !top(claim) || !grant.width.is_zero()));
        }
    }

    #[test]
    fn widths_stay_within_bounds_and_capacity(claims in trials(), devices in 0u32..24, parallel in 0u32..24) {
        for policy in policies() {
            let grants = allocate(policy, &claims, capacity(devices, parallel));
            let frozen: u32 = claims.iter().filter(|claim| claim.frozen).map(|claim| units(claim.current)).sum();
            prop_assert!(used(&grants) <= (devices * UNITS_PER_DEVICE).max(frozen));
            let running = grants.iter().filter(|grant| !grant.width.is_zero()).count();
            let fixed = claims.iter().filter(|claim| claim.frozen).count();
            prop_assert!(running <= (parallel as usize).max(fixed));
            for (claim, grant) in claims.iter().zip(&grants) {
                prop_assert!(grant.width.is_zero() || claim.speedup.iter().any(|(width, _)| *width == grant.width));
                prop_assert!(grant.width <= claim.max.max(claim.current));
                prop_assert!(!claim.frozen || grant.width == claim.current);
            }
        }
    }

    #[test]
    fn neither_order_nor_repetition_matters(claims in trials(), devices in 0u32..24, parallel in 0u32..24, turn in 0usize..24) {
        for policy in policies() {
            let grants = allocate(policy, &claims, capacity(devices, parallel));
            prop_assert_eq!(&allocate(policy, &claims, capacity(devices, parallel)), &grants);
            let mut turned = claims.clone();
            turned.rotate_left(turn.min(claims.len()));
            turned.reverse();
            for (claim, grant) in turned.iter().zip(allocate(policy, &turned, capacity(devices, parallel))) {
                let at = claims.iter().position(|other| other.id == claim.id).expect("it is the same claim");
                prop_assert_eq!(grant, grants[at], "{:?}", policy);
            }
        }
    }

    /// Of those that a study can name: a genetic search goes on from its last population, and a small one still finds better.
    #[test]
    fn what_was_granted_stays_granted(claims in trials(), devices in 0u32..24) {
        for policy in PolicyName::ALL.into_iter().map(PolicyConfig::from) {
            let mut claims = claims.clone();
            let mut memory = PolicyMemory::None;
            let mut last = Vec::new();
            for _ in 0..4 {
                let allocation = super::allocate(&policy, &claims, capacity(devices, u32::MAX), &memory, Seed(7));
                for (claim, grant) in claims.iter_mut().zip(&allocation.grants) {
                    claim.standing = match (grant.width.is_zero(), claim.current.is_zero()) {
                        (false, _) => Standing::Running,
                        (true, false) => Standing::Resuming,
                        (true, true) => claim.standing,
                    };
                    claim.current = grant.width;
                }
                last = allocation.grants;
                memory = allocation.memory;
            }
            let again = super::allocate(&policy, &claims, capacity(devices, u32::MAX), &memory, Seed(7));
            for (before, after) in last.iter().zip(&again.grants) {
                prop_assert_eq!(before.width, after.width, "{:?}", policy);
            }
        }
    }

    #[test]
    fn elastic_policies_grow_only_what_gains(claims in trials(), devices in 0u32..24) {
        for policy in policies().into_iter().filter(|policy| *policy != PolicyConfig::Fluid) {
            for (claim, grant) in claims.iter().zip(allocate(policy, &claims, capacity(devices, u32::MAX))) {
                if !claim.current.is_zero() && grant.width > claim.current && claim.current >= Width::ONE {
                    let gain = claim.seconds_left(claim.current) / (claim.seconds_left(grant.width) + 10.0);
                    prop_assert!(claim.settled, "{policy:?} resized a claim lately");
                    prop_assert!(gain > GAIN, "{policy:?}: {:?} to {:?} gains {gain}", claim.current, grant.width);
                }
            }
        }
    }

    /// From a clean slate, on concave tables, the greedy policies reach what the exact program reaches.
    #[test]
    fn the_genetic_search_is_no_better_than_the_exact_one(lengths in prop::collection::vec(1.0f64..1000.0, 1..8), devices in 8u32..24) {
        let claims: Vec<Claim> = lengths.iter().enumerate().map(|(n, s)| claim(n as u64, Standing::New, Width::ZERO, *s)).collect();
        let sum = |policy| -> f64 {
            let grants = allocate(policy, &claims, capacity(devices, u32::MAX));
            claims.iter().zip(grants).map(|(claim, grant)| -1.0 / claim.speed(grant.width)).sum()
        };
        let (exact, genetic) = (sum(PolicyConfig::from(PolicyName::Pollux)), sum(genetic()));
        prop_assert!(genetic <= exact + 1e-6);
    }

    #[test]
    fn the_exact_program_finds_what_trying_all_finds(
        tables in prop::collection::vec(prop::collection::btree_map(1u32..9, 0.0f64..10.0, 1..5), 1..6), devices in 0u32..17,
    ) {
        let tables: Vec<Vec<(u32, f64)>> = tables.into_iter().map(|table| table.into_iter().collect()).collect();
        let views: Vec<&[(u32, f64)]> = tables.iter().map(Vec::as_slice).collect();
        let found = jsa::best(&views, devices).map(|got| {
            assert!(got.iter().sum::<u32>() <= devices);
            tables.iter().zip(got).map(|(table, k)| table.iter().find(|(at, _)| *at == k).expect("it is a choice").1).sum::<f64>()
        });
        let tried = try_all(&views, devices);
        prop_assert_eq!(found.is_some(), tried.is_some());
        if let (Some(found), Some(tried)) = (found, tried) {
            prop_assert!((found - tried).abs() < 1e-9);
        }
    }

    #[test]
    fn waiting_trials_never_stop_running_ones(claims in trials(), waiting in 0u64..9, devices in 0u32..24) {
        for policy in gentle() {
            let running: Vec<Claim> = claims.iter().filter(|claim| claim.standing == Standing::Running).cloned().collect();
            let alone = allocate(policy, &running, capacity(devices, u32::MAX));
            let mut all = running.clone();
            all.extend((0..waiting).map(|number| claim(100 + number, Standing::New, Width::ZERO, 500.0)));
            let crowded = allocate(policy, &all, capacity(devices, u32::MAX));
            for (alone, crowded) in alone.iter().zip(&crowded) {
                prop_assert!(alone.width.is_zero() || !crowded.width.is_zero());
            }
        }
    }

    #[test]
    fn fluid_grows_only_what_gains(claims in trials(), devices in 0u32..24) {
        let grants = allocate(PolicyConfig::Fluid, &claims, capacity(devices, u32::MAX));
        let end = |widths: &dyn Fn(usize) -> Width| (0..claims.len()).map(|at| claims[at].seconds_left(widths(at))).filter(|s| s.is_finite()).fold(0.0, f64::max);
        for (at, (claim, grant)) in claims.iter().zip(&grants).enumerate() {
            let grown = !claim.current.is_zero() && grant.width > claim.current;
            if grown {
                let gain = claim.seconds_left(claim.current) / (claim.seconds_left(grant.width) + 10.0);
                // Either it gains by itself, or the whole study ends sooner.
                let before = end(&|at| claims[at].current.max(if claims[at].current.is_zero() { grants[at].width } else { Width::ZERO }));
                let after = end(&|at| grants[at].width);
                prop_assert!(claim.settled, "claim {at} was resized lately");
                prop_assert!(gain > GAIN || before > after, "claim {at}: {:?} to {:?} gains {gain}", claim.current, grant.width);
            }
        }
    }
}

fn try_all(tables: &[&[(u32, f64)]], devices: u32) -> Option<f64> {
    let Some((first, rest)) = tables.split_first() else { return Some(0.0) };
    let fitting = first.iter().filter(|(k, _)| *k <= devices);
    fitting.filter_map(|(k, gain)| Some(gain + try_all(rest, devices - k)?)).reduce(f64::max)
}

/// AFS's comparison against the completion times of two trials of which the first gets, or the second gets, one device now: the
/// first's device goes to the second when it has ended.
#[test]
fn afs_picks_the_device_that_ends_two_trials_sooner_on_average() {
    let speeds = [(1.0, 1.2), (1.0, 1.5), (1.0, 1.9), (2.0, 2.6), (3.0, 3.2)];
    for a in speeds {
        for b in speeds {
            for lengths in [(10.0, 11.0), (10.0, 100.0), (50.0, 400.0)] {
                let (la, lb) = lengths;
                if la / a.0 > lb / b.0 {
                    continue;
                }
                let rest = |first_end: f64, speed: f64| {
                    if lb > first_end * speed { first_end + (lb - first_end * speed) / b.1 } else { lb / speed }
                };
                let to_a = la / a.1 + rest(la / a.1, b.0);
                let to_b = la / a.0 + lb / b.1;
                let picks_a = afs::prefers(la, a, lb, b);
                if (to_a - to_b).abs() > 1e-9 && lb > la / a.1 * b.0 {
                    assert_eq!(picks_a, to_a < to_b, "{a:?} {b:?} {lengths:?}: {to_a} {to_b}");
                }
            }
        }
    }
}

#[test]
fn srtf_takes_the_shortest_and_tiresias_the_least_served() {
    let mut claims: Vec<Claim> =
        [900.0, 20.0, 400.0].iter().enumerate().map(|(n, s)| claim(n as u64, Standing::New, Width::ZERO, *s)).collect();
    (claims[0].current, claims[0].standing, claims[0].attained_s) = (Width::ONE, Standing::Running, 7200.0);
    let run = |policy: PolicyName| -> Vec<bool> {
        allocate(policy.into(), &claims, capacity(1, u32::MAX)).iter().map(|grant| !grant.width.is_zero()).collect()
    };
    assert_eq!(run(PolicyName::Srtf), [false, true, false], "the shortest stops the longest");
    assert_eq!(run(PolicyName::Tiresias), [false, true, false], "the one that has had two hours gives way to the first newcomer");
    assert_eq!(run(PolicyName::Fifo), [true, false, false]);
}

#[test]
fn fluid_gives_width_in_proportion_to_work() {
    let claims: Vec<Claim> = [800.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0]
        .into_iter()
        .enumerate()
        .map(|(n, s)| claim(n as u64, Standing::New, Width::ZERO, s))
        .collect();
    let widths: Vec<Width> = allocate(PolicyConfig::Fluid, &claims, capacity(8, u32::MAX)).into_iter().map(|grant| grant.width).collect();
    assert_eq!(widths[0], Width::Devices(2), "{widths:?}");
    assert!(widths[1..].iter().all(|width| *width == Width::ONE), "{widths:?}");
    let crowd: Vec<Claim> = (0..12).map(|n| claim(n, Standing::New, Width::ZERO, if n < 4 { 900.0 } else { 100.0 })).collect();
    let widths: Vec<Width> = allocate(PolicyConfig::Fluid, &crowd, capacity(8, u32::MAX)).into_iter().map(|grant| grant.width).collect();
    assert!(
        widths[..4].iter().all(|width| *width == Width::ONE) && widths[4..].iter().all(|width| *width == Width::Fraction(2)),
        "{widths:?}"
    );
}

#[test]
fn a_waiting_trial_makes_a_wide_one_shrink() {
    let mut claims = vec![claim(0, Standing::Running, Width::Devices(4), 400.0), claim(1, Standing::New, Width::ZERO, 400.0)];
    for claim in &mut claims {
        claim.speedup.retain(|(width, _)| *width >= Width::ONE);
        claim.settled = false;
    }
    let grants = allocate(PolicyConfig::Fluid, &claims, capacity(4, u32::MAX));
    assert_eq!((grants[0].width, grants[1].width), (Width::Devices(2), Width::Devices(2)), "it does not wait for 5 results");
}
