//! Checkpoints: a safetensors file with the named tensors and, as one JSON value in its metadata, everything else that a trial
//! resumes from. Equal states give equal files, whatever the widths were. Called by `saver` and at start-up.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use elastune_core::model::space::Params;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::identity::Identity;
use crate::models::Layout;
use crate::pulse::Pulse;
use crate::train::Counters;

/// Part of the work that a file names, beside its tensors. No times: they would make equal states differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub subject: Subject,
    pub counters: Counters,
    pub epoch: u64,
    /// Samples of that epoch already trained.
    pub cursor: u64,
}

/// What must be equal for a state to mean the same thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    pub workload: String,
    pub parameters: Params,
    pub seed: u64,
    pub batch_size: u64,
    pub shards: u32,
    pub samples: u64,
    pub identity: Identity,
}

/// The one key of the file's metadata: several would be written in random order.
const KEY: &str = "elastune";
/// A larger file is no checkpoint of a built-in workload.
const LARGEST: u64 = 16 << 30;
const MEGABYTE: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    pub path: PathBuf,
    pub sha256: String,
    pub bytes: u64,
}

/// The flat state's pieces, by name: (name, shape, first value, number of values).
fn pieces(layout: &Layout, values: usize) -> Vec<(String, Vec<usize>, usize, usize)> {
    let mut at = 0;
    let mut piece = |name: String, shape: Vec<usize>| {
        let len = shape.iter().product();
        at += len;
        (name, shape, at - len, len)
    };
    let sizes = |shape: &[i64]| shape.iter().map(|size| *size as usize).collect::<Vec<_>>();
    let parameters: usize = layout.parameters.iter().map(|part| sizes(&part.shape).iter().product::<usize>()).sum();
    let named = layout.parameters.iter().chain(&layout.buffers);
    let mut pieces: Vec<_> = named.map(|part| piece(part.name.clone(), sizes(&part.shape))).collect();
    let used: usize = pieces.iter().map(|(.., len)| len).sum();
    for moment in 0..(values - used) / parameters.max(1) {
        pieces.push(piece(format!("optimizer.moment{}", moment + 1), vec![parameters]));
    }
    pieces
}

/// Writes `flat` (f32, little-endian) to `path`: temp, fsync, rename. Errors: the disk's.
pub fn write(path: &Path, header: &Header, layout: &Layout, flat: &[u8], pulse: &Pulse) -> anyhow::Result<Written> {
    let pieces = pieces(layout, flat.len() / 4);
    let views = pieces
        .iter()
        .map(|(name, shape, first, len)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), &flat[first * 4..(first + len) * 4])?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    let metadata = HashMap::from([(KEY.to_string(), serde_json::to_string(header)?)]);
    let file = safetensors::serialize(views, Some(metadata))?;
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    let written = (|| -> std::io::Result<()> {
        let mut sink = std::fs::File::create(&temporary)?;
        for chunk in file.chunks(MEGABYTE) {
            sink.write_all(chunk)?;
            pulse.tick();
        }
        sink.sync_all()?;
        std::fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
    })();
    if let Err(error) = written {
        let _ = std::fs::remove_file(&temporary);
        return Err(error).with_context(|| format!("the checkpoint {} could not be written", path.display()));
    }
    Ok(Written { path: path.to_path_buf(), sha256: hex::encode(Sha256::digest(&file)), bytes: file.len() as u64 })
}

