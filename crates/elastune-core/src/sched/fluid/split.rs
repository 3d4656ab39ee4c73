//! Fluid's division from a clean slate: real-valued widths with which all would end together, then legal ones by largest remainder.

use crate::model::width::Width;
use crate::sched::{Claim, UNITS_PER_DEVICE, units};

/// Halvings of the interval in which the common end lies: below any resolution that widths have.
const HALVINGS: usize = 48;

#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    pub width: Width,
    pub units: u32,
    speed: f64,
}

/// The widths over which a claim may range, ascending; never empty.
#[derive(Debug, Clone)]
pub(super) struct Levels(Vec<Level>);

impl Levels {
    /// `least`, then every legal whole width up to the claim's largest.
    pub fn new(claim: &Claim, least: Width) -> Levels {
        let level = |width: Width| Level { width, units: units(width), speed: claim.speed(width) };
        let above =
            claim.speedup.iter().map(|(width, _)| *width).filter(|width| *width > least && *width >= Width::ONE && *width <= claim.max);
        Levels(std::iter::once(least).chain(above).map(level).collect())
    }
    pub fn least(&self) -> Level {
        self.0[0]
    }
    pub fn most(&self) -> Level {
        self.0[self.0.len() - 1]
    }
    pub fn widths(&self) -> impl Iterator<Item = Width> + '_ {
        self.0.iter().map(|level| level.width)
    }

    /// Real-valued units at which the speed is `speed`, within the levels.
    fn units_for(&self, speed: f64) -> f64 {
        let first = self.least();
        let mut last = (f64::from(first.units), first.speed);
        for level in &self.0 {
            if level.speed >= speed {
                let rise = level.speed - last.1;
                let part = if rise > 0.0 { ((speed - last.1) / rise).clamp(0.0, 1.0) } else { 0.0 };
                return last.0 + part * (f64::from(level.units) - last.0);
            }
            last = (f64::from(level.units), level.speed);
        }
        last.0
    }
}

/// A width for each item, `free` units in all; None if the pinned ones leave less than the others' least.
/// `pins`: units of items that stay as they are.
pub(super) fn split(items: &[(&Claim, &Levels)], pins: &[Option<u32>], free: u32) -> Option<Vec<Width>> {
    let open: Vec<usize> = (0..items.len()).filter(|&at| pins[at].is_none()).collect();
    let pinned: u32 = pins.iter().flatten().sum();
    let least: u32 = open.iter().map(|&at| items[at].1.least().units).sum();
    let budget = free.checked_sub(pinned).filter(|budget| *budget >= least)?;

    let ideal = ideal(items, &open, f64::from(budget));
    let floor = |levels: &Levels, units: f64| levels.0.iter().rposition(|level| f64::from(level.units) <= units + 1e-6).unwrap_or(0);
    let mut chosen: Vec<usize> = open.iter().zip(&ideal).map(|(&at, units)| floor(items[at].1, *units)).collect();
    let mut left = budget - open.iter().zip(&chosen).map(|(&at, level)| items[at].1.0[*level].units).sum::<u32>();

    let mut remainders: Vec<(usize, f64, f64)> = Vec::new();
    for (k, &at) in open.iter().enumerate() {
        let levels = &items[at].1.0;
        if let Some(next) = levels.get(chosen[k] + 1) {
            let step = f64::from(next.units - levels[chosen[k]].units);
            let remainder = (ideal[k] - f64::from(levels[chosen[k]].units)) / step;
            if remainder > 1e-6 {
                remainders.push((k, remainder, items[at].0.remaining_s / levels[chosen[k]].speed));
            }
        }
    }
    // Equal remainders (to the rounding of the search) go to the one that would end last.
    remainders.sort_by(|a, b| {
        let coarse = |remainder: f64| (remainder * 1e4).round();
        coarse(b.1).total_cmp(&coarse(a.1)).then(b.2.total_cmp(&a.2)).then(a.0.cmp(&b.0))
    });
    for (k, ..) in remainders {
        raise(&items[open[k]].1.0, &mut chosen[k], &mut left);
    }
    // What is left goes to whoever would end last and can use it.
    let mut growing: Vec<usize> = (0..open.len()).collect();
    while left > 0 && !growing.is_empty() {
        let end = |k: usize| items[open[k]].0.remaining_s / items[open[k]].1.0[chosen[k]].speed;
        let (at, k) =
            growing.iter().copied().enumerate().fold((0, growing[0]), |best, next| if end(next.1) > end(best.1) { next } else { best });
        if !raise(&items[open[k]].1.0, &mut chosen[k], &mut left) {
            growing.swap_remove(at);
        }
    }

    let mut widths: Vec<Width> = items.iter().map(|(claim, _)| claim.current).collect();
    for (k, &at) in open.iter().enumerate() {
        widths[at] = items[at].1.0[chosen[k]].width;
    }
    Some(widths)
}

fn raise(levels: &[Level], chosen: &mut usize, left: &mut u32) -> bool {
    let Some(next) = levels.get(*chosen + 1) else { return false };
    let step = next.units - levels[*chosen].units;
    let fits = step <= *left && next.speed > levels[*chosen].speed;
    if fits {
        *left -= step;
        *chosen += 1;
    }
    fits
}

/// Units for each open item with which all end at the same time, as far as their least and largest widths allow.
fn ideal(items: &[(&Claim, &Levels)], open: &[usize], budget: f64) -> Vec<f64> {
    let widths = |end_s: f64| -> Vec<f64> { open.iter().map(|&at| items[at].1.units_for(items[at].0.remaining_s / end_s)).collect() };
    let longest = open.iter().map(|&at| items[at].0.remaining_s / items[at].1.least().speed).fold(0.0, f64::max);
    if longest <= 0.0 {
        return open.iter().map(|&at| f64::from(items[at].1.least().units)).collect();
    }
    // In logarithms: a common end below a millionth of the longest is no end worth finding.
    let (mut low, mut high) = ((longest * 1e-6).ln(), longest.ln());
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if widths(middle.exp()).iter().sum::<f64>() > budget {
            low = middle;
        } else {
            high = middle;
        }
    }
    let fair = widths(high.exp());
    debug_assert!(fair.iter().sum::<f64>() <= budget + f64::from(UNITS_PER_DEVICE));
    fair
}
