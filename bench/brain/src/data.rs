//! Reads Pollux's profiles and workloads (OSDI 2021, artefact) from the folder of public data. Called by the parts that need them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use elastune_sim::jobs::Request;
use elastune_sim::jobs::profile::{Epoch, PlacedStep, Profile, SpreadStep, Tables};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Epochs after which each model has reached its quality, and the largest local batch that its users allow.
const MODELS: [(&str, usize, Option<u32>); 6] = [
    ("bert", 2, None),
    ("cifar10", 100, None),
    ("deepspeech2", 80, None),
    ("imagenet", 90, None),
    ("ncf", 10, None),
    ("yolov3", 50, Some(8)),
];

/// The workloads that are there, of the artefact's eight.
pub const WORKLOADS: [u32; 5] = [1, 2, 3, 4, 6];

/// The folder of public data: `$ELASTUNE_SHARED_DATA`, else `../shared/data` beside the repository. None, said loudly, where there
/// is none.
pub fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("ELASTUNE_SHARED_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let found = named.clone().unwrap_or(beside);
    if found.join("pollux").is_dir() {
        return Some(found);
    }
    eprintln!("SKIPPED: no public data at {}; set ELASTUNE_SHARED_DATA to the folder that holds pollux/", found.display());
    None
}

/// The six models, in the order of their names.
pub fn profiles(folder: &Path) -> Result<Vec<Profile>> {
    MODELS.iter().map(|model| profile(folder, *model)).collect()
}

fn profile(folder: &Path, (name, epochs, max_local): (&str, usize, Option<u32>)) -> Result<Profile> {
    #[derive(Deserialize)]
    struct Placed {
        placement: String,
        local_bsz: u32,
        step_time: f64,
        sync_time: f64,
    }
    #[derive(Deserialize)]
    struct Spread {
        num_nodes: u32,
        num_replicas: u32,
        local_bsz: u32,
        step_time: f64,
        sync_time: f64,
    }
    #[derive(Deserialize)]
    struct Validation {
        progress: f64,
        iteration: f64,
        grad_sqr: f64,
        grad_var: f64,
    }
    let folder = folder.join("pollux/profiles").join(name);
    let placed = rows::<Placed>(&folder.join("placements.csv"))?.into_iter().map(|row| PlacedStep {
        placement: row.placement.chars().filter_map(|digit| digit.to_digit(10)).collect(),
        local_batch: row.local_bsz,
        step_s: row.step_time,
        sync_s: row.sync_time,
    });
    let spread = rows::<Spread>(&folder.join("scalability.csv"))?.into_iter().map(|row| SpreadStep {
        nodes: row.num_nodes,
        replicas: row.num_replicas,
        local_batch: row.local_bsz,
        step_s: row.step_time,
        sync_s: row.sync_time,
    });
    let mut validation = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if let Some(batch) = stem.strip_prefix("validation-") {
            let epoch = |row: Validation| Epoch {
                progress: row.progress,
                iterations: row.iteration,
                grad_sqr: row.grad_sqr,
                grad_var: row.grad_var,
            };
            validation.insert(batch.parse()?, rows::<Validation>(&path)?.into_iter().map(epoch).collect());
        }
    }
    let tables = Tables { name: name.into(), placed: placed.collect(), spread: spread.collect(), validation, epochs, max_local };
    Profile::new(tables).with_context(|| format!("{name}: a table is empty or too short"))
}

/// Workload `number`, by arrival.
pub fn workload(folder: &Path, number: u32) -> Result<Vec<Request>> {
    #[derive(Deserialize)]
    struct Row {
        time: f64,
        application: String,
        num_replicas: u32,
        batch_size: u32,
    }
    let path = folder.join(format!("pollux/workloads/workload-{number}.csv"));
    let mut requests = Vec::new();
    for row in rows::<Row>(&path)? {
        let Some(profile) = MODELS.iter().position(|(name, ..)| *name == row.application) else {
            bail!("{}: unknown application {}", path.display(), row.application);
        };
        // The artefact trains this model on one GPU with this batch under every policy.
        let fixed_batch = row.application == "ncf";
        requests.push(Request { at_s: row.time, profile, replicas: row.num_replicas, batch: row.batch_size, fixed_batch });
    }
    requests.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Ok(requests)
}

fn rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    csv::Reader::from_reader(file).into_deserialize().collect::<Result<_, _>>().with_context(|| path.display().to_string())
}
