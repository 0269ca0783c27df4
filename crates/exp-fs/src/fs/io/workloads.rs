//! Which cases a preset has, what a user's choice makes of them, and what each may write.

use super::rates;
use crate::fs::file::Ground;
use bench::device;
use bench::experiment::{Offer, Params, Preset, Site, Skip};
use record::case::Case;
use record::key::{CaseId, Value};

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
/// Least operations of a case, however slow the device is.
pub(super) const LEAST: u64 = 8;
/// A ring is filled so often, at least: what is submitted first meets an idle device.
pub(super) const FILLS: u64 = 3;
/// Bytes that a case writes in a round, where its least operations are fewer: so much in any case …
const WRITTEN: u64 = MIB;
/// … and so much where what may be written is plenty, of which all cases take one over this.
const WRITTEN_MOST: u64 = 8 * MIB;
const WRITTEN_SHARE: u64 = 4;
/// File systems write no less than a page.
const PAGE: u64 = 4096;

/// What a case does, as its id says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) is_read: bool,
    pub(super) is_random: bool,
    pub(super) mode: &'static str,
    pub(super) block: u64,
    pub(super) is_ring: bool,
    pub(super) depth: u64,
    pub(super) threads: u64,
    pub(super) is_shared: bool,
}

pub(super) const READS: [&str; 3] = ["direct", "cold", "cached"];
pub(super) const WRITES: [&str; 4] = ["buffered", "buffered_fdatasync", "direct", "dsync"];
/// Every way, reads' first.
pub(super) const MODES: &[&str] =
    &["direct", "cold", "cached", "buffered", "buffered_fdatasync", "dsync"];

impl Work {
    /// What a case's id says.
    pub(super) fn of(case: &CaseId) -> Option<Work> {
        let mode = case.text("mode")?;
        Some(Work {
            is_read: case.text("op")? == "read",
            is_random: case.text("pattern")? == "random",
            mode: MODES.iter().find(|known| **known == mode)?,
            block: case.int("block")?,
            is_ring: case.text("engine")? == "io_uring",
            depth: case.int("depth")?,
            threads: case.int("threads")?,
            is_shared: case.text("files") == Some("shared"),
        })
    }

    /// Its id: `files` only where several threads have any.
    pub(super) fn id(self) -> CaseId {
        let pick = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
        let id = CaseId::new()
            .with("op", pick(self.is_read, "read", "write"))
            .with("pattern", pick(self.is_random, "random", "sequential"))
            .with("mode", self.mode)
            .with("block", self.block)
            .with("engine", pick(self.is_ring, "io_uring", "psync"))
            .with("depth", self.depth)
            .with("threads", self.threads);
        match self.threads {
            1 => id,
            _ => id.with("files", pick(self.is_shared, "shared", "own")),
        }
    }

    /// Whether it goes past the page cache.
    pub(super) fn is_direct(self) -> bool {
        self.mode == "direct"
    }

    /// Whether there is such a thing.
    fn exists(self) -> bool {
        let modes: &[&str] = if self.is_read { &READS } else { &WRITES };
        modes.contains(&self.mode)
            && (self.is_ring || self.depth == 1)
            // The page cache answers a ring's operation inside of the submission, or a worker of the
            // kernel's does: the depth is then none of the device's.
            && (!self.is_ring || self.is_direct())
    }

    /// Operations of a thread, at least.
    pub(super) fn least(self) -> u64 {
        match self.is_ring {
            true => LEAST.max(FILLS * self.depth),
            false => LEAST.div_ceil(self.threads).max(2),
        }
    }

    /// Bytes that all threads of the case together may write in a round, `each` where its least
    /// operations are fewer; also the part of the file that buffered writes go round in, because what
    /// is written again in memory goes to the device once.
    pub(super) fn most_written(self, each: u64) -> u64 {
        match self.is_read {
            true => 0,
            false => each.max(self.least() * self.threads * self.block.max(PAGE)),
        }
    }

    fn value(self, name: &str) -> Value {
        match name {
            "files" if self.threads == 1 => Value::from("own"),
            _ => self.id().get(name).cloned().unwrap_or(Value::from("")),
        }
    }

    fn with(mut self, name: &str, value: &Value) -> Work {
        let text = value.text().unwrap_or_default();
        let int = value.int().unwrap_or(1);
        match name {
            "op" => self.is_read = text == "read",
            "pattern" => self.is_random = text == "random",
            "mode" => self.mode = MODES.iter().find(|mode| **mode == text).unwrap_or(&""),
            "block" => self.block = int,
            "engine" => self.is_ring = text == "io_uring",
            "depth" => self.depth = int,
            "threads" => self.threads = int,
            _ => self.is_shared = text == "shared" && self.threads > 1,
        }
        self
    }
}

/// A psync case of one thread.
pub(super) const fn one(is_read: bool, is_random: bool, mode: &'static str, block: u64) -> Work {
    Work { is_read, is_random, mode, block, is_ring: false, depth: 1, threads: 1, is_shared: false }
}

