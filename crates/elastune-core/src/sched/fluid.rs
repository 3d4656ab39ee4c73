//! Fluid (Yu et al., MLSys 2021, section 4): a study's trials get widths in proportion to the work that each has left, so that they
//! end together; short ones share a device, long ones spread over several.
//!
//! Differences from the paper's executor, each a flaw of it: work left instead of time per iteration; speed-up curves instead of
//! linear ones; legal widths by largest remainder; trials are profiled while the others go on; a resize must pay for itself
//! (HyperSched's rule, Liaw et al., SoCC 2019) and shrinks happen only where somebody gains by them.

mod split;

pub use super::GAIN;
use super::{Capacity, Claim, Grant, Standing, Why, units};
use crate::model::width::Width;
use crate::time::Span;
use split::{Levels, split};

/// A resize that only saves time waits for this many results after the last one ...
pub const SETTLED_RESULTS: u32 = 5;
/// ... or until this long, and this many times what a resize costs (so that a trial trains most of the time), have passed.
const SETTLED_AFTER: Span = Span::from_secs(5);
const SETTLED_COSTS: i64 = 5;
/// A device is shared only where that does at least this many times the work of one trial alone.
const SHARING_GAIN: f64 = 1.05;

/// How long after a resize a trial may be resized again only to save time.
pub fn settles_after(restart_cost: Span) -> Span {
    SETTLED_AFTER.max(Span(restart_cost.0.saturating_mul(SETTLED_COSTS)))
}

/// One study's claims. Running ones keep at least their least width as long as the capacity covers that.
pub(super) fn allocate(claims: &[Claim], capacity: Capacity) -> Vec<Grant> {
    let mut grants = vec![Grant { width: Width::ZERO, why: Why::NoCapacity }; claims.len()];
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by(|&a, &b| queue(&claims[a], &claims[b]));
    let (mut free, mut slots) = (capacity.units(), capacity.claims);
    for &i in order.iter().filter(|&&i| claims[i].frozen) {
        grants[i] = Grant { width: claims[i].current, why: Why::Frozen };
        free = free.saturating_sub(units(claims[i].current));
        slots = slots.saturating_sub(1);
    }
    order.retain(|&i| !claims[i].frozen);
    for &i in order.iter().skip(slots as usize) {
        grants[i].why = Why::ParallelLimit;
    }
    order.truncate(slots as usize);

    let admitted = admit(claims, &order, free);
    for (i, width, why) in Division::new(claims, &admitted, free).widths() {
        grants[i] = Grant { width, why };
    }
    grants
}

/// Running ones by number, the others with most work left first.
fn queue(a: &Claim, b: &Claim) -> std::cmp::Ordering {
    let work = |claim: &Claim| if claim.standing == Standing::Running { 0.0 } else { -claim.remaining_s };
    let key = |claim: &Claim| (!claim.frozen, claim.standing);
    key(a).cmp(&key(b)).then(work(a).total_cmp(&work(b))).then((a.number, a.id).cmp(&(b.number, b.id)))
}

/// Who may hold something, and over which widths each may range: devices are shared by no more trials than the crowd asks for.
fn admit(claims: &[Claim], order: &[usize], free: u32) -> Vec<(usize, Levels)> {
    let devices = free / super::UNITS_PER_DEVICE;
    let crowd = if devices == 0 { 1 } else { (order.len() as u32).div_ceil(devices) };
    let mut left = free;
    let mut admitted = Vec::new();
    for &i in order {
        let levels = Levels::new(&claims[i], least(&claims[i], crowd));
        if levels.least().units <= left {
            left -= levels.least().units;
            admitted.push((i, levels));
        }
    }
    admitted
}

/// The smallest width for a trial when `crowd` trials come to a device.
pub(crate) fn least(claim: &Claim, crowd: u32) -> Width {
    let worth = |width: &Width| matches!(width, Width::Fraction(parts) if u32::from(*parts) <= crowd && f64::from(*parts) * claim.speed(*width) >= SHARING_GAIN);
    claim.speedup.iter().map(|(width, _)| *width).find(worth).unwrap_or_else(|| claim.min.max(Width::ONE))
}

/// The admitted claims and what they divide among them.
struct Division<'a> {
    claims: &'a [Claim],
    admitted: &'a [(usize, Levels)],
    free: u32,
}

impl<'a> Division<'a> {
    fn new(claims: &'a [Claim], admitted: &'a [(usize, Levels)], free: u32) -> Self {
        Division { claims, admitted, free }
    }

