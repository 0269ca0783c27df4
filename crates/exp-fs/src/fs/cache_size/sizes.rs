//! Which sizes are measured here, and what they take.

use super::ID;
use crate::fs::file;
use bench::device;
use bench::experiment::{Params, Preset, Site, Skip};
use laws::fs::cache_size::rate;
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use record::quantity::render;
use record::unit::Unit;
use std::collections::BTreeMap;
use std::time::Duration;

/// Sizes in hundredths of the limit: five below it or at it, the last 1.25 of it.
const GROUP_SIZES: [u64; 7] = [25, 50, 75, 90, 100, 110, 125];
/// Fewer of a whole memory, each of which takes its time.
const MEMORY_SIZES: [u64; 5] = [50, 75, 90, 100, 125];
/// Steps of the bisection between two sizes.
pub(super) const BISECTIONS: [&str; 4] = ["bisect1", "bisect2", "bisect3", "bisect4"];
/// The largest size that the budget allows, where not even the limit can be reached.
pub(super) const LARGEST: &str = "largest";
/// The other limit.
pub(super) const MEMORY: &str = "memory";
/// Limit of the group.
pub(super) const GROUP_BYTES: u64 = 64 << 20;
/// Sizes are multiples of this.
pub(super) const STEP_BYTES: u64 = 64 << 10;
/// Passes over a size, at most.
pub(super) const PASSES: u64 = 12;
/// File of a rehearsal.
const REHEARSAL_BYTES: u64 = 1 << 20;
/// A pass over a file that does not fit in the memory reads so long of it, as a share of the whole time:
/// one over this.
const PASS_SHARE: u64 = 16;
/// What the bisection cuts off it writes again: half of the distance of two sizes, a tenth of the file at
/// most; one over this.
const REWRITTEN: u64 = 10;
/// Bytes per ns of a cached file, for stated costs.
const CACHED_RATE: f64 = 4.0;
/// The largest size is written and read in this share of the time.
const LARGEST_SHARE: f64 = 0.4;
/// Start and end of a worker, the group, evictions.
const OVERHEAD: Duration = Duration::from_millis(150);

/// What limits the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    /// A control group around the worker, made for it, with a limit of so many bytes.
    Group(u64),
    /// The machine's memory, or the limit of the groups that plumb itself is in.
    Memory,
}

impl Limit {
    fn of_value(value: &Value) -> Limit {
        value.int().map_or(Limit::Memory, Limit::Group)
    }

    pub(super) fn of(case: &CaseId) -> Option<Limit> {
        let (_, value) = case.0.iter().find(|(name, _)| name == "limit")?;
        Some(Limit::of_value(value))
    }

    pub(super) fn id(self) -> CaseId {
        match self {
            Limit::Group(bytes) => CaseId::new().with("limit", bytes),
            Limit::Memory => CaseId::new().with("limit", MEMORY),
        }
    }

    /// Under what these sizes are found what they say together: where no size reaches the limit, of the
    /// largest alone.
    pub(super) fn found<'case>(self, cases: impl Iterator<Item = &'case CaseId>) -> CaseId {
        let mut is_largest = false;
        for case in cases {
            match (case.int("size"), case.text("size")) {
                (None, Some(LARGEST)) => is_largest = true,
                (None, _) | (Some(100..), _) => return self.id(),
                _ => {}
            }
        }
        match is_largest {
            true => self.id().with("size", LARGEST),
            false => self.id(),
        }
    }

    fn name(self) -> String {
        match self {
            Limit::Group(bytes) => format!("{}MiB", bytes >> 20),
            Limit::Memory => MEMORY.to_owned(),
        }
    }
}

/// Limits that this site and these parameters ask for, in bytes; those that the site does not allow come
/// with why.
pub(super) fn limits(site: &Site, params: &Params) -> Vec<(Limit, Result<u64, Skip>)> {
    let has_place = site.host.limits.memory_place.is_some();
    let wanted = match params.chosen("limit") {
        Some(values) => values.iter().map(Limit::of_value).collect(),
        None => match (params.preset, has_place) {
            (Preset::Rehearsal, _) | (_, false) => vec![Limit::Memory],
            (Preset::Thorough, true) => vec![Limit::Group(GROUP_BYTES), Limit::Memory],
            (_, true) => vec![Limit::Group(GROUP_BYTES)],
        },
    };
    let bytes = |limit| match limit {
        Limit::Group(bytes) => group_bytes(site, bytes),
        Limit::Memory => memory_bytes(site),
    };
    wanted.into_iter().map(|limit| (limit, bytes(limit))).collect()
}

