//! Files that are written before they are read: incompressible data without equal blocks, on the
//! device and out of memory.

use anyhow::{Context, Result, ensure};
use metal::fault::{evict, free_bytes};
use metal::storage::{Extent, extents};
use record::quantity::render;
use record::unit::Unit;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A block of the data has so many bytes, and depends on nothing but the file's seed and its place.
pub const BLOCK_BYTES: usize = 4096;
/// Data is written in pieces of so many bytes.
const PIECE_BYTES: usize = 1 << 20;
/// One over this of the free space stays free.
const MARGIN: u64 = 10;

/// Writes a new file of `bytes` in `dir`: the data of `seed`, on the device in written extents (if
/// the file system reports that), and out of the page cache as far as the kernel lets it go.
/// `way_out` says how it would be made smaller. On error nothing is left of it. Errors: the file is
/// there already, there is too little free space, it cannot be written or synced, or some of it
/// lies in no written extent.
pub fn write(dir: &Path, name: &str, bytes: u64, seed: u64, way_out: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    demand_space(dir, bytes, way_out)?;
    let file = OpenOptions::new()
        .write(true)
        .read(true)
        .create_new(true)
        .open(&path)
        .with_context(|| format!("cannot create {name} in {}", dir.display()))?;
    let written = fill_file(&file, bytes, seed)
        .and_then(|()| demand_written_extents(&file, bytes).map(|_| ()))
        .with_context(|| format!("preparing {name} in {}", dir.display()));
    if let Err(error) = written {
        // What is left goes with the run's directory.
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    Ok(path)
}

/// Demands room for `bytes` more, and a margin. Errors: there is too little, or the file system
/// does not say.
pub fn demand_space(dir: &Path, bytes: u64, way_out: &str) -> Result<()> {
    let opened = File::open(dir).with_context(|| format!("opening {}", dir.display()))?;
    let free = free_bytes(&opened).context("asking for the free space")?;
    ensure!(
        bytes <= free - free / MARGIN,
        "{} has {} free, plumb leaves a tenth unused, and {} would be written: name another \
         directory with --dir, or {way_out}",
        dir.display(),
        render(free as f64, Unit::B),
        render(bytes as f64, Unit::B)
    );
    Ok(())
}

fn fill_file(mut file: &File, bytes: u64, seed: u64) -> Result<()> {
    ensure!(file.metadata()?.is_file(), "it is not a regular file");
    let mut piece = vec![0_u8; PIECE_BYTES];
    let mut at = 0;
    while at < bytes {
        let now = (bytes - at).min(PIECE_BYTES as u64) as usize;
        fill(&mut piece[..now], seed, at);
        file.write_all(&piece[..now]).context("writing")?;
        at += now as u64;
    }
    file.sync_data().context("syncing")?;
    // What the kernel keeps is seen when it matters: before a cold read.
    evict(file, 0, 0).context("evicting")
}

/// Puts the data of a file into a buffer, as it stands there from `offset` on.
pub fn fill(buffer: &mut [u8], seed: u64, offset: u64) {
    let mut block = [0_u8; BLOCK_BYTES];
    let mut done = 0;
    while done < buffer.len() {
        let at = offset + done as u64;
        let inside = (at % BLOCK_BYTES as u64) as usize;
        let now = (BLOCK_BYTES - inside).min(buffer.len() - done);
        let mut random = fastrand::Rng::with_seed(mixed(seed, at / BLOCK_BYTES as u64));
        match now {
            BLOCK_BYTES => random.fill(&mut buffer[done..done + now]),
            _ => {
                random.fill(&mut block);
                buffer[done..done + now].copy_from_slice(&block[inside..inside + now]);
            }
        }
        done += now;
    }
}

/// Whether a buffer holds what the file of `seed` has from `offset` on.
pub fn right(buffer: &[u8], seed: u64, offset: u64) -> bool {
    let mut expected = [0_u8; BLOCK_BYTES];
    buffer.chunks(BLOCK_BYTES).enumerate().all(|(index, chunk)| {
        let expected = &mut expected[..chunk.len()];
        fill(expected, seed, offset + (index * BLOCK_BYTES) as u64);
        chunk == expected
    })
}

/// splitmix64's finaliser: neighbours' seeds have nothing in common.
fn mixed(seed: u64, block: u64) -> u64 {
    let mut word = seed ^ (block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Demands that all of a file lies in blocks of its device that were written; returns the number of
/// its pieces there, `None` if the file system does not report it. Errors: some does not: reads of
/// it would give zeros, or come from elsewhere.
pub fn demand_written_extents(file: &File, bytes: u64) -> Result<Option<usize>> {
    let extents = extents(file).context("reading the file's extents on its device")?;
    if let Some(extents) = &extents {
        all_on_device(extents, bytes)?;
    }
    Ok(extents.map(|extents| extents.len()))
}

fn all_on_device(extents: &[Extent], bytes: u64) -> Result<()> {
    let end = |extent: &Extent| (extent.device_offset + extent.bytes).min(bytes);
    let held: u64 = extents
        .iter()
        .filter(|extent| extent.is_on_device())
        .map(|extent| end(extent).saturating_sub(extent.device_offset))
        .sum();
    ensure!(
        held == bytes,
        "cache: of a file of {} only {} are in written extents of a device",
        render(bytes as f64, Unit::B),
        render(held as f64, Unit::B)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, all_on_device, fill, right, write};
    use metal::storage::{Extent, extents};
    use std::os::unix::fs::FileExt;

    #[test]
    fn data_depends_on_its_place_alone() {
        let mut whole = vec![0; 5 * BLOCK_BYTES + 100];
        fill(&mut whole, 7, 0);
        let mut part = vec![0; 2 * BLOCK_BYTES];
        fill(&mut part, 7, 1000);
        assert_eq!(part, whole[1000..1000 + part.len()]);
        assert!(right(&whole, 7, 0) && right(&whole[1000..], 7, 1000) && right(&whole[5..6], 7, 5));
        assert!(!right(&whole, 8, 0) && !right(&whole[1000..], 7, 1001));
        whole[3 * BLOCK_BYTES + 17] ^= 1;
        assert!(!right(&whole, 7, 0) && right(&whole[..3 * BLOCK_BYTES], 7, 0));
    }

    #[test]
    fn no_two_blocks_are_alike_and_nothing_compresses() {
        let mut data = vec![0; 64 * BLOCK_BYTES];
        fill(&mut data, 1, 0);
        let blocks: std::collections::BTreeSet<&[u8]> = data.chunks(BLOCK_BYTES).collect();
        assert_eq!(blocks.len(), 64);
        let mut packed =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &data).expect("in memory");
        assert!(packed.finish().expect("in memory").len() >= data.len());
    }

    #[test]
    fn a_file_is_written_once_and_never_over_another() {
        let dir = tempfile::tempdir().expect("a directory");
        let bytes = (2 << 20) + 4096;
        let path = write(dir.path(), "data", bytes, 3, "").expect("room for 2 MiB");
        let data = std::fs::read(&path).expect("reads");
        assert!(data.len() as u64 == bytes && right(&data, 3, 0));
        let error = write(dir.path(), "data", bytes, 3, "").expect_err("it is there");
        assert!(error.to_string().contains("cannot create data"), "{error}");
        let error = write(dir.path(), "more", 1 << 60, 3, "--set x").expect_err("no room");
        let text = error.to_string();
        assert!(text.contains("--dir, or --set x"), "{text}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("reads").count(), 1);
    }

    #[test]
    fn a_file_with_a_hole_is_not_all_on_its_device() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&[1; 4096], 0).expect("writes");
        file.write_all_at(&[1; 4096], 1 << 20).expect("writes");
        file.sync_all().expect("syncs");
        let Some(found) = extents(&file).expect("asks") else { return skips::test("file-system") };
        let first: Vec<Extent> = found[..1].to_vec();
        all_on_device(&first, 4096).expect("its only page");
        // What is allocated behind the end does not count.
        all_on_device(&first, 100).expect("a part of it");
        let error = all_on_device(&found, (1 << 20) + 4096).expect_err("a hole");
        assert!(error.to_string().contains("cache:"), "{error}");
    }
}
