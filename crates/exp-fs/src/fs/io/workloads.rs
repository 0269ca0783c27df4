//! Which cases a preset has, which of them yield a rate, and what each may write.

use super::chosen;
use crate::fs::file::{Made, below, only_memory};
use crate::fs::job::Region;
use crate::fs::offered::{Offered, rounds};
use crate::fs::prelude::*;
use crate::fs::window::{self, RATE_CASES, SETTLED_NS};
use laws::fs::io::{self as law, Engine, Files, Mode, Op, Request, Work};
use metal::memory::base_page_bytes;

pub(in crate::fs) const KIB: u64 = 1 << 10;
pub(in crate::fs) const MIB: u64 = 1 << 20;
/// Least operations of a case, however slow the device is.
const LEAST: u64 = 8;
/// A ring is filled so often, at least: what is submitted first meets an idle device.
const FILLS: u64 = 3;
/// Bytes that a case writes in a round, where its least operations are fewer: so much in any case …
const WRITTEN: u64 = MIB;
/// … and so much where what may be written is plenty, of which all cases take one over this.
const WRITTEN_MOST: u64 = 8 * MIB;
const WRITTEN_SHARE: u64 = 4;
/// Of what may be written, the file that is read is one over this at most.
const SIZE_SHARE: u64 = 6;
/// It falls back to so little, so that the cases of standard have room.
const SIZE_LEAST: u64 = 8 * MIB;
/// File systems write no less than a page.
const PAGE: u64 = 4096;

pub(in crate::fs) const READS: [Mode; 3] = [Mode::Direct, Mode::Cold, Mode::Cached];
pub(in crate::fs) const WRITES: [Mode; 4] =
    [Mode::Buffered, Mode::BufferedFdatasync, Mode::Direct, Mode::Dsync];

/// A chosen case as it is, if there is such a thing: several threads have files.
pub(in crate::fs) fn existing(work: Work) -> Option<Work> {
    let modes: &[Mode] = if work.is_read() { &READS } else { &WRITES };
    let exists = modes.contains(&work.mode)
        && (work.is_ring() || work.depth == 1)
        // The page cache answers a ring's operation inside of the submission, or a worker of the
        // kernel's does: the depth is then none of the device's.
        && (!work.is_ring() || work.is_direct());
    let files = (work.threads > 1).then(|| work.files.unwrap_or(Files::Own));
    exists.then_some(Work { files, ..work })
}

/// Operations of a thread, at least.
pub(in crate::fs) fn least(work: Work) -> u64 {
    match work.engine {
        Engine::Uring => LEAST.max(FILLS * work.depth),
        Engine::Psync => LEAST.div_ceil(work.threads).max(2),
    }
}

/// Bytes that all threads of the case together may write in a round, `each` where its least
/// operations are fewer; also the part of the file that buffered writes go round in, because what
/// is written again in memory goes to the device once.
pub(in crate::fs) fn most_written(work: Work, each: u64) -> u64 {
    match work.op {
        Op::Read => 0,
        Op::Write => each.max(least(work) * work.threads * work.block.max(PAGE)),
    }
}

/// Operations of a thread at most, where `each` bytes are written: as many as it likes if they
/// stay in memory.
pub(in crate::fs) fn most(work: Work, each: u64, is_written_through: bool) -> u64 {
    if work.is_read() || work.mode == Mode::Buffered && !is_written_through {
        return u64::MAX;
    }
    let page = base_page_bytes() as u64;
    (most_written(work, each) / work.threads / work.block.max(page)).max(least(work))
}

/// A psync case of one thread.
pub(in crate::fs) const fn one(op: Op, pattern: Pattern, mode: Mode, block: u64) -> Work {
    Work { op, pattern, mode, block, engine: Engine::Psync, depth: 1, threads: 1, files: None }
}

/// The same by a ring, past the page cache.
pub(in crate::fs) const fn ring(op: Op, pattern: Pattern, block: u64, depth: u64) -> Work {
    Work { engine: Engine::Uring, depth, ..one(op, pattern, Mode::Direct, block) }
}

/// The same by several threads.
const fn many(work: Work, threads: u64, files: Files) -> Work {
    Work { threads, files: Some(files), ..work }
}

pub(in crate::fs) const QUICK: [Work; 4] = [
    one(Op::Read, Pattern::Sequential, Mode::Direct, MIB),
    ring(Op::Read, Pattern::Random, 4 * KIB, 32),
    one(Op::Write, Pattern::Sequential, Mode::Direct, 4 * KIB),
    one(Op::Write, Pattern::Sequential, Mode::BufferedFdatasync, 4 * KIB),
];

