//! Which kernels are measured where: the points of the parameter space, per preset and machine.

use super::sizes::{self, Sized};
use super::{ID, LEVEL_NAMES};
use bench::experiment::{Offer, Params, Preset, Site, Skip};
use host::Arch;
use laws::memory::bandwidth::{ACCESSES, FOUR_TIMES, OPS, STORES, Transfer, WIDTHS, cpus_of};
use laws::memory::{MEMORY, described_levels};
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use record::quantity::render;
use record::unit::Unit;
use std::collections::BTreeMap;

/// Most bytes of a thread's arrays in a rehearsal, whose figures mean nothing.
const REHEARSAL_LIMIT: u64 = 8 << 20;
/// Numbers of threads between one and all, per preset: standard, thorough.
const SOME: [u64; 4] = [2, 4, 16, 64];
const MORE: [u64; 9] = [2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Explicit widths, narrow to wide, with their bytes.
const NARROW_TO_WIDE: [(&str, f64); 6] =
    [("4", 4.0), ("8", 8.0), ("neon", 16.0), ("sse2", 16.0), ("avx2", 32.0), ("avx512", 64.0)];

/// One case: a kernel, the level that its arrays lie in, and how many threads run it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) transfer: Transfer,
    pub(super) level: &'static str,
    pub(super) threads: Value,
}

impl Point {
    pub(super) fn id(&self) -> CaseId {
        self.transfer.case(self.level, &self.threads)
    }

    /// The point of a measured case; none of a derived one.
    pub(super) fn of(id: &CaseId) -> Option<Point> {
        let level = id.text("level")?;
        Some(Point {
            transfer: Transfer::of(id)?,
            level: LEVEL_NAMES.iter().find(|name| **name == level)?,
            threads: id.get("threads")?.clone(),
        })
    }

    /// Whether the arrays lie in main memory.
    pub(super) fn is_memory(&self) -> bool {
        is_memory(self.level)
    }
}

/// Whether a level is main memory.
pub(super) fn is_memory(level: &str) -> bool {
    level == MEMORY || level == FOUR_TIMES
}

/// All that the parameters ask for at this site.
///
/// # Errors
/// Nothing of it can be measured, and why.
pub(super) fn offer(site: &Site, params: &Params) -> Result<Offer, Skip> {
    let mut offer = Offer::default();
    let limit = params.ints("limit").first().copied().unwrap_or(u64::MAX);
    let limit = match params.preset {
        Preset::Rehearsal => limit.min(REHEARSAL_LIMIT),
        _ => limit,
    };
    let settings = BTreeMap::from([("limit".to_owned(), Value::from(limit))]);
    let mut kept: Vec<Point> = Vec::new();
    for point in chosen(site, params) {
        match not_here(site, &point, limit) {
            Some(skip) => offer.skipped.push((point.id(), skip)),
            None => kept.push(point),
        }
    }
    // The case of the reports is a series of its own: its size may be too much where others' is cut.
    for (name, is_reports) in [("levels", false), ("4xLLC", true)] {
        let of = |point: &&Point| (point.level == FOUR_TIMES) == is_reports;
        let cases: Vec<Case> = kept.iter().filter(of).map(|point| Case::new(point.id())).collect();
        if !cases.is_empty() {
            offer.series.push(Series {
                experiment: ID.to_owned(),
                name: name.to_owned(),
                order: Order::Shuffled,
                cases,
                settings: settings.clone(),
            });
        }
    }
    if offer.series.is_empty() {
        let first = offer.skipped.into_iter().next().map(|(_, skip)| skip);
        return Err(first.unwrap_or_else(|| Skip::because("no kernel was asked for")));
    }
    Ok(offer)
}

