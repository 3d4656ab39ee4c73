//! Fashion-MNIST from its IDX files (gzipped), and batches of it. Called by `load` and `train`.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use flate2::read::GzDecoder;
use tch::{Device, Kind, Tensor};

/// Pixels of an image in a row or column, and classes.
pub const SIDE: i64 = 28;
pub const CLASSES: i64 = 10;

/// Mean and standard deviation of the training set's pixels, on the scale 0..1.
const MEAN: f64 = 0.2860;
const DEVIATION: f64 = 0.3530;
/// An IDX file larger than this is not Fashion-MNIST.
const MOST_IMAGES: usize = 1_000_000;

/// Images as bytes [n, 784] (a quarter of what floats take, and each process has its own), labels as i64 [n].
#[derive(Debug)]
pub struct Split {
    images: Tensor,
    labels: Tensor,
    pub len: u64,
}

#[derive(Debug)]
pub struct Data {
    pub train: Split,
    pub test: Split,
}

impl Data {
    /// Reads `folder`/fashion-mnist. Errors: a missing or malformed file, in one line with its path.
    pub fn load(folder: &Path, device: Device) -> anyhow::Result<Data> {
        let folder = folder.join("fashion-mnist");
        let split = |name: &str| Split::load(&folder, name, device);
        Ok(Data { train: split("train")?, test: split("t10k")? })
    }
}

impl Split {
    fn load(folder: &Path, name: &str, device: Device) -> anyhow::Result<Split> {
        let pixels = (SIDE * SIDE) as usize;
        let images = read_idx(&folder.join(format!("{name}-images-idx3-ubyte.gz")), pixels)?;
        let labels = read_idx(&folder.join(format!("{name}-labels-idx1-ubyte.gz")), 1)?;
        let len = labels.len();
        ensure!(images.len() == len * pixels, "{}: {name} has {} labels but {} images", folder.display(), len, images.len() / pixels);
        ensure!(len > 0, "{}: {name} is empty", folder.display());
        ensure!(labels.iter().all(|label| i64::from(*label) < CLASSES), "{}: a label of {name} is not below {CLASSES}", folder.display());
        let images = Tensor::from_slice(&images).view([len as i64, pixels as i64]).to_device(device);
        let labels = Tensor::from_slice(&labels).to_kind(Kind::Int64).to_device(device);
        Ok(Split { images, labels, len: len as u64 })
    }

    /// The samples at `indices`, normalised: images f32 [k, 1, 28, 28] and labels i64 [k].
    pub fn batch(&self, indices: &[i64]) -> (Tensor, Tensor) {
        let index = Tensor::from_slice(indices).to_device(self.images.device());
        let mut images = self.images.index_select(0, &index).to_kind(Kind::Float);
        let _ = images.g_mul_scalar_(1.0 / (255.0 * DEVIATION)).g_sub_scalar_(MEAN / DEVIATION);
        (images.view([-1, 1, SIDE, SIDE]), self.labels.index_select(0, &index))
    }
}

/// The bytes of a gzipped IDX file of unsigned bytes whose items have `item` bytes each.
fn read_idx(path: &Path, item: usize) -> anyhow::Result<Vec<u8>> {
    let file = std::fs::File::open(path).with_context(|| {
        format!("{} cannot be read; install the Debian package dataset-fashion-mnist, or say where data lies", path.display())
    })?;
    let mut bytes = Vec::new();
    GzDecoder::new(file)
        .take((MOST_IMAGES * item) as u64 + 17)
        .read_to_end(&mut bytes)
        .with_context(|| format!("{} is not a gzip file", path.display()))?;
    let word = |at: usize| -> anyhow::Result<usize> {
        let word = bytes.get(at..at + 4).with_context(|| format!("{} is cut off", path.display()))?;
        Ok(word.iter().fold(0usize, |value, byte| value << 8 | usize::from(*byte)))
    };
    let dimensions = word(0)?;
    if dimensions >> 8 != 0x08 || !(1..=3).contains(&(dimensions & 0xff)) {
        bail!("{} is not an IDX file of bytes", path.display());
    }
    let header = 4 + 4 * (dimensions & 0xff);
    let mut size = 1usize;
    for at in (4..header).step_by(4) {
        size = size.checked_mul(word(at)?).with_context(|| format!("{} names an impossible size", path.display()))?;
    }
    ensure!(bytes.len() == header + size && size.is_multiple_of(item), "{} has not the size that it names", path.display());
    bytes.drain(..header);
    Ok(bytes)
}