    fn claim(&self, at: usize) -> &'a Claim {
        &self.claims[self.admitted[at].0]
    }

    /// Holds what it may keep: who has fewer devices than its least width (lost some, or the user asks for more) must grow.
    fn running(&self, at: usize) -> bool {
        let (current, least) = (self.claim(at).current, self.admitted[at].1.least().width);
        !current.is_zero() && (matches!(current, Width::Fraction(_)) || current >= least)
    }

    /// Those that run, the one that would finish last first.
    fn by_seconds_left(&self, widths: &[Width]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.admitted.len()).collect();
        let left = |at: usize| self.claim(at).seconds_left(widths[at]);
        order.sort_by(|&a, &b| left(b).total_cmp(&left(a)).then(self.claim(a).number.cmp(&self.claim(b).number)));
        order
    }

    /// Fluid's widths from a clean slate; trials that were resized lately stay as they are where the others have room.
    fn targets(&self) -> Vec<Width> {
        let pinned = |at: usize| {
            let claim = self.claim(at);
            (self.running(at) && !claim.settled).then(|| units(claim.current))
        };
        let pins: Vec<Option<u32>> = (0..self.admitted.len()).map(pinned).collect();
        let items: Vec<(&Claim, &Levels)> = self.admitted.iter().map(|(i, levels)| (&self.claims[*i], levels)).collect();
        split(&items, &pins, self.free).unwrap_or_else(|| {
            let free = vec![None; items.len()];
            split(&items, &free, self.free).unwrap_or_else(|| items.iter().map(|(_, levels)| levels.least().width).collect())
        })
    }

    fn used(&self, widths: &[Width]) -> u32 {
        widths.iter().map(|width| units(*width)).sum()
    }

    /// When the last one ends, resizes included, in seconds from now.
    fn makespan_s(&self, widths: &[Width]) -> f64 {
        let end = |(at, width): (usize, &Width)| {
            let claim = self.claim(at);
            let cost = if self.running(at) && *width != claim.current { claim.restart_cost.as_secs_f64() } else { 0.0 };
            claim.seconds_left(*width) + cost
        };
        widths.iter().enumerate().map(end).fold(0.0, f64::max)
    }

    fn widths(&self) -> Vec<(usize, Width, Why)> {
        let targets = self.targets();
        // Newcomers get theirs; of the running ones only as many shrink as that needs, those first that mind least.
        let mut widths: Vec<Width> =
            targets.iter().enumerate().map(|(at, target)| if self.running(at) { self.claim(at).current } else { *target }).collect();
        let mut used = self.used(&widths);
        for &at in self.by_seconds_left(&targets).iter().rev() {
            if used > self.free && widths[at] > targets[at] {
                used -= units(widths[at]) - units(targets[at]);
                widths[at] = targets[at];
            }
        }
        let mut whys = vec![Why::Chosen; widths.len()];
        self.grow(&mut widths, &mut whys, |at| targets[at]);
        self.grow(&mut widths, &mut whys, |at| self.admitted[at].1.most().width);
        // Shrinking some for the sake of others must bring the end of all nearer.
        let settled = |at: usize| targets[at] == widths[at] || !self.running(at) || self.claim(at).settled;
        let better = self.makespan_s(&widths) > GAIN * self.makespan_s(&targets) && self.used(&targets) <= self.free;
        if better && (0..targets.len()).all(settled) {
            widths = targets;
            whys.fill(Why::Chosen);
        }
        widths.into_iter().zip(whys).enumerate().map(|(at, (width, why))| (self.admitted[at].0, width, why)).collect()
    }

    /// Hands free devices to those that would finish last, up to `limit`, where that pays for the resize.
    fn grow(&self, widths: &mut [Width], whys: &mut [Why], limit: impl Fn(usize) -> Width) {
        let mut left = self.free.saturating_sub(self.used(widths));
        for at in self.by_seconds_left(widths) {
            let (claim, now) = (self.claim(at), widths[at]);
            let fits = |width: &Width| *width > now && *width <= limit(at) && units(*width) - units(now) <= left;
            let Some(to) = self.admitted[at].1.widths().filter(fits).last() else { continue };
            let cost = claim.restart_cost.as_secs_f64();
            let gain = claim.seconds_left(now) / (claim.seconds_left(to) + cost).max(f64::MIN_POSITIVE);
            whys[at] = match (self.running(at), claim.settled) {
                (true, false) => Why::Unsettled,
                (true, true) if gain <= GAIN => Why::SmallGain { to, gain },
                _ => {
                    left -= units(to) - units(now);
                    widths[at] = to;
                    Why::Chosen
                }
            };
        }
    }
}
