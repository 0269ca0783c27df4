//! Which kernels are measured where: the cases of each preset, and why one cannot be measured here.

use super::reports::{self, BY_WORDS};
use super::sizes::{self, Sized};
use bench::experiment::{Preset, Site, Skip};
use host::Arch;
use laws::Facts;
use laws::memory::bandwidth::{Access, Op, STREAM, Stores, Threads, Transfer, Width, cpus_of};
use laws::memory::{Level, described_levels};
use record::quantity::render;
use record::unit::Unit;

/// Numbers of threads between one and all: standard, thorough.
const SOME: [u64; 4] = [2, 4, 16, 64];
const MORE: [u64; 9] = [2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Explicit widths, narrow to wide.
const NARROW_TO_WIDE: [Width; 6] =
    [Width::Word(4), Width::Word(8), Width::Neon, Width::Sse2, Width::Avx2, Width::Avx512];
const ONE: Threads = Threads::Number(1);
/// Cases of some operations with regular stores in the widest vectors.
fn regular(ops: &[Op], level: Level, threads: Threads) -> Vec<Transfer> {
    ops.iter().map(|op| Transfer::widest(*op, Stores::Regular, level, threads)).collect()
}

/// The same past the caches.
fn past(ops: &[Op], level: Level, threads: Threads) -> Vec<Transfer> {
    ops.iter().map(|op| Transfer::widest(*op, Stores::NonTemporal, level, threads)).collect()
}

/// The caches that the machine describes.
fn caches(site: &Site) -> impl Iterator<Item = Level> {
    described_levels(site).into_iter().map(|(level, _)| level)
}

/// The cases of a preset.
pub(super) fn cases(site: &Site, preset: Preset) -> Vec<Transfer> {
    match preset {
        Preset::Rehearsal => rehearsal(site),
        Preset::Quick => quick(site),
        Preset::Standard => standard(site),
        Preset::Thorough => thorough(site),
    }
}

fn rehearsal(site: &Site) -> Vec<Transfer> {
    let mut cases = regular(&[Op::Read, Op::Copy], Level::Memory, ONE);
    cases.extend(past(&[Op::Triad], Level::Memory, ONE));
    cases.push(reports::words(Op::Write, Access::First, Level::Memory));
    cases.extend(caches(site).take(2).flat_map(|level| regular(&[Op::Read, Op::Copy], level, ONE)));
    if site.cpus.len() > 1 {
        cases.extend(regular(&[Op::Modify], Level::Memory, Threads::All));
    }
    cases
}

fn quick(site: &Site) -> Vec<Transfer> {
    let first = caches(site).take(1);
    let mut cases: Vec<Transfer> =
        first.flat_map(|level| regular(&[Op::Read, Op::Copy], level, ONE)).collect();
    cases.extend(regular(&[Op::Read, Op::Write, Op::Copy], Level::Memory, ONE));
    if site.cpus.len() > 1 {
        cases.extend(regular(&[Op::Read, Op::Triad], Level::Memory, Threads::All));
    }
    cases
}

fn standard(site: &Site) -> Vec<Transfer> {
    let mut cases = regular(Op::ALL, Level::Memory, ONE);
    cases.extend(past(&[Op::Write], Level::Memory, ONE));
    cases.extend(past(&STREAM, Level::Memory, ONE));
    for level in caches(site) {
        cases.extend(regular(&[Op::Read, Op::Write, Op::Copy], level, ONE));
    }
    let read_and_write = [Op::Read, Op::Write];
    for bytes in [8, 4] {
        let words = regular(&read_and_write, Level::Memory, ONE);
        cases.extend(words.into_iter().map(|case| Transfer { width: Width::Word(bytes), ..case }));
    }
    for (access, level) in [(Access::Strided, Level::Memory), (Access::First, Level::FourTimes)] {
        cases.extend(read_and_write.map(|op| reports::words(op, access, level)));
    }
    cases.extend(regular(&STREAM, Level::FourTimes, ONE));
    if site.cpus.len() > 1 {
        cases.extend(regular(Op::ALL, Level::Memory, Threads::All));
        cases.extend(past(&[Op::Write, Op::Copy, Op::Triad], Level::Memory, Threads::All));
        for threads in between(&SOME, site).chain([Threads::Smt]) {
            cases.extend(regular(&[Op::Read], Level::Memory, threads));
        }
    }
    cases
}

/// Everything: each kernel at each level by one thread and by all; each number of threads and the
/// threads of one core by the widest vectors.
fn thorough(site: &Site) -> Vec<Transfer> {
    let is_many = site.cpus.len() > 1;
    let mut cases = Vec::new();
    for level in caches(site).chain([Level::Memory, Level::FourTimes]) {
        let mut widest = regular(Op::ALL, level, ONE);
        if level.is_memory() {
            widest.extend(past(Op::ALL, level, ONE));
        }
        let full = widest[0].bytes(site);
        let mut narrower = Vec::new();
        for width in NARROW_TO_WIDE {
            let at = |access| {
                let widest = widest.iter();
                widest.map(move |case| Transfer { width, access, ..case.clone() })
            };
            let is_narrower = Transfer { width, ..widest[0].clone() }.bytes(site) < full;
            narrower.extend(at(Access::Every).filter(|_| is_narrower));
            narrower.extend(BY_WORDS.into_iter().flat_map(at));
        }
        for case in widest.iter().chain(&narrower) {
            cases.push(case.clone());
            cases.extend(is_many.then(|| Transfer { threads: Threads::All, ..case.clone() }));
        }
        for threads in between(&MORE, site).chain([Threads::Smt]).filter(|_| is_many) {
            cases.extend(widest.iter().map(|case| Transfer { threads, ..case.clone() }));
        }
    }
    cases.retain(|case| contradiction(site, case).is_none());
    cases
}

fn between(counts: &[u64], site: &Site) -> impl Iterator<Item = Threads> {
    let most = site.cpus.len() as u64;
    counts.iter().copied().filter(move |count| *count < most).map(Threads::Number)
}

/// Why a kernel does not exist here, if it does not.
pub(super) fn contradiction(site: &Site, case: &Transfer) -> Option<String> {
    let is_past = case.stores == Stores::NonTemporal;
    if is_past && matches!(case.op, Op::Read | Op::Modify) {
        return Some(format!("{} has no non-temporal form", case.op.text()));
    }
    if let Some(reason) = reports::contradiction(case) {
        return Some(reason.to_owned());
    }
    let cpu = &site.host.cpu;
    let x86 = cpu.arch == Arch::X86_64;
    let is_here = match case.width {
        Width::Sse2 => x86,
        Width::Avx2 => x86 && cpu.has("avx2") && cpu.has("fma"),
        Width::Avx512 => x86 && cpu.has("avx512f"),
        Width::Neon => !x86,
        // Arm's non-temporal stores are pairs of registers.
        Width::Word(_) => x86 || !is_past,
        Width::Vector => true,
    };
    (!is_here).then(|| "this processor has no such instruction".to_owned())
}

/// Why a case cannot be measured at the site, if it cannot.
pub(super) fn absent(site: &Site, case: &Transfer, limit: u64) -> Option<Skip> {
    if let Some(reason) = contradiction(site, case) {
        return Some(Skip::because(reason));
    }
    if case.stores == Stores::NonTemporal && !case.level.is_memory() {
        return Some(Skip::because(
            "non-temporal stores go to memory, whatever cache would hold the arrays",
        ));
    }
    if let Threads::Number(count) = case.threads
        && count > site.cpus.len() as u64
    {
        let cpus = site.cpus.len();
        return Some(Skip::because(format!("{count} threads, and {cpus} CPUs to measure on")));
    }
    if cpus_of(site, case.threads).is_empty() {
        return Some(Skip::because("no two CPUs to measure on are shown as threads of one core"));
    }
    match sizes::of(Facts::prior(site), case, limit) {
        Ok(sized) => too_large(site, &sized),
        Err(skip) => Some(skip),
    }
}

/// Why arrays of this size cannot be had, if they cannot.
pub(super) fn too_large(site: &Site, sized: &Sized) -> Option<Skip> {
    (sized.total_bytes() > site.memory_bytes).then(|| {
        Skip::because(format!(
            "needs {} of memory; {} may be touched (of what is available, and under the control \
             group's limit)",
            render(sized.total_bytes() as f64, Unit::B),
            render(site.memory_bytes as f64, Unit::B)
        ))
        .needs("more free memory, or a higher limit")
    })
}
