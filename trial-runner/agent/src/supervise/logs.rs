//! What workers write to their standard streams: files in their trial's folder, read on and passed on as log reports, bounded in
//! line length, rate and size. Used by `agent`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Longest line that is passed on, in bytes.
const LINE_BYTES: usize = 2000;
/// Most lines a reading.
const LINES: usize = 200;
/// Most bytes a reading; what is beyond waits for the next.
const READ_BYTES: u64 = 256 << 10;
/// A file that has been read this far is emptied.
const FILE_BYTES: u64 = 8 << 20;

/// Opened so that the agent may empty it while the worker writes.
pub fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[derive(Debug)]
pub struct Tail {
    file: File,
    position: u64,
    /// The beginning of a line whose end has not been written.
    partial: Vec<u8>,
    /// The rest of a line that was too long is skipped.
    skipping: bool,
}

impl Tail {
    /// From the start, or from what is there now: an earlier agent has passed it on.
    pub fn open(path: &Path, from_end: bool) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let position = if from_end { file.seek(SeekFrom::End(0))? } else { 0 };
        Ok(Tail { file, position, partial: Vec::new(), skipping: false })
    }

    /// Whole lines written since the last reading; `last`: the unfinished one as well.
    pub fn read(&mut self, last: bool) -> Vec<String> {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(self.position)).and_then(|_| (&self.file).take(READ_BYTES).read_to_end(&mut bytes));
        if read.is_err() {
            return Vec::new();
        }
        self.position += bytes.len() as u64;
        let at_end = (bytes.len() as u64) < READ_BYTES;
        if at_end && self.position > FILE_BYTES && self.file.set_len(0).is_ok() {
            self.position = 0;
        }
        let mut lines = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(&mut lines),
                _ if self.skipping => {}
                byte => {
                    self.partial.push(byte);
                    if self.partial.len() == LINE_BYTES {
                        self.partial.extend_from_slice(" ...".as_bytes());
                        lines.push(text(&self.partial));
                        self.partial.clear();
                        self.skipping = true;
                    }
                }
            }
        }
        if last && !self.partial.is_empty() {
            self.end_line(&mut lines);
        }
        if lines.len() > LINES {
            let left_out = lines.len() - LINES;
            lines.drain(..left_out);
            lines.insert(0, format!("({left_out} lines left out)"));
        }
        lines
    }

    fn end_line(&mut self, lines: &mut Vec<String>) {
        if !std::mem::take(&mut self.skipping) {
            lines.push(text(&self.partial));
        }
        self.partial.clear();
    }
}

/// Postgres takes no zero in a text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\r').replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_whole_and_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let mut writer = create(&path).expect("writable");
        let mut tail = Tail::open(&path, false).expect("readable");
        writer.write_all(b"one\ntw").expect("room");
        assert_eq!(tail.read(false), ["one"]);
        writer.write_all(b"o\nthree").expect("room");
        assert_eq!(tail.read(false), ["two"]);
        assert_eq!(tail.read(true), ["three"]);
        assert!(tail.read(true).is_empty());
        writer.write_all(b"four\n").expect("room");
        assert!(Tail::open(&path, true).expect("readable").read(true).is_empty());
    }

    #[test]
    fn a_flood_is_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let mut writer = create(&path).expect("writable");
        let mut tail = Tail::open(&path, false).expect("readable");
        writer.write_all(&[b'x'; 10_000]).expect("room");
        writer.write_all(b"\nshort\n").expect("room");
        let lines = tail.read(false);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].len(), lines[1].as_str()), (LINE_BYTES + 4, "short"));
        writer.write_all("y\n".repeat(1000).as_bytes()).expect("room");
        let lines = tail.read(false);
        assert_eq!((lines.len(), lines[0].as_str()), (LINES + 1, "(800 lines left out)"));
        for _ in 0..40 {
            writer.write_all("z\n".repeat(128 << 10).as_bytes()).expect("room");
            while !tail.read(false).is_empty() {}
        }
        assert!(std::fs::metadata(&path).expect("there").len() <= FILE_BYTES + READ_BYTES);
        writer.write_all(b"after\n").expect("room");
        assert_eq!(tail.read(false), ["after"]);
    }
}