fn group_bytes(site: &Site, bytes: u64) -> Result<u64, Skip> {
    let limits = &site.host.limits;
    if limits.memory_place.is_none() {
        let why = limits.memory_place_refused.as_deref();
        return Err(Skip::because(format!(
            "no control group with a memory limit can be made: {}",
            why.unwrap_or("nobody told where")
        ))
        .needs(
            "root, or a group that is delegated with memory (systemd-run --user --scope -p Delegate=yes); \
             or plumb itself under a limit (-p MemoryMax=256M) with --set fs.cache_size.limit=memory",
        ));
    }
    match limits.memory_left_bytes {
        Some(left) if left < bytes + bytes / 4 => Err(Skip::because(format!(
            "{} are left of the limit of plumb's own group, which holds for a group in it as well",
            render(left as f64, Unit::B)
        ))
        .needs("a smaller one with --set fs.cache_size.limit=SIZE")),
        _ => Ok(bytes),
    }
}

fn memory_bytes(site: &Site) -> Result<u64, Skip> {
    site.host
        .memory_ceiling_bytes()
        .or(Some(site.memory_bytes))
        .filter(|bytes| *bytes >= REHEARSAL_BYTES)
        .ok_or_else(|| Skip::because("the kernel does not tell how much memory is available"))
}

/// The series of a limit, and the sizes that do not fit with what would help.
pub(super) fn series(
    site: &Site,
    params: &Params,
    limit: Limit,
    limit_bytes: u64,
) -> (Option<Series>, Vec<(CaseId, Skip)>) {
    let budget = Budget::of(site, params, limit);
    let mut skipped = Vec::new();
    let (sizes, steps) = match params.chosen("size") {
        Some(values) => asked(values, &budget, limit, limit_bytes, &mut skipped),
        None => {
            let harm = would_swap(site, params, limit);
            usual(params.preset, &budget, limit, limit_bytes, harm, &mut skipped)
        }
    };
    let mut cases: Vec<Case> = sizes
        .iter()
        .map(|(value, bytes)| case(limit, limit_bytes, value.clone(), Some(*bytes)))
        .collect();
    cases.extend((0..steps).map(|step| case(limit, limit_bytes, BISECTIONS[step].into(), None)));
    let series = (!cases.is_empty()).then(|| Series {
        experiment: ID.to_owned(),
        name: limit.name(),
        order: Order::Fixed,
        cases,
        settings: settings(site, params, limit),
    });
    (series, skipped)
}

/// Filling the machine's memory pushes other processes' out where there is swap: only for who asks for it.
fn would_swap(site: &Site, params: &Params, limit: Limit) -> Option<Skip> {
    let host = &site.host;
    let swap = host.memory.swap_total_bytes.filter(|bytes| *bytes > 0)?;
    let left = host.limits.memory_left_bytes;
    let is_by_group = left.is_some() && left == host.memory_ceiling_bytes();
    let is_asked = params.chosen("limit").is_some();
    (limit == Limit::Memory && !is_by_group && !is_asked).then(|| {
        Skip::because(format!(
            "{} of swap are on: filling the memory with a file would push other processes' memory out",
            render(swap as f64, Unit::B)
        ))
        .needs("--set fs.cache_size.limit=memory all the same, or swap off (swapoff -a)")
    })
}

fn case(limit: Limit, limit_bytes: u64, size: Value, bytes: Option<u64>) -> Case {
    let mut case = Case::new(limit.id().with("size", size));
    case.at.insert("limit_bytes".to_owned(), limit_bytes.into());
    if let Some(bytes) = bytes {
        case.at.insert("bytes".to_owned(), bytes.into());
    }
    case
}

/// What a run that is continued must find as it was: how much memory is available is not (it stands in the
/// cases' `at`).
fn settings(site: &Site, params: &Params, limit: Limit) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::from([("time".to_owned(), time_ns(params).into())]);
    if limit != Limit::Memory
        && let Some(place) = &site.host.limits.memory_place
    {
        let version = u64::from(place.version);
        settings.insert("group_version".to_owned(), version.into());
        settings.insert("group_below".to_owned(), place.parent.as_str().into());
        settings.insert("group_home".to_owned(), place.home.as_str().into());
    }
    settings
}

