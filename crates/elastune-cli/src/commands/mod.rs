//! The client commands, one file a noun. Called by `main`.

pub mod events;
pub mod login;
pub mod node;
pub mod study;
pub mod trial;

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};

/// Larger documents are a mistake; the service would refuse them too.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;

/// A study's document from a file, or from standard input for `-`.
fn read_document(file: &Path) -> Result<String> {
    let (mut source, name): (Box<dyn Read>, String) = if file == Path::new("-") {
        (Box::new(std::io::stdin()), "standard input".into())
    } else {
        let opened = std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        (Box::new(opened), file.display().to_string())
    };
    let mut text = String::new();
    source.by_ref().take(MAX_DOCUMENT_BYTES + 1).read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        anyhow::bail!("{name} has more than 1 MiB; that is no study");
    }
    Ok(text)
}
