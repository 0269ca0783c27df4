//! The readers' files: made once, one for each reader of each size.

use super::{ID, plan};
use crate::fs::file::{self, BLOCK_BYTES, Mode, Opened, open, seed_of};
use anyhow::{Context, Result, ensure};
use record::case::Series;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Writes all files of a series, on their device when this returns.
pub(super) fn write(series: &Series, dir: &Path) -> Result<Vec<PathBuf>> {
    let way_out = format!("fewer readers with --set {ID}.competitors=NUMBER");
    let mut written = Vec::new();
    for (size, count) in plan::files(&series.cases) {
        for index in 0..count {
            let name = name(size, index);
            let seed = seed_of(&dir.join(&name));
            let path = file::write(dir, &name, size, seed, &way_out)?;
            written.push(path);
        }
    }
    Ok(written)
}

fn name(size: u64, index: u64) -> String {
    format!("contention-{size}-{index}")
}

pub(super) struct Prepared {
    pub(super) opened: Opened,
    pub(super) seed: u64,
}

/// Files that are open, from the first case that needs them to the round's end.
#[derive(Default)]
pub(super) struct Files {
    open: BTreeMap<u64, Vec<Prepared>>,
}

impl Files {
    /// The first `count` files of a size, open for direct reads and nowhere in the page cache.
    ///
    /// # Errors
    /// One is gone or of another size, cannot be read directly, or stays in the page cache.
    pub(super) fn cold(&mut self, dir: &Path, size: u64, count: usize) -> Result<&[Prepared]> {
        let files = self.open.entry(size).or_default();
        while files.len() < count {
            let name = name(size, files.len() as u64);
            let path = dir.join(&name);
            let opened =
                open(&path, Mode::Direct).with_context(|| format!("the prepared file {name}"))?;
            ensure!(opened.bytes == size, "the prepared file {name} has another size");
            let (memory, offset) = (opened.memory_alignment, opened.offset_alignment);
            ensure!(
                memory.max(offset) <= BLOCK_BYTES as u64,
                "direct reads must be aligned to {offset} bytes in the file and {memory} in memory here: none is \
                 of 4 KiB"
            );
            let seed = seed_of(&path);
            files.push(Prepared { opened, seed });
        }
        let files = &files[..count];
        for file in files {
            file.opened.make_cold(0, 0)?;
        }
        Ok(files)
    }
}