pub(super) fn time_ns(params: &Params) -> u64 {
    params.ints("time").first().copied().unwrap_or(6_000_000_000)
}

/// A share of a limit in whole steps.
fn bytes_of(limit_bytes: u64, percent: u64) -> u64 {
    let bytes = (limit_bytes as f64 * percent as f64 / 100.0) as u64;
    (bytes / STEP_BYTES * STEP_BYTES).max(STEP_BYTES)
}

/// What a sweep may write and take.
struct Budget {
    allowed_bytes: u64,
    time_ns: f64,
    rate: f64,
    limit: Limit,
}

impl Budget {
    fn of(site: &Site, params: &Params, limit: Limit) -> Budget {
        let all = match &site.dir {
            Some(_) => device::allowance(site, ID),
            // Without a directory nothing is measured; what would be is still told.
            None => u64::MAX,
        };
        let group = match (limit, params.preset) {
            (Limit::Memory, Preset::Thorough) => GROUP_BYTES / 4 * 5,
            _ => 0,
        };
        Budget {
            allowed_bytes: all.saturating_sub(group),
            time_ns: time_ns(params) as f64,
            rate: stated_rate(site),
            limit,
        }
    }

    /// The largest size that can be written and read in the time.
    fn largest(&self, limit_bytes: u64) -> u64 {
        let in_time = LARGEST_SHARE * self.time_ns * self.rate;
        let bytes = (in_time as u64).min(self.allowed_bytes).min(limit_bytes);
        bytes / STEP_BYTES * STEP_BYTES
    }

    /// What a sweep takes, in ns.
    fn cost_ns(&self, limit_bytes: u64, sizes: &[u64], steps: usize) -> f64 {
        cost_ns(self.limit, self.time_ns, self.rate, limit_bytes, sizes, steps)
    }

    fn refuses(&self, bytes: u64) -> Option<Skip> {
        (bytes > self.allowed_bytes).then(|| {
            Skip::because(format!(
                "{} would be written, and it may write {} here",
                render(bytes as f64, Unit::B),
                render(self.allowed_bytes as f64, Unit::B)
            ))
            .needs("--dir DIR with more free space")
        })
    }
}

/// Bytes per ns that the device is taken to give and take, for stated costs.
pub(super) fn stated_rate(site: &Site) -> f64 {
    let dir = site.dir.as_ref().map(|dir| file::ground(site, &dir.path));
    rate(site, None, dir.and_then(|ground| ground.disk)).0.likely
}

type Sizes = (Vec<(Value, u64)>, usize);

/// Sizes that the user named; bisections, where both sides of the limit are among them.
fn asked(
    values: &[Value],
    budget: &Budget,
    limit: Limit,
    limit_bytes: u64,
    skipped: &mut Vec<(CaseId, Skip)>,
) -> Sizes {
    let mut sizes = Vec::new();
    let mut steps = 0;
    for value in values {
        let bytes = match value.int() {
            Some(percent) => bytes_of(limit_bytes, percent),
            None if value.text() == Some(LARGEST) => budget.largest(limit_bytes),
            None => {
                steps += 1;
                continue;
            }
        };
        match budget.refuses(bytes) {
            Some(skip) => skipped.push((limit.id().with("size", value.clone()), skip)),
            None => sizes.push((value.clone(), bytes)),
        }
    }
    sizes.sort_by_key(|(_, bytes)| *bytes);
    sizes.dedup_by_key(|(_, bytes)| *bytes);
    (sizes, steps.min(BISECTIONS.len()))
}