/// The preset's points; a parameter that was chosen takes the place of the preset's values of it.
fn chosen(site: &Site, params: &Params) -> Vec<Point> {
    let mut points = preset(site, params.preset);
    let symbols = |name: &str, known: &'static [&'static str]| -> Option<Vec<&'static str>> {
        let values = params.chosen(name)?.iter().map(Value::to_string);
        let symbol = |text: String| known.iter().find(|symbol| **symbol == text).copied();
        Some(values.filter_map(symbol).collect())
    };
    let mut replace = |values: Option<Vec<&'static str>>, set: fn(&mut Point, &'static str)| {
        let Some(values) = values else { return };
        let with = |point: &Point| {
            let of = |value| {
                let mut point = point.clone();
                set(&mut point, value);
                point
            };
            values.iter().copied().map(of).collect::<Vec<_>>()
        };
        points = points.iter().flat_map(with).collect();
    };
    replace(symbols("op", OPS), |point, op| point.transfer.op = op);
    replace(symbols("stores", STORES), |point, stores| {
        point.transfer.stores = stores;
    });
    replace(symbols("access", ACCESSES), |point, access| {
        point.transfer.access = access;
    });
    replace(symbols("width", WIDTHS), |point, width| {
        point.transfer.width = width;
    });
    replace(symbols("level", LEVEL_NAMES), |point, level| {
        point.level = level;
    });
    if let Some(threads) = params.chosen("threads") {
        let with = |point: &Point| {
            let of = |threads: &Value| Point { threads: threads.clone(), ..point.clone() };
            threads.iter().map(of).collect::<Vec<_>>()
        };
        points = points.iter().flat_map(with).collect();
    }
    let mut distinct: Vec<Point> = Vec::with_capacity(points.len());
    for point in points {
        if !distinct.contains(&point) {
            distinct.push(point);
        }
    }
    distinct
}

fn preset(site: &Site, preset: Preset) -> Vec<Point> {
    match preset {
        Preset::Rehearsal => rehearsal(site),
        Preset::Quick => quick(site),
        Preset::Standard => standard(site),
        Preset::Thorough => thorough(site),
    }
}

/// Points of some operations with regular stores in the widest vectors.
fn plain(ops: &[&'static str], level: &'static str, threads: impl Into<Value>) -> Vec<Point> {
    let threads = threads.into();
    let point = |op: &&'static str| Point {
        transfer: Transfer::widest(op, STORES[0]),
        level,
        threads: threads.clone(),
    };
    ops.iter().map(point).collect()
}

/// The same past the caches.
fn past(ops: &[&'static str], level: &'static str, threads: impl Into<Value>) -> Vec<Point> {
    let mut points = plain(ops, level, threads);
    for point in &mut points {
        point.transfer.stores = STORES[1];
    }
    points
}

/// The same by words of one kind.
fn words(
    ops: &[&'static str],
    access: &'static str,
    width: &'static str,
    level: &'static str,
) -> Vec<Point> {
    let mut points = plain(ops, level, 1);
    for point in &mut points {
        point.transfer.access = access;
        point.transfer.width = width;
    }
    points
}

/// Names of the caches that the machine describes.
fn caches(site: &Site) -> Vec<&'static str> {
    let levels = described_levels(site);
    levels.into_iter().map(|(name, _)| name).collect()
}

fn rehearsal(site: &Site) -> Vec<Point> {
    let mut points = plain(&["read", "copy"], MEMORY, 1);
    points.extend(past(&["triad"], MEMORY, 1));
    points.extend(words(&["write"], "first", "4", MEMORY));
    for level in caches(site).into_iter().take(2) {
        points.extend(plain(&["read", "copy"], level, 1));
    }
    if site.cpus.len() > 1 {
        points.extend(plain(&["modify"], MEMORY, "all"));
    }
    points
}

fn quick(site: &Site) -> Vec<Point> {
    let mut points = Vec::new();
    if let Some(first) = caches(site).first() {
        points.extend(plain(&["read", "copy"], first, 1));
    }
    points.extend(plain(&["read", "write", "copy"], MEMORY, 1));
    if site.cpus.len() > 1 {
        points.extend(plain(&["read", "triad"], MEMORY, "all"));
    }
    points
}

fn standard(site: &Site) -> Vec<Point> {
    let mut points = plain(OPS, MEMORY, 1);
    points.extend(past(&["write", "copy", "scale", "add", "triad"], MEMORY, 1));
    for level in caches(site) {
        points.extend(plain(&["read", "write", "copy"], level, 1));
    }
    for width in ["8", "4"] {
        points.extend(words(&["read", "write"], "every", width, MEMORY));
    }
    points.extend(words(&["read", "write"], "strided", "4", MEMORY));
    points.extend(words(&["read", "write"], "first", "4", FOUR_TIMES));
    points.extend(plain(&OPS[3..], FOUR_TIMES, 1));
    let cpus = site.cpus.len();
    if cpus > 1 {
        points.extend(plain(OPS, MEMORY, "all"));
        points.extend(past(&["write", "copy", "triad"], MEMORY, "all"));
        points.extend(between(&SOME, cpus).flat_map(|count| plain(&["read"], MEMORY, count)));
        points.extend(plain(&["read"], MEMORY, "smt"));
    }
    points
}

/// Everything: each kernel at each level by one thread and by all; each number of threads and the
/// threads of one core by the widest vectors.
fn thorough(site: &Site) -> Vec<Point> {
    let cpus = site.cpus.len();
    let mut levels = caches(site);
    levels.extend([MEMORY, FOUR_TIMES]);
    let mut points = Vec::new();
    for level in levels {
        let mut widest = plain(OPS, level, 1);
        if is_memory(level) {
            widest.extend(past(OPS, level, 1));
        }
        let mut narrower: Vec<Point> = Vec::new();
        let full = Transfer::widest("read", STORES[0]).bytes(site);
        for (width, bytes) in NARROW_TO_WIDE {
            let at = |access: &'static str, point: &Point| {
                let mut point = point.clone();
                point.transfer.width = width;
                point.transfer.access = access;
                point
            };
            if bytes < full {
                narrower.extend(widest.iter().map(|point| at("every", point)));
            }
            for access in ["first", "strided"] {
                narrower.extend(widest.iter().map(|point| at(access, point)));
            }
        }
        let mut counts: Vec<Value> = Vec::new();
        if cpus > 1 {
            counts.extend(between(&MORE, cpus).map(Value::from));
            counts.push(Value::from("smt"));
        }
        for point in widest.iter().chain(&narrower) {
            points.push(point.clone());
            points
                .extend((cpus > 1).then(|| Point { threads: Value::from("all"), ..point.clone() }));
        }
        for threads in counts {
            points.extend(
                widest.iter().map(|point| Point { threads: threads.clone(), ..point.clone() }),
            );
        }
    }
    points.retain(|point| {
        let by_words = point.transfer.access != "every";
        contradiction(site, point.transfer).is_none() && !(by_words && point.level == "L1")
    });
    points
}