/// The same by a ring, past the page cache.
pub(super) const fn ring(is_read: bool, is_random: bool, block: u64, depth: u64) -> Work {
    Work { is_ring: true, depth, ..one(is_read, is_random, "direct", block) }
}

/// The same by several threads.
const fn many(work: Work, threads: u64, is_shared: bool) -> Work {
    Work { threads, is_shared, ..work }
}

const QUICK: [Work; 4] = [
    one(true, false, "direct", MIB),
    ring(true, true, 4 * KIB, 32),
    one(false, false, "direct", 4 * KIB),
    one(false, false, "buffered_fdatasync", 4 * KIB),
];

const RANDOM_READ: Work = one(true, true, "direct", 4 * KIB);

const STANDARD: [Work; 24] = [
    one(true, false, "direct", 4 * KIB),
    one(true, false, "direct", MIB),
    RANDOM_READ,
    one(true, true, "direct", 64 * KIB),
    one(true, false, "cold", MIB),
    one(true, true, "cold", 4 * KIB),
    one(true, false, "cached", KIB),
    one(true, true, "cached", 1),
    one(true, true, "cached", 4 * KIB),
    one(false, false, "buffered", 4 * KIB),
    one(false, false, "buffered_fdatasync", 4 * KIB),
    one(false, false, "direct", 4 * KIB),
    one(false, false, "dsync", 4 * KIB),
    one(false, true, "direct", 4 * KIB),
    one(false, false, "direct", MIB),
    many(RANDOM_READ, 2, false),
    many(RANDOM_READ, 2, true),
    many(RANDOM_READ, 4, false),
    many(one(false, true, "direct", 4 * KIB), 2, false),
    ring(true, true, 4 * KIB, 1),
    ring(true, true, 4 * KIB, 8),
    ring(true, true, 4 * KIB, 32),
    ring(true, true, 4 * KIB, 128),
    ring(false, true, 4 * KIB, 32),
];

const BLOCKS: [u64; 5] = [1, KIB, 4 * KIB, 64 * KIB, MIB];
const DEPTHS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const CREWS: [(u64, bool); 5] = [(1, false), (2, false), (2, true), (4, false), (4, true)];

/// Everything that the catalogue lists; small blocks first, so that what may be written is spent on
/// many cases.
fn everything() -> Vec<Work> {
    let mut all = Vec::new();
    for block in BLOCKS {
        for (threads, is_shared) in CREWS {
            for is_random in [false, true] {
                let reads = READS.map(|mode| one(true, is_random, mode, block));
                let writes = WRITES.map(|mode| one(false, is_random, mode, block));
                let both = reads.into_iter().chain(writes);
                all.extend(both.map(|work| many(work, threads, is_shared)));
            }
        }
        for depth in DEPTHS.into_iter().filter(|_| block >= 4 * KIB) {
            for is_random in [false, true] {
                // Three fills of 128 blocks of 1 MiB take many devices a second.
                if block < MIB || depth <= 16 {
                    let both = [true, false].map(|is_read| ring(is_read, is_random, block, depth));
                    all.extend(both);
                }
            }
        }
    }
    all
}

/// Parameters that say what a case is, in the card's order.
const NAMES: [&str; 8] = ["op", "pattern", "mode", "block", "engine", "depth", "threads", "files"];

/// The preset's cases under a user's choice: for each combination of the chosen values the preset's
/// cases that have it, or where none has it, all of them with these values in place of theirs.
fn selected(params: &Params) -> Vec<Work> {
    let listed = match params.preset {
        Preset::Rehearsal | Preset::Quick => QUICK.to_vec(),
        Preset::Standard => STANDARD.to_vec(),
        Preset::Thorough => everything(),
    };
    let mut combinations: Vec<Vec<(&str, &Value)>> = vec![Vec::new()];
    for name in NAMES {
        let Some(chosen) = params.chosen(name) else {
            continue;
        };
        let longer = |one: &Vec<(&'static str, _)>| {
            let one = one.clone();
            let with = move |value| one.iter().copied().chain([(name, value)]).collect();
            chosen.iter().map(with).collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(longer).collect();
    }
    let mut seen: Vec<Work> = Vec::new();
    for combination in combinations {
        let has = |work: &Work| {
            let mut all = combination.iter();
            all.all(|(name, value)| work.value(name) == **value)
        };
        let with = |work: &Work| {
            let all = combination.iter();
            all.fold(*work, |work, (name, value)| work.with(name, value))
        };
        let mut found: Vec<Work> = listed.iter().copied().filter(has).collect();
        if found.is_empty() {
            found = listed.iter().map(with).filter(has).collect();
        }
        for work in found {
            // Some combinations exist nowhere.
            if work.exists() && !seen.contains(&work) {
                seen.push(work);
            }
        }
    }
    seen
}

/// What may be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Of the file that is read, in bytes.
    pub(super) size: u64,
    /// Bytes that a case writes in a round, where its least operations are fewer.
    pub(super) written: u64,
}