/// All sizes and as many bisections as the time allows, or the largest size alone: of what others need too
/// (`harm`), half of the limit at most.
fn usual(
    preset: Preset,
    budget: &Budget,
    limit: Limit,
    limit_bytes: u64,
    harm: Option<Skip>,
    skipped: &mut Vec<(CaseId, Skip)>,
) -> Sizes {
    if preset == Preset::Rehearsal {
        return (vec![(LARGEST.into(), REHEARSAL_BYTES)], 0);
    }
    let percents: &[u64] = match limit {
        Limit::Group(_) => &GROUP_SIZES,
        Limit::Memory => &MEMORY_SIZES,
    };
    let sizes: Vec<(Value, u64)> = percents
        .iter()
        .map(|percent| ((*percent).into(), bytes_of(limit_bytes, *percent)))
        .collect();
    let bytes: Vec<u64> = sizes.iter().map(|(_, bytes)| *bytes).collect();
    let most = bytes.last().copied().unwrap_or(0);
    let in_time = |steps: &usize| budget.cost_ns(limit_bytes, &bytes, *steps) <= budget.time_ns;
    let steps = match limit {
        // Its cost is bounded by its limit; a device that is slow takes longer.
        Limit::Group(_) => Some(BISECTIONS.len()),
        Limit::Memory => (0..=BISECTIONS.len()).rev().find(in_time),
    };
    let skip = budget.refuses(most + most / REWRITTEN).or_else(|| {
        steps.is_none().then(|| {
            Skip::because(format!(
                "files up to {} take {:.0} s here",
                render(most as f64, Unit::B),
                budget.cost_ns(limit_bytes, &bytes, 0) / 1e9
            ))
            .needs("--preset thorough, or --set fs.cache_size.time=TIME")
        })
    });
    let largest = match harm {
        Some(_) => budget.largest(limit_bytes / 2),
        None => budget.largest(limit_bytes),
    };
    let skip = skip.or(harm);
    let Some(skip) = skip else {
        return (sizes, steps.unwrap_or(0));
    };
    let fits = |bytes: u64| bytes <= largest;
    let left = sizes.iter().filter(|(_, bytes)| !fits(*bytes));
    skipped.extend(left.map(|(value, _)| (limit.id().with("size", value.clone()), skip.clone())));
    let mut sizes: Vec<(Value, u64)> =
        sizes.into_iter().filter(|(_, bytes)| fits(*bytes)).collect();
    if largest > 0 && sizes.iter().all(|(_, bytes)| *bytes < largest) {
        sizes.push((LARGEST.into(), largest));
    }
    (sizes, 0)
}

/// Time that a case's passes may take, in ns, and that a single pass may: a part of the file is enough
/// of a whole memory.
pub(super) fn pass_limits(limit: Limit, time_ns: f64, cases: usize) -> (f64, f64) {
    match limit {
        Limit::Group(_) => (time_ns / cases.max(1) as f64, f64::INFINITY),
        Limit::Memory => (time_ns / (2 * PASS_SHARE) as f64, time_ns / PASS_SHARE as f64),
    }
}

fn cost_ns(
    limit: Limit,
    time_ns: f64,
    rate: f64,
    limit_bytes: u64,
    sizes: &[u64],
    steps: usize,
) -> f64 {
    let (case_ns, pass_ns) = pass_limits(limit, time_ns, sizes.len() + steps);
    let most = sizes.iter().max().copied().unwrap_or(0) as f64;
    let passes = |bytes: f64, rate: f64| {
        let one = (bytes / rate).min(pass_ns);
        one * (case_ns / one).ceil().clamp(1.0, PASSES as f64)
    };
    let of_size = |bytes: f64| {
        let above = bytes >= limit_bytes as f64;
        // In a group every size is read in anew; in the memory, what was just written is there.
        let fill = match limit != Limit::Memory || above {
            true => bytes / rate,
            false => 0.0,
        };
        fill + passes(bytes, if above { rate } else { CACHED_RATE })
    };
    let grid: f64 = sizes.iter().map(|bytes| of_size(*bytes as f64)).sum();
    // Half of the steps lie above the knee.
    let around = limit_bytes as f64;
    let step = around / rate + 0.5 * (passes(around, rate) + passes(around, CACHED_RATE));
    most / rate + grid + steps as f64 * step
}

/// What a series takes.
pub(super) fn round_cost(site: &Site, series: &Series) -> Duration {
    let sizes: Vec<u64> = series.cases.iter().filter_map(|case| case.int("bytes")).collect();
    let first = series.cases.first();
    let limit = first.and_then(|case| Limit::of(&case.id)).unwrap_or(Limit::Memory);
    let limit_bytes = first.and_then(|case| case.int("limit_bytes"));
    let ns = cost_ns(
        limit,
        series.setting("time").unwrap_or(0) as f64,
        stated_rate(site),
        limit_bytes.unwrap_or(0),
        &sizes,
        series.cases.len() - sizes.len(),
    );
    OVERHEAD + Duration::from_nanos(ns as u64)
}