fn between(counts: &[u64], cpus: usize) -> impl Iterator<Item = u64> {
    counts.iter().copied().filter(move |count| *count < cpus as u64)
}

/// Why a kernel does not exist here, if it does not.
pub(super) fn contradiction(site: &Site, transfer: Transfer) -> Option<String> {
    let Transfer { op, stores, access, width } = transfer;
    let nontemporal = stores == STORES[1];
    if nontemporal && matches!(op, "read" | "modify") {
        return Some(format!("{op} has no non-temporal form"));
    }
    if access != "every" && (nontemporal || !matches!(width, "4" | "8")) {
        return Some("words of a line are touched one by one, by regular stores".to_owned());
    }
    let cpu = &site.host.cpu;
    let x86 = cpu.arch == Arch::X86_64;
    let is_here = match width {
        "sse2" => x86,
        "avx2" => x86 && cpu.has("avx2") && cpu.has("fma"),
        "avx512" => x86 && cpu.has("avx512f"),
        "neon" => !x86,
        // Arm's non-temporal stores are pairs of registers.
        "4" | "8" => x86 || !nontemporal,
        _ => true,
    };
    (!is_here).then(|| format!("this processor has no such instruction ({width})"))
}

/// Why a point cannot be measured at the site, if it cannot.
fn not_here(site: &Site, point: &Point, limit: u64) -> Option<Skip> {
    if let Some(reason) = contradiction(site, point.transfer) {
        return Some(Skip::because(reason));
    }
    if point.transfer.stores == STORES[1] && !point.is_memory() {
        return Some(Skip::because(
            "non-temporal stores go to memory, whatever cache would hold the arrays",
        ));
    }
    if point.transfer.access != "every" && point.level == "L1" {
        return Some(Skip::because(
            "a word stands for a line that moves, and in the first cache none does",
        ));
    }
    if let Some(count) = point.threads.int()
        && count > site.cpus.len() as u64
    {
        return Some(Skip::because(format!(
            "{count} threads, and {} CPUs to measure on",
            site.cpus.len()
        )));
    }
    if cpus_of(site, &point.threads).is_empty() {
        return Some(Skip::because("no two CPUs to measure on are shown as threads of one core"));
    }
    match sizes::of(site, None, point, limit) {
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
