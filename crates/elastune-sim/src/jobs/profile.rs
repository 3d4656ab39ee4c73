//! What was measured of one model: seconds of a step by placement and local batch, and how it converges at which batch size. The
//! tables are those of Pollux's artefact (OSDI 2021); whoever holds the files reads them and makes a `Profile`.

use std::collections::BTreeMap;

/// A step on one placement. Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedStep {
    /// Replicas on each node.
    pub placement: Vec<u32>,
    pub local_batch: u32,
    pub step_s: f64,
    pub sync_s: f64,
}

/// A step on `nodes` with the replicas spread evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpreadStep {
    pub nodes: u32,
    pub replicas: u32,
    pub local_batch: u32,
    pub step_s: f64,
    pub sync_s: f64,
}

/// The state at the end of an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epoch {
    /// Steps at the initial batch size that are worth as much as those done.
    pub progress: f64,
    pub iterations: f64,
    pub grad_sqr: f64,
    pub grad_var: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    pub name: String,
    pub placed: Vec<PlacedStep>,
    pub spread: Vec<SpreadStep>,
    /// By global batch size, epoch after epoch.
    pub validation: BTreeMap<u32, Vec<Epoch>>,
    pub epochs: usize,
    /// Largest local batch that is used; None: the largest that was measured.
    pub max_local: Option<u32>,
}

/// Seconds of a step and of the synchronisation in it, at ascending local batches.
#[derive(Debug, Clone, Default)]
struct Curve(Vec<(f64, f64, f64)>);

#[derive(Debug, Clone)]
pub struct Profile {
    pub name: String,
    /// By placement: digits of the rotation that is the least in their order.
    placed: BTreeMap<Vec<u32>, Curve>,
    /// By nodes, then replicas.
    planes: BTreeMap<u32, Vec<(u32, Curve)>>,
    validation: BTreeMap<u32, Vec<Epoch>>,
    pub epochs: usize,
    pub initial_batch: u32,
    pub max_batch: u32,
    pub min_local: u32,
    pub max_local: u32,
}