/// Bytes that each case writes in a round: as many as a share of what may be written gives to each
/// of those chosen, within bounds.
pub(super) fn written_each(site: &Site, params: &Params) -> u64 {
    let writes = selected(params).iter().filter(|work| !work.is_read).count() as u64;
    let share = device::allowance(site, super::ID) / WRITTEN_SHARE;
    device::coarse(share / rounds(params) / writes.max(1)).clamp(WRITTEN, WRITTEN_MOST)
}

/// Rounds of a run, at most.
fn rounds(params: &Params) -> u64 {
    u64::from(*params.preset.looks().last().unwrap_or(&1))
}

/// The cases to measure; those that cannot be here with their reasons.
pub(super) fn offer(
    site: &Site,
    params: &Params,
    sizes: Sizes,
    ground: &Ground<'_>,
) -> Result<(Vec<Case>, Offer), Skip> {
    let size = sizes.size;
    let mut offer = Offer::default();
    let logical =
        device::below(site).ok().and_then(|below| below.disk.logical_block_bytes).unwrap_or(PAGE);
    let rounds = rounds(params);
    let (mut kept, mut made, mut spent) = (Vec::new(), Vec::new(), 0);
    for work in selected(params) {
        let region = match work.is_read {
            true => size,
            false => written_bytes(size),
        };
        let mut new = files([work], size);
        new.retain(|file| !made.contains(file));
        let new_bytes: u64 = new.iter().map(|file| file.bytes).sum();
        let mut case = Case::new(work.id());
        ground.put(site, &mut case.at);
        case.at.insert("file_bytes".to_owned(), Value::from(size));
        rates::put(site, params, work, &mut case);
        let cost = new_bytes + rounds * work.most_written(rates::written(&case, sizes.written));
        let absent = if work.is_direct() && !work.block.is_multiple_of(logical) {
            Some(
                Skip::because(format!(
                    "the device is addressed by {logical} bytes, and O_DIRECT moves nothing smaller"
                ))
                .needs("--set fs.io.mode=cached or buffered"),
            )
        } else if work.block * work.threads > region {
            Some(
                Skip::because("its blocks are longer than what each thread has of the file")
                    .needs("--set fs.io.size=SIZE"),
            )
        } else {
            device::affords(site, super::ID, spent + cost, rates::fewer_bytes(&case)).err()
        };
        match absent {
            Some(skip) => offer.skipped.push((work.id(), skip)),
            None => {
                spent += cost;
                made.extend(new);
                kept.push(case);
            }
        }
    }
    if kept.is_empty() {
        let first = offer.skipped.into_iter().next();
        let none = || {
            Skip::because("nothing that is chosen exists: io_uring is direct, psync has depth 1")
                .needs("--set fs.io.engine=io_uring --set fs.io.mode=direct")
        };
        return Err(first.map_or_else(none, |(_, skip)| skip));
    }
    Ok((kept, offer))
}

/// A file that is made before the rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// What writes go to: half of the size that is read, and 32 MiB at most.
pub(super) fn written_bytes(size: u64) -> u64 {
    (size / 2).min(32 * MIB)
}

/// The files of some cases: those that are read are never written. Threads with files of their own
/// have as many as the most threads, each a part of the size.
pub(super) fn files(works: impl IntoIterator<Item = Work>, size: u64) -> Vec<Made> {
    let mut all: Vec<Made> = Vec::new();
    for work in works {
        for member in 0..work.threads {
            let made = file_of(work, member, size);
            if !all.contains(&made) {
                all.push(made);
            }
        }
    }
    all
}

/// Threads with files of their own have so much of the size each.
const PARTS: u64 = 4;

/// The file of a thread of a case.
pub(super) fn file_of(work: Work, member: u64, size: u64) -> Made {
    let (name, all) = match work.is_read {
        true => ("read", size),
        false => ("write", written_bytes(size)),
    };
    match work.threads > 1 && !work.is_shared {
        true => Made { name: format!("{name}-{member}"), bytes: all / PARTS },
        false => Made { name: name.to_owned(), bytes: all },
    }
}

/// The part of its file that a thread works in: all of its own, or its share of the common one.
pub(super) fn region_of(work: Work, member: u64, sizes: Sizes) -> (u64, u64) {
    let whole = file_of(work, member, sizes.size).bytes;
    let share = match work.is_shared && work.threads > 1 {
        true => whole / work.threads / PAGE * PAGE,
        false => whole,
    };
    let start = if work.is_shared { member * share } else { 0 };
    let limited = match work.mode {
        // Brought into memory before each case: a part is enough.
        "cached" => share.min(16 * MIB),
        "buffered" => share.min((work.most_written(sizes.written) / work.threads).max(work.block)),
        _ => share,
    };
    (start, limited)
}
