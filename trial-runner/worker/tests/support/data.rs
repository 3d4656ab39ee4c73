//! A small data set in Fashion-MNIST's format: ten noisy patterns.

use std::io::Write;
use std::path::Path;

use elastune_core::rng::Seed;
use flate2::Compression;
use flate2::write::GzEncoder;
use rand_core::RngCore;

/// Not a multiple of the batch size: the last batch of an epoch is smaller.
pub const TRAIN: usize = 1000;
pub const TEST: usize = 230;
const PIXELS: usize = 28 * 28;

pub fn write(folder: &Path) {
    let folder = folder.join("fashion-mnist");
    std::fs::create_dir_all(&folder).expect("a folder for data");
    let mut rng = Seed(1).rng();
    let mut patterns = vec![0u8; 10 * PIXELS];
    rng.fill_bytes(&mut patterns);
    for (name, count) in [("train", TRAIN), ("t10k", TEST)] {
        let labels: Vec<u8> = (0..count).map(|_| (rng.next_u32() % 10) as u8).collect();
        let mut images = vec![0u8; count * PIXELS];
        rng.fill_bytes(&mut images);
        for (image, label) in images.chunks_exact_mut(PIXELS).zip(&labels) {
            let pattern = &patterns[usize::from(*label) * PIXELS..][..PIXELS];
            image.iter_mut().zip(pattern).for_each(|(pixel, ink)| *pixel = *pixel / 4 * 3 + ink / 4);
        }
        idx(&folder.join(format!("{name}-images-idx3-ubyte.gz")), &[count, 28, 28], &images);
        idx(&folder.join(format!("{name}-labels-idx1-ubyte.gz")), &[count], &labels);
    }
}

fn idx(path: &Path, sizes: &[usize], bytes: &[u8]) {
    let mut file = GzEncoder::new(std::fs::File::create(path).expect("a file"), Compression::fast());
    file.write_all(&[0, 0, 8, sizes.len() as u8]).expect("a header");
    for size in sizes {
        file.write_all(&(*size as u32).to_be_bytes()).expect("a header");
    }
    file.write_all(bytes).expect("the bytes");
    file.finish().expect("an end");
}