impl Profile {
    /// None where a table is empty or an epoch is missing.
    pub fn new(tables: Tables) -> Option<Profile> {
        let mut placed: BTreeMap<Vec<u32>, Curve> = BTreeMap::new();
        let mut sums: BTreeMap<(u32, u32, u32), (f64, f64, f64)> = BTreeMap::new();
        for row in &tables.placed {
            let point = (f64::from(row.local_batch), row.step_s, row.sync_s);
            placed.entry(canonical(&row.placement)?).or_default().0.push(point);
            let sum = sums.entry((row.placement.len() as u32, row.placement.iter().sum(), row.local_batch)).or_default();
            *sum = (sum.0 + row.step_s, sum.1 + row.sync_s, sum.2 + 1.0);
        }
        let spread = tables.spread.iter().map(|row| ((row.nodes, row.replicas, row.local_batch), (row.step_s, row.sync_s, 1.0)));
        let mut planes: BTreeMap<u32, Vec<(u32, Curve)>> = BTreeMap::new();
        for ((nodes, replicas, local), (step, sync, count)) in sums.into_iter().chain(spread.collect::<BTreeMap<_, _>>()) {
            let plane = planes.entry(nodes).or_default();
            if plane.last().is_none_or(|(at, _)| *at != replicas) {
                plane.push((replicas, Curve::default()));
            }
            plane.last_mut()?.1.0.push((f64::from(local), step / count, sync / count));
        }
        for curve in placed.values_mut().chain(planes.values_mut().flatten().map(|(_, curve)| curve)) {
            curve.0.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let locals = || tables.placed.iter().map(|row| row.local_batch);
        let whole = tables.validation.values().all(|epochs| epochs.len() >= tables.epochs) && tables.epochs > 0;
        let (initial_batch, max_batch) = (*tables.validation.keys().next()?, *tables.validation.keys().next_back()?);
        whole.then_some(Profile {
            name: tables.name,
            placed,
            planes,
            epochs: tables.epochs,
            initial_batch,
            max_batch,
            min_local: locals().min()?,
            max_local: tables.max_local.or(locals().max())?,
            validation: tables.validation,
        })
    }

    /// Seconds of a step, and of the synchronisation in it. `placement`: replicas on each node, none of them 0.
    pub fn step_s(&self, placement: &[u32], local: u32) -> (f64, f64) {
        let at = f64::from(local);
        match canonical(placement).and_then(|key| self.placed.get(&key)) {
            Some(curve) => curve.at(at),
            None => self.between(placement.len() as u32, placement.iter().sum(), at),
        }
    }

    /// Linear in nodes, replicas and local batch, along lines of equal replicas a node.
    fn between(&self, nodes: u32, replicas: u32, local: f64) -> (f64, f64) {
        let per_node = f64::from(replicas) / f64::from(nodes.max(1));
        let below = self.planes.range(..=nodes).next_back().or(self.planes.first_key_value());
        let above = self.planes.range(nodes..).next().or(self.planes.last_key_value());
        let (Some((low, below)), Some((high, above))) = (below, above) else { return (f64::INFINITY, 0.0) };
        let on = |nodes: u32, plane: &[(u32, Curve)]| {
            let points: Vec<(f64, f64, f64)> = plane
                .iter()
                .map(|(replicas, curve)| {
                    let (step, sync) = curve.at(local);
                    (f64::from(*replicas), step, sync)
                })
                .collect();
            Curve(points).at(per_node * f64::from(nodes))
        };
        let (a, b) = (on(*low, below), on(*high, above));
        let part = if high > low { f64::from(nodes.clamp(*low, *high) - low) / f64::from(high - low) } else { 0.0 };
        (a.0 + part * (b.0 - a.0), a.1 + part * (b.1 - a.1))
    }

    /// The progress at which `epoch` epochs have ended, whatever the batch size.
    pub fn progress_after(&self, epoch: usize) -> f64 {
        epoch.checked_sub(1).map_or(0.0, |last| self.validation.values().map(|epochs| epochs[last].progress).fold(f64::INFINITY, f64::min))
    }

    /// Steps until `epoch` epochs have ended.
    pub fn iterations(&self, batch: u32, epoch: usize) -> f64 {
        epoch.checked_sub(1).map_or(0.0, |last| self.interpolate(batch, |epochs| epochs[last].iterations))
    }

    /// |E g|^2 and tr Cov(g) at the initial batch size during `epoch` (from 0).
    pub fn noise(&self, batch: u32, epoch: usize) -> (f64, f64) {
        (self.interpolate(batch, |epochs| epochs[epoch].grad_sqr), self.interpolate(batch, |epochs| epochs[epoch].grad_var))
    }

    fn interpolate(&self, batch: u32, of: impl Fn(&[Epoch]) -> f64) -> f64 {
        let below = self.validation.range(..=batch).next_back().or(self.validation.first_key_value());
        let above = self.validation.range(batch..).next().or(self.validation.last_key_value());
        let (Some((low, below)), Some((high, above))) = (below, above) else { return 0.0 };
        let part = if high > low { f64::from(batch - low) / f64::from(high - low) } else { 0.0 };
        of(below) + part * (of(above) - of(below))
    }

    /// Local batch and accumulations with which `replicas` take `batch` together. `accumulate`: at least one accumulation.
    pub fn split(&self, batch: u32, replicas: u32, accumulate: bool) -> (u32, u32) {
        let share = batch.div_ceil(replicas);
        let accumulation = (share.div_ceil(self.max_local) - 1).max(u32::from(accumulate));
        let local = share.div_ceil(accumulation + 1);
        (local.min(self.max_batch / (replicas * (accumulation + 1))).max(1), accumulation)
    }
}

impl Curve {
    /// Linear between the points, level beyond them.
    fn at(&self, x: f64) -> (f64, f64) {
        let next = self.0.partition_point(|point| point.0 < x);
        match (next.checked_sub(1).and_then(|last| self.0.get(last)), self.0.get(next)) {
            (Some(a), Some(b)) => {
                let part = (x - a.0) / (b.0 - a.0);
                (a.1 + part * (b.1 - a.1), a.2 + part * (b.2 - a.2))
            }
            (Some(only), None) | (None, Some(only)) => (only.1, only.2),
            (None, None) => (f64::INFINITY, 0.0),
        }
    }
}

/// The least rotation; None of no nodes.
fn canonical(placement: &[u32]) -> Option<Vec<u32>> {
    let rotation = |at: usize| placement[at..].iter().chain(&placement[..at]).copied().collect::<Vec<u32>>();
    (0..placement.len()).map(rotation).min()
}

/// `replicas` on as few nodes of `size` as hold them.
pub fn packed(replicas: u32, size: u32) -> Vec<u32> {
    let full = vec![size; (replicas / size) as usize];
    full.into_iter().chain((!replicas.is_multiple_of(size)).then_some(replicas % size)).collect()
}
