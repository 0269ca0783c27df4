//! The readers' files: made once, one for each reader of each size.

use super::{Competing, ID};
use crate::fs::file::{self, BLOCK_BYTES, Mode, Opened, open, seed_of};
use anyhow::{Context, Result, ensure};
use bench::experiment::Fields;
use record::case::{Case, Series};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files of cases: size and how many.
pub(super) fn sizes(cases: &[Case]) -> BTreeMap<u64, u64> {
    let mut sizes = BTreeMap::new();
    for case in cases.iter().filter_map(|case| Competing::of(&case.id)) {
        let count = sizes.entry(case.size).or_insert(0);
        *count = (*count).max(case.competitors + 1);
    }
    sizes
}

pub(super) fn bytes(files: &BTreeMap<u64, u64>) -> u64 {
    let all = files.iter().map(|(size, count)| size.saturating_mul(*count));
    all.fold(0, u64::saturating_add)
}

/// Writes all files of a series, on their device when this returns.
pub(super) fn write(series: &Series, dir: &Path) -> Result<Vec<PathBuf>> {
    let way_out = format!("fewer readers with --set {ID}.competitors=NUMBER");
    let all = sizes(&series.cases).into_iter();
    let names = all.flat_map(|(size, count)| (0..count).map(move |index| (size, index)));
    let write = |(size, index)| {
        let name = name(size, index);
        file::write(dir, &name, size, seed_of(&dir.join(&name)), &way_out)
    };
    names.map(write).collect()
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
    pub(super) fn cold(&mut self, dir: &Path, size: u64, count: usize) -> Result<&[Prepared]> {
        let files = self.open.entry(size).or_default();
        while files.len() < count {
            let name = name(size, files.len() as u64);
            let path = dir.join(&name);
            let opened = open(&path, Mode::Direct).with_context(|| name.clone())?;
            ensure!(opened.bytes == size, "the size of {name} changed since it was prepared");
            let (memory, offset) = (opened.memory_alignment, opened.offset_alignment);
            ensure!(
                memory.max(offset) <= BLOCK_BYTES as u64,
                "direct 4 KiB reads are impossible here: O_DIRECT needs an alignment of {offset} \
                 bytes ({memory} bytes in memory)"
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