/// Reads what `write` wrote: the header and the flat state's bytes. Errors, each in one line: not such a file, another
/// workload, other parameters or shapes, other threads or another instruction set.
pub fn read(path: &Path, subject: &Subject, layout: &Layout, values: usize) -> anyhow::Result<(Header, Vec<u8>)> {
    let name = path.display();
    let size = std::fs::metadata(path).with_context(|| format!("the checkpoint {name} cannot be read"))?.len();
    ensure!(size <= LARGEST, "the checkpoint {name} is too large");
    let file = std::fs::read(path).with_context(|| format!("the checkpoint {name} cannot be read"))?;
    let (_, metadata) = SafeTensors::read_metadata(&file).with_context(|| format!("{name} is not a safetensors file"))?;
    let header = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
    let header: Header = serde_json::from_str(header.with_context(|| format!("{name} is not a checkpoint of elastune"))?)
        .with_context(|| format!("{name} has a header that cannot be read"))?;
    let saved = &header.subject;
    if saved.identity != subject.identity {
        bail!(
            "{name} was trained with {}, here are {}: the results would differ; resume it on a machine like the first",
            saved.identity,
            subject.identity
        );
    }
    ensure!(saved == subject, "{name} is of another workload, other parameters, data or seed than this trial");
    let tensors = SafeTensors::deserialize(&file).with_context(|| format!("{name} is damaged"))?;
    let mut flat = Vec::with_capacity(values * 4);
    for (tensor, shape, ..) in pieces(layout, values) {
        let found = tensors.tensor(&tensor).with_context(|| format!("{name} has no tensor {tensor}"))?;
        ensure!(found.dtype() == Dtype::F32 && found.shape() == shape, "{name} has another shape of {tensor}");
        flat.extend_from_slice(found.data());
    }
    ensure!(flat.len() == values * 4, "{name} has not all of the state");
    Ok((header, flat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use elastune_core::model::workload::bind;

    fn subject() -> (Subject, Layout) {
        let parameters =
            bind("fashion-mnist-mlp", &serde_json::from_str(r#"{"hidden": 3, "batch_norm": true}"#).expect("JSON")).expect("they bind");
        let (_, layout) = crate::models::Network::new("fashion-mnist-mlp", &parameters).expect("it is built in");
        let identity = Identity { threads: 1, instruction_set: "some".into() };
        let workload = "fashion-mnist-mlp".to_string();
        (Subject { workload, parameters, seed: u64::MAX, batch_size: 64, shards: 4, samples: 1000, identity }, layout)
    }

    #[test]
    fn equal_states_give_equal_files_that_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let (subject, layout) = subject();
        let state = crate::state::State::new(&layout, 2, tch::Device::Cpu);
        let values = state.flat.numel();
        let flat: Vec<u8> = (0..values as u32).flat_map(|value| (value as f32).sqrt().to_le_bytes()).collect();
        let counters = Counters { step: 12, measured: 1, loss_bits: f64::NAN.to_bits(), metrics: Default::default() };
        let header = Header { subject: subject.clone(), counters, epoch: 0, cursor: 768 };
        let files: Vec<Written> = ["a", "b"]
            .iter()
            .map(|name| write(&folder.path().join(name), &header, &layout, &flat, &Pulse::default()).expect("it is written"))
            .collect();
        assert_eq!(files[0].sha256, files[1].sha256);
        assert_eq!(files[0].bytes, std::fs::metadata(&files[0].path).expect("a file").len());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2, "no temporary file stays");
        let (read_header, read_flat) = read(&files[0].path, &subject, &layout, values).expect("it reads back");
        assert_eq!((read_header, read_flat), (header, flat));
        assert!(read(&files[0].path, &subject, &layout, values + 3 * 794).is_err());
    }

    #[test]
    fn another_machine_or_trial_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (subject, layout) = subject();
        let values = crate::state::State::new(&layout, 1, tch::Device::Cpu).flat.numel();
        let header = Header { subject: subject.clone(), counters: Counters::default(), epoch: 0, cursor: 0 };
        let path = folder.path().join("c");
        write(&path, &header, &layout, &vec![0; 4 * values], &Pulse::default()).expect("it is written");
        let refused = |subject: &Subject| format!("{:#}", read(&path, subject, &layout, values).expect_err("it differs"));
        let two = Identity { threads: 2, ..subject.identity.clone() };
        assert!(refused(&Subject { identity: two, ..subject.clone() }).contains("trained with 1 thread(s) on some, here are 2 thread(s)"));
        assert!(refused(&Subject { seed: 1, ..subject.clone() }).contains("another workload"));
        let file = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &file[..file.len() - 1]).expect("a file");
        assert!(!refused(&subject).contains('\n'));
    }
}