const RANDOM_READ: Work = one(Op::Read, Pattern::Random, Mode::Direct, 4 * KIB);

pub(in crate::fs) const STANDARD: [Work; 24] = [
    one(Op::Read, Pattern::Sequential, Mode::Direct, 4 * KIB),
    one(Op::Read, Pattern::Sequential, Mode::Direct, MIB),
    RANDOM_READ,
    one(Op::Read, Pattern::Random, Mode::Direct, 64 * KIB),
    one(Op::Read, Pattern::Sequential, Mode::Cold, MIB),
    one(Op::Read, Pattern::Random, Mode::Cold, 4 * KIB),
    one(Op::Read, Pattern::Sequential, Mode::Cached, KIB),
    one(Op::Read, Pattern::Random, Mode::Cached, 1),
    one(Op::Read, Pattern::Random, Mode::Cached, 4 * KIB),
    one(Op::Write, Pattern::Sequential, Mode::Buffered, 4 * KIB),
    one(Op::Write, Pattern::Sequential, Mode::BufferedFdatasync, 4 * KIB),
    one(Op::Write, Pattern::Sequential, Mode::Direct, 4 * KIB),
    one(Op::Write, Pattern::Sequential, Mode::Dsync, 4 * KIB),
    one(Op::Write, Pattern::Random, Mode::Direct, 4 * KIB),
    one(Op::Write, Pattern::Sequential, Mode::Direct, MIB),
    many(RANDOM_READ, 2, Files::Own),
    many(RANDOM_READ, 2, Files::Shared),
    many(RANDOM_READ, 4, Files::Own),
    many(one(Op::Write, Pattern::Random, Mode::Direct, 4 * KIB), 2, Files::Own),
    ring(Op::Read, Pattern::Random, 4 * KIB, 1),
    ring(Op::Read, Pattern::Random, 4 * KIB, 8),
    ring(Op::Read, Pattern::Random, 4 * KIB, 32),
    ring(Op::Read, Pattern::Random, 4 * KIB, 128),
    ring(Op::Write, Pattern::Random, 4 * KIB, 32),
];

const BLOCKS: [u64; 5] = [1, KIB, 4 * KIB, 64 * KIB, MIB];
const DEPTHS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const CREWS: [(u64, Option<Files>); 5] = [
    (1, None),
    (2, Some(Files::Own)),
    (2, Some(Files::Shared)),
    (4, Some(Files::Own)),
    (4, Some(Files::Shared)),
];

/// Whether a case is one of R3's grid of blocks and threads, whose reads and writes went through the
/// page cache.
pub(in crate::fs) fn is_of_r3(work: &Work) -> bool {
    !work.is_ring()
        && [1, KIB, MIB].contains(&work.block)
        && matches!(work.mode, Mode::Cold | Mode::Cached | Mode::Buffered)
        && (work.threads == 1 || (work.threads == 2 && work.files == Some(Files::Own)))
}

/// Everything that the catalogue lists; small blocks first, so that what may be written is spent on
/// many cases.
pub(in crate::fs) fn everything() -> Vec<Work> {
    let mut all = Vec::new();
    for block in BLOCKS {
        for (threads, files) in CREWS {
            for &pattern in Pattern::ALL {
                let reads = READS.map(|mode| one(Op::Read, pattern, mode, block));
                let writes = WRITES.map(|mode| one(Op::Write, pattern, mode, block));
                let both = reads.into_iter().chain(writes);
                all.extend(both.map(|work| Work { threads, files, ..work }));
            }
        }
        for depth in DEPTHS.into_iter().filter(|_| block >= 4 * KIB) {
            for &pattern in Pattern::ALL {
                // Three fills of 128 blocks of 1 MiB take many devices a second.
                if block < MIB || depth <= 16 {
                    all.extend([Op::Read, Op::Write].map(|op| ring(op, pattern, block, depth)));
                }
            }
        }
    }
    all
}

/// What may be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) struct Sizes {
    /// Of the file that is read, in bytes.
    pub(in crate::fs) size: u64,
    /// Bytes that a case writes in a round, where its least operations are fewer.
    pub(in crate::fs) written: u64,
}

