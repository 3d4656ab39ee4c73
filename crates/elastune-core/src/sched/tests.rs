//! What policies promise of claims alone (README, E to H).

use proptest::prelude::*;
use uuid::Uuid;

use super::fluid::GAIN;
use super::{Allocation, Capacity, Claim, ClaimId, PolicyConfig, Standing, UNITS_PER_DEVICE, allocate, units};
use crate::model::ids::{StudyId, TrialId};
use crate::model::width::Width;
use crate::time::Span;

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
        current,
        frozen: false,
        settled: true,
        restart_cost: Span::from_secs(10),
        weight: 1.0,
        priority: 0,
    }
}

prop_compose! {
    fn trials()(parts in prop::collection::vec((0usize..5, prop::option::of(0usize..5), 0.0f64..1000.0, any::<bool>(), 0i32..10), 0..24)) -> Vec<Claim> {
        parts.into_iter().enumerate().map(|(number, (most, current, remaining_s, settled, frozen))| {
            let width = current.map_or(Width::ZERO, |at| WIDTHS[at].0);
            let standing = match (current, number % 3) { (Some(_), _) => Standing::Running, (None, 0) => Standing::Resuming, _ => Standing::New };
            let mut claim = claim(number as u64, standing, width, remaining_s);
            claim.max = WIDTHS[most].0.max(Width::ONE).max(width);
            claim.settled = settled;
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

fn used(grants: &Allocation) -> u32 {
    grants.iter().map(|grant| units(grant.width)).sum()
}

fn capacity(devices: u32, claims: u32) -> Capacity {
    Capacity { devices, claims }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn max_min_never_over_allocates_and_is_monotone(claims in studies(), devices in 0u32..80) {
        let less = allocate(PolicyConfig::MaxMin, &claims, capacity(devices, u32::MAX));
        let more = allocate(PolicyConfig::MaxMin, &claims, capacity(devices + 1, u32::MAX));
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
        let grants = allocate(PolicyConfig::MaxMin, &claims, capacity(devices, u32::MAX));
        let highest = claims.iter().filter(|claim| !claim.max.is_zero()).map(|claim| claim.priority).max();
        let top = |claim: &Claim| Some(claim.priority) == highest && !claim.max.is_zero();
        if devices as usize >= claims.iter().filter(|claim| top(claim)).count() {
            prop_assert!(claims.iter().zip(&grants).all(|(claim, grant)| !top(claim) || !grant.width.is_zero()));
        }
    }

    #[test]
    fn widths_stay_within_bounds_and_capacity(claims in trials(), devices in 0u32..24, parallel in 0u32..24) {
        for policy in [PolicyConfig::Fifo, PolicyConfig::Fluid] {
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
    fn waiting_trials_never_stop_running_ones(claims in trials(), waiting in 0u64..9, devices in 0u32..24) {
        for policy in [PolicyConfig::Fifo, PolicyConfig::Fluid] {
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
