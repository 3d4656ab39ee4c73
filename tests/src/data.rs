//! A small Fashion-MNIST: the first images of the real one, in files of the same form. Made by `World`.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

const REAL: &str = "/usr/share/datasets/fashion-mnist";

/// Writes `folder`/fashion-mnist with so many images.
pub fn small(folder: &Path, train: u32, test: u32) {
    let folder = folder.join("fashion-mnist");
    std::fs::create_dir_all(&folder).expect("a folder for data");
    for (split, count) in [("train", train), ("t10k", test)] {
        // Of an IDX file: the magic number, the count, then 8 more bytes of sizes where the items are images.
        cut(&format!("{split}-images-idx3-ubyte.gz"), &folder, count, 16, 28 * 28);
        cut(&format!("{split}-labels-idx1-ubyte.gz"), &folder, count, 8, 1);
    }
}

fn cut(name: &str, folder: &Path, count: u32, header: usize, item: usize) {
    let real = Path::new(REAL).join(name);
    let file = File::open(&real).unwrap_or_else(|error| panic!("{}: {error}; run `make setup`", real.display()));
    let mut bytes = vec![0; header + count as usize * item];
    GzDecoder::new(file).read_exact(&mut bytes).expect("the data set has that many");
    bytes[4..8].copy_from_slice(&count.to_be_bytes());
    let mut small = GzEncoder::new(File::create(folder.join(name)).expect("a file"), Compression::fast());
    small.write_all(&bytes).expect("it can be written");
    small.finish().expect("it can be written");
}