/// Bytes that each case writes in a round: as many as a share of what may be written gives to each
/// of those chosen, within bounds.
pub(in crate::fs) fn written_each(site: &Site, params: &Params, works: &[Work]) -> u64 {
    let writes = works.iter().filter(|work| !work.is_read()).count() as u64;
    let share = device::allowance(site, super::ID) / WRITTEN_SHARE;
    let each = device::coarse(share / rounds(params.preset) / writes.max(1));
    each.clamp(WRITTEN, WRITTEN_MOST)
}

/// The size of the file that is read: the preset's as far as it may be written, halved until as many
/// of the standard preset's cases have room as can.
pub(in crate::fs) fn size_for(site: &Site, params: &Params, written: u64, works: &[Work]) -> u64 {
    let wanted = match params.preset {
        Preset::Rehearsal => MIB,
        Preset::Quick => 64 * MIB,
        Preset::Standard | Preset::Thorough => 256 * MIB,
    };
    let most = wanted.min(device::coarse(device::allowance(site, super::ID) / SIZE_SHARE).max(MIB));
    let smaller = std::iter::successors(Some(most / 2), |size| Some(size / 2));
    let sizes = std::iter::once(most).chain(smaller.take_while(|size| *size >= SIZE_LEAST));
    // They come first, so the others take no room from them.
    let standard = works.iter().copied().filter(|work| STANDARD.contains(work));
    let lacking = |size: &u64| {
        let sizes = Sizes { size: *size, written };
        offered(site, params, sizes, standard.clone()).skipped.len()
    };
    sizes.min_by_key(lacking).unwrap_or(most)
}

/// The cases to measure; those that cannot be here with their reasons.
pub(in crate::fs) fn offered(
    site: &Site,
    params: &Params,
    sizes: Sizes,
    works: impl IntoIterator<Item = Work>,
) -> Offered {
    let size = sizes.size;
    let ground = below(site);
    let logical =
        device::below(site).ok().and_then(|below| below.disk.logical_block_bytes).unwrap_or(PAGE);
    let rounds = rounds(params.preset);
    let mut offered = Offered::default();
    let (mut made, mut spent) = (Vec::new(), 0);
    for work in works {
        let region = if work.is_read() { size } else { written_bytes(size) };
        let mut new = files([work], size);
        new.retain(|file| !made.contains(file));
        let new_bytes: u64 = new.iter().map(|file| file.bytes).sum();
        let planned = |window_ns: Option<u64>| {
            let mut case = Case::new(work.id());
            if let Some(ground) = &ground {
                ground.put(site, &mut case.at);
            }
            case.at.insert("file_bytes".to_owned(), Value::from(size));
            put_rate(site, params, work, window_ns, &mut case);
            let each = written(&case, sizes.written);
            let cost = spent + new_bytes + rounds * most_written(work, each);
            let room = device::affords(site, super::ID, cost, fewer_bytes(&case));
            (case, cost, room.err())
        };
        let (mut case, mut cost, mut no_room) = planned(window_ns(site, params, work));
        if no_room.is_some() && chosen(params, "window").is_none() {
            // A rate that there is no room for is a burst, as in standard.
            (case, cost, no_room) = planned(None);
        }
        let absent = if (work.is_direct() || work.mode == Mode::Cold)
            && let Some(skip) = only_memory(site)
        {
            Some(skip)
        } else if work.is_direct() && !work.block.is_multiple_of(logical) {
            let why = format!(
                "the device's logical block is {logical} bytes, and O_DIRECT transfers nothing \
                 smaller"
            );
            Some(Skip::because(why).needs("--set fs.io.mode=cached or buffered"))
        } else if work.block * work.threads > region {
            let why = "the block is larger than each thread's part of the file";
            Some(Skip::because(why).needs("--set fs.io.size=SIZE"))
        } else if work.is_ring()
            && let Some(skip) = site.lacks_rings()
        {
            Some(skip)
        } else {
            no_room
        };
        if absent.is_none() {
            spent = cost;
            made.extend(new);
        }
        offered.push(case, absent);
    }
    offered
}

/// A device may write so many times faster than is likely.
const FASTER: f64 = 2.0;
/// What of a case holds the bytes that it may write in a round, where its figures are rates.
const WRITTEN_AT: &str = "written_bytes";

