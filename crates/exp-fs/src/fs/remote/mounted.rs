//! Reads of files below a mounted directory, through the kernel.

use super::passes::{Reader, drive};
use super::{Look, place, wire};
use crate::fs::file::{Mode, Opened, open, right, write};
use crate::fs::offered::told;
use anyhow::{Context, Result, ensure};
use bench::measure::Bench;
use host::block::is_mounted;
use metal::storage::file_system;
use record::case::{Case, Series};
use record::quantity::render;
use record::unit::Unit;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Every file's data is of this seed and its size.
const SEED: u64 = 0x7265_6d6f_7465;

fn name(bytes: u64) -> String {
    format!("remote-{bytes}")
}

/// Writes a file of each size that the series has.
pub(super) fn prepare(series: &Series, dir: &Path) -> Result<Vec<PathBuf>> {
    let first = series.cases.first().context("the series has no case")?;
    let opened = std::fs::File::open(dir).context("opening the directory")?;
    place::of(&opened, first).with_context(|| dir.display().to_string())?;
    let sizes: BTreeSet<u64> = series.cases.iter().filter_map(|case| case.int("size")).collect();
    let written = sizes
        .into_iter()
        .map(|bytes| write(dir, &name(bytes), bytes, SEED ^ bytes, "--set fs.remote.size=SIZE"));
    written.collect()
}

/// A file in one of the ways to read it.
struct File {
    opened: Opened,
    mode: Mode,
    seed: u64,
    is_warm: bool,
}

impl Reader for File {
    fn begin_pass(&mut self) -> Result<()> {
        match self.mode {
            Mode::Cached if self.is_warm => Ok(()),
            Mode::Cached => {
                self.is_warm = true;
                self.opened.warm(0, 0)
            }
            _ => self.opened.make_cold(0, 0),
        }
    }

    #[inline]
    fn read(&mut self, block: &mut [u8], offset: u64) -> Result<()> {
        let read = self.opened.file.read_at(block, offset);
        let read = read.with_context(|| format!("reading at {offset}"))?;
        ensure!(read == block.len(), "a read at {offset} returned {read} bytes");
        Ok(())
    }

    fn check(&self, block: &[u8], offset: u64) -> Result<()> {
        ensure!(
            right(block, self.seed, offset),
            "the data read at {offset} differs from what was written there"
        );
        Ok(())
    }
}

pub(super) fn time(case: &Case, look: Look, bench: &mut Bench) -> Result<()> {
    let dir = bench.order().directory()?;
    demand_mount(case)?;
    let bytes = case.int("size").context("the case has no size")?;
    let mode = look.mode;
    // Opened anew: what the client keeps of attributes is asked for again (close-to-open), and
    // nothing that it learnt of earlier reads counts.
    let opened = open(&dir.join(name(bytes)), mode)?;
    ensure!(opened.bytes == bytes, "the size of the prepared file changed");
    let place = place::of(&opened.file, case).with_context(|| dir.display().to_string())?;
    let facts = file_system(&opened.file).context("statfs")?;
    let mut notes = opened.notes.clone();
    notes.extend(place.note);
    let mut file = File { opened, mode, seed: SEED ^ bytes, is_warm: false };
    file.begin_pass()?;
    let counters = wire::Before::of(place.target);
    let passes = drive(bench, look.pattern, bytes, &mut file)?;
    let counted = counters.and_then(wire::Before::end);
    let asked = passes.bytes();
    if mode == Mode::Cached {
        notes.push("read from the local page cache, which was filled first".to_owned());
    } else {
        let given = render(bytes as f64, Unit::B);
        notes.push(format!(
            "this run wrote these {given} to the server, which may answer from memory"
        ));
        let uncounted =
            "this file system does not count its requests, so a cache of its client may answer";
        notes.extend(counted.is_none().then(|| uncounted.to_owned()));
    }
    if let Some(counted) = &counted {
        counted.record(bench, case)?;
    }
    let samples = passes.record(bench, case)?;
    samples.quantities.insert("statfs_magic".to_owned(), facts.magic as f64);
    samples.quantities.insert("statfs_block_bytes".to_owned(), facts.block_bytes as f64);
    if let Some(counted) = &counted {
        counted.describe(samples, asked, mode == Mode::Cached);
    }
    samples.notes.extend(notes);
    Ok(())
}

/// Demands that what was mounted in planning still is. Where a program behind FUSE has ended, the
/// place is a directory of this machine again.
fn demand_mount(case: &Case) -> Result<()> {
    let Some(target) = told(case, "mount_point") else {
        return Ok(());
    };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    ensure!(
        is_mounted(&mounts, target),
        "nothing is mounted on {target} any more: the server or the FUSE program is gone"
    );
    Ok(())
}