/// Cases whose figures are the device's or its limit's: the longest blocks in order, and the
/// smallest at random by the depth of the queue. Of those that write, thorough alone has the time
/// and asks for the room.
const KEYS: [Work; 5] = [
    one(Op::Read, Pattern::Sequential, Mode::Direct, MIB),
    one(Op::Read, Pattern::Random, Mode::Direct, 4 * KIB),
    ring(Op::Read, Pattern::Random, 4 * KIB, 32),
    ring(Op::Read, Pattern::Random, 4 * KIB, 128),
    one(Op::Write, Pattern::Sequential, Mode::Direct, MIB),
];

/// A case's window where that is as long as a rate asks for, in ns.
fn window_ns(site: &Site, params: &Params, work: Work) -> Option<u64> {
    // What is in memory, or goes there first, and what comes once has no rate of a device.
    if matches!(work.mode, Mode::Buffered | Mode::Cold) {
        return None;
    }
    if let Some(window) = chosen(params, "window") {
        return (window >= SETTLED_NS).then_some(window);
    }
    let is_key = KEYS.contains(&work) && (work.is_read() || params.preset == Preset::Thorough);
    is_key.then_some(RATE_CASES * site.case_ns)
}

/// Puts into a case what makes its figures rates, where they are.
fn put_rate(site: &Site, params: &Params, work: Work, rate_ns: Option<u64>, case: &mut Case) {
    window::put(case, rate_ns);
    if let Some(window_ns) = rate_ns.filter(|_| !work.is_read()) {
        let bytes = chosen(params, "written").unwrap_or_else(|| {
            let likely =
                law::predict(Facts::prior(site), Request::from_case(&work, case), "bandwidth");
            let likely = likely.map_or(0.0, |law| law.range.likely);
            device::coarse((FASTER * likely * window_ns as f64 / 1e9) as u64)
        });
        case.at.insert(WRITTEN_AT.to_owned(), bytes.into());
    }
}

/// Bytes that a case writes in a round at most, where its least operations are fewer: so many as
/// its window needs where it yields a rate, else as any.
pub(in crate::fs) fn written(case: &Case, each: u64) -> u64 {
    let of_rate = case.at.get(WRITTEN_AT).and_then(Value::int);
    of_rate.unwrap_or(each)
}

/// What makes the bytes fewer that a case writes in a run.
fn fewer_bytes(case: &Case) -> &'static str {
    match case.at.contains_key(WRITTEN_AT) {
        true => "window=18ms, which reports a burst",
        false => "size=SIZE, or fewer cases",
    }
}

/// What writes go to: half of the size that is read, and 32 MiB at most.
pub(in crate::fs) fn written_bytes(size: u64) -> u64 {
    (size / 2).min(32 * MIB)
}

/// The files of some cases: those that are read are never written. Threads with files of their own
/// have as many as the most threads, each a part of the size.
pub(in crate::fs) fn files(works: impl IntoIterator<Item = Work>, size: u64) -> Vec<Made> {
    let mut all: Vec<Made> = Vec::new();
    let each = works.into_iter().flat_map(|work| (0..work.threads).map(move |at| (work, at)));
    for made in each.map(|(work, member)| file_of(work, member, size)) {
        if !all.contains(&made) {
            all.push(made);
        }
    }
    all
}

/// Threads with files of their own have so much of the size each.
const PARTS: u64 = 4;

pub(in crate::fs) fn file_of(work: Work, member: u64, size: u64) -> Made {
    let (name, all) = match work.op {
        Op::Read => ("read", size),
        Op::Write => ("write", written_bytes(size)),
    };
    match work.files == Some(Files::Own) {
        true => Made { name: format!("{name}-{member}"), bytes: all / PARTS },
        false => Made { name: name.to_owned(), bytes: all },
    }
}

/// The part of its file that a thread works in: all of its own, or its share of the common one.
pub(in crate::fs) fn region_of(dir: &Path, work: Work, member: u64, sizes: Sizes) -> Region {
    let made = file_of(work, member, sizes.size);
    let (start, share) = match work.files {
        Some(Files::Shared) => {
            let share = made.bytes / work.threads / PAGE * PAGE;
            (member * share, share)
        }
        _ => (0, made.bytes),
    };
    let bytes = match work.mode {
        // Brought into memory before each case: a part is enough.
        Mode::Cached => share.min(16 * MIB),
        Mode::Buffered => {
            share.min((most_written(work, sizes.written) / work.threads).max(work.block))
        }
        _ => share,
    };
    let first = (work.mode == Mode::Cold).then_some(start);
    Region { path: dir.join(made.name), start, bytes, first }
}
