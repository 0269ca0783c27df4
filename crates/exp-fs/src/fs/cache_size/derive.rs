//! What the sizes say together, and what the cases should come to.

use super::{Found, ID, Limit, Swept};
use bench::experiment::contract::Facts;
use bench::experiment::{DerivedValue, Fields, Known, Site, unknown};
use laws::fs::cache_size::{hit, is_known, knee_in_group, knee_in_memory, miss, rate};
use laws::fs::{BLOCK_BYTES, measured_stream};
use laws::{Law, range};
use record::case::Case;
use record::event::{Prediction, Range};
use record::key::CaseId;
use record::order::{Gather, InOrder};
use record::quantity::{digits, render};
use record::unit::Unit;
use stats::ladder::Rung;
use stats::quantile::median;
use stats::step::{Step, step};
use std::collections::BTreeSet;

/// If the device delivered more than this share of a size, the size was not entirely in memory.
const MISSED: f64 = 0.02;

/// One size of a sweep.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: f64,
    block_ns: f64,
    bytes_per_s: f64,
    /// What the device gave; `None` where that is not counted.
    missed: Option<f64>,
    residency: Option<f64>,
}

impl Point {
    /// Share that came from elsewhere: what the device gave, or where that is not counted what was
    /// not in memory.
    fn away(&self) -> f64 {
        let absent = self.residency.map_or(0.0, |residency| 1.0 - residency);
        self.missed.unwrap_or(absent)
    }

    /// Whether the whole size was in memory, by everything that is known.
    fn is_cached(&self) -> bool {
        let stayed = self.residency.is_none_or(|residency| residency >= 1.0 - MISSED);
        stayed && self.away() <= MISSED
    }
}

pub(super) fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
    let cases = values.of(ID, "file").filter_map(|(case, _)| Swept::of(case));
    let limits: BTreeSet<Limit> = cases.map(|case| case.limit).gather();
    limits.into_iter().flat_map(|limit| of_limit(site, known, values, limit)).collect()
}

fn points(values: &Known, limit: Limit) -> Vec<Point> {
    let point = |case: &CaseId, bytes: f64| {
        let of = |metric: &str| values.get(ID, case, metric);
        let (missed, residency) = (of("missed"), of("residency"));
        let is_known = missed.is_some() || residency.is_some();
        is_known.then_some(Point {
            bytes,
            block_ns: of("latency_per_block")?,
            bytes_per_s: of("bandwidth")?,
            missed,
            residency,
        })
    };
    let mut points: Vec<Point> = values
        .of(ID, "file")
        .filter(|(case, _)| Swept::of(case).is_some_and(|case| case.limit == limit))
        .filter_map(|(case, bytes)| point(case, bytes))
        .collect();
    points.order_by(|a, b| a.bytes.total_cmp(&b.bytes));
    points
}

fn of_limit(site: &Site, known: &Known, values: &Known, limit: Limit) -> Vec<DerivedValue> {
    let points = points(values, limit);
    let rung = |point: &Point| Rung { size: point.bytes, value: point.block_ns };
    let found = step(&points.iter().map(rung).collect::<Vec<Rung>>());
    let above = |step: &Step| {
        let missed = points.iter().filter(|point| point.bytes >= step.high);
        median(&missed.map(Point::away).collect::<Vec<f64>>()).unwrap_or(0.0)
    };
    let knee = found.filter(|step| above(step) > MISSED);
    let cases = values.of(ID, "file").filter_map(|(case, _)| Swept::of(case));
    let case = limit.found(cases.filter(|case| case.limit == limit).map(|case| case.size));
    let cached = cached(&points, &case, knee.as_ref(), found.is_some()).into_iter();
    let Some(knee) = knee else {
        return cached.collect();
    };
    let memory = site.host.memory_ceiling_bytes();
    let (limit_bytes, machine) = match limit {
        Limit::Group(bytes) => (Some(bytes), memory),
        Limit::Memory => (memory, None),
    };
    let machine = machine.zip(limit_bytes);
    let machine = machine.map(|(all, limit)| estimate(site, &case, &knee, limit, all));
    let read = measured_stream(Facts { site, known: Some(known) });
    let of_knee = of_knee(&points, &case, limit_bytes, &knee);
    cached.chain(of_knee).chain(machine).chain(rate_above(&points, read, &case, &knee)).collect()
}

/// The largest size that was in memory without misses; between it and the smallest above the knee
/// lies what would just fit.
fn cached(
    points: &[Point],
    case: &CaseId,
    knee: Option<&Step>,
    is_step: bool,
) -> Option<DerivedValue> {
    let largest = points
        .iter()
        .take_while(|point| point.is_cached() && knee.is_none_or(|knee| point.bytes <= knee.low))
        .last()?;
    let mut value = DerivedValue {
        cell: knee.map(|knee| (largest.bytes, knee.high)),
        ..DerivedValue::new(case.clone(), "cached", largest.bytes)
    };
    if knee.is_none() {
        let most = render(largest.bytes, Unit::B);
        value.notes.push(match is_step {
            false => format!("the knee is above {most}, the largest size measured"),
            true => {
                "the time rises although no data came from the device, so this is not the cache's \
                 knee"
                    .to_owned()
            }
        });
    }
    Some(value)
}

fn of_knee(
    points: &[Point],
    case: &CaseId,
    limit_bytes: Option<u64>,
    knee: &Step,
) -> Vec<DerivedValue> {
    let of = |metric, over: f64| DerivedValue {
        cell: Some((knee.low / over, knee.high / over)),
        ..DerivedValue::new(case.clone(), metric, f64::midpoint(knee.low, knee.high) / over)
    };
    let mut position = of("knee", 1.0);
    position.at = [
        ("largest_below".to_owned(), (knee.low as u64).into()),
        ("smallest_above".to_owned(), (knee.high as u64).into()),
    ]
    .gather();
    position.notes.push(format!(
        "between {} and {}: the time per block rises from {} to {}",
        render(knee.low, Unit::B),
        render(knee.high, Unit::B),
        render(knee.below, Unit::Ns),
        render(knee.above, Unit::Ns)
    ));
    let is_partly =
        |point: &&Point| point.bytes >= knee.high && point.missed.is_some_and(|share| share < 0.9);
    let partly = points.iter().filter(is_partly).count();
    if partly > 0 {
        position.notes.push(format!(
            "at {partly} sizes above the knee part of the file stayed in memory: this kernel does \
             not evict the oldest page first"
        ));
    }
    let over_limit = limit_bytes.map(|bytes| of("knee_over_limit", bytes as f64));
    std::iter::once(position).chain(over_limit).collect()
}

/// What the knee of a group says of the machine: the same share of the available memory, as far from
/// it as the law allows.
fn estimate(
    site: &Site,
    case: &CaseId,
    knee: &Step,
    limit_bytes: u64,
    available_bytes: u64,
) -> DerivedValue {
    let scale = available_bytes as f64 / limit_bytes as f64;
    let Range { low, likely, high } = knee_in_memory(site, available_bytes as f64).range;
    let value = f64::midpoint(knee.low, knee.high) * scale;
    let share = digits(100.0 * value / available_bytes as f64);
    let available = render(available_bytes as f64, Unit::B);
    DerivedValue {
        cell: Some((knee.low * scale * low / likely, knee.high * scale * high / likely)),
        at: [("available_bytes".to_owned(), available_bytes.into())].gather(),
        notes: vec![format!(
            "an estimate: files got {share} % of the group's limit; {available} of memory are \
             available (MemAvailable, or what a limit of plumb's own group leaves)"
        )],
        ..DerivedValue::new(case.clone(), "machine_estimate", value)
    }
}

/// The device's own rate above the knee, and against fs.read's; nothing where it is not counted.
fn rate_above(
    points: &[Point],
    read: Option<f64>,
    case: &CaseId,
    knee: &Step,
) -> Vec<DerivedValue> {
    let rates: Vec<f64> = points
        .iter()
        .filter(|point| point.bytes >= knee.high)
        // Read ahead twice is given once.
        .filter_map(|point| Some(point.bytes_per_s * point.missed?.min(1.0)))
        .collect();
    let Some(rate) = median(&rates) else {
        return Vec::new();
    };
    let over =
        read.map(|read| DerivedValue::new(case.clone(), "rate_over_read", rate / (read * 1e9)));
    std::iter::once(DerivedValue::new(case.clone(), "rate_above", rate)).chain(over).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Above,
    Unsure,
}

/// The share of a file read in order that a kernel may keep if it does not drop the oldest pages first.
const KEPT: f64 = 0.8;
/// By how much other processes' files may grow or shrink in the cache while one is read: a share of
/// its size, and at most so many bytes.
const COMPANY: (f64, f64) = (0.6, 1e9);

/// The limit in bytes, and the part that files get; that of a measured case stands in it.
fn knee(facts: Facts, limit: Limit, at: Option<u64>) -> (f64, Law) {
    let site = facts.site;
    match limit {
        Limit::Group(bytes) => (bytes as f64, knee_in_group(bytes as f64)),
        Limit::Memory => {
            let bytes = at.or_else(|| site.host.memory_ceiling_bytes());
            let bytes = bytes.unwrap_or(site.memory_bytes) as f64;
            (bytes, knee_in_memory(site, bytes))
        }
    }
}

pub(super) fn measured(facts: Facts, id: &Swept, at: &Case, metric: &str) -> Option<Prediction> {
    let limit = id.limit;
    let is_time = ["latency_per_block", "latency_per_byte", "bandwidth"].contains(&metric);
    if facts.known.is_some() && !(is_time && is_known(facts)) {
        return None;
    }
    let swept = Read {
        // A case of another machine's sheet is not resolved, but its size follows from its limit.
        bytes: at.int("bytes").or_else(|| id.bytes()).map(|bytes| bytes as f64),
        knee: knee(facts, limit, at.int("limit_bytes")).1,
        // Others' files are counted with this one.
        has_company: limit == Limit::Memory,
    };
    let law = match metric {
        "latency_per_block" => swept.block(facts),
        "latency_per_byte" => swept.block(facts).times(1.0 / BLOCK_BYTES),
        "bandwidth" => swept.block(facts).inverse(BLOCK_BYTES * 1e9),
        "residency" => swept.residency(),
        "missed" => swept.missed(),
        "cache_growth" => swept.growth(),
        _ => return Some(swept.file()),
    };
    Some(law.prediction())
}

pub(super) fn derived(facts: Facts, found: &Found, metric: &str) -> Option<Prediction> {
    let narrows = metric == "rate_above" && measured_stream(facts).is_some();
    if facts.known.is_some() && !narrows {
        return None;
    }
    if found.size.is_some() {
        // Of a file that does not reach the limit nothing else is found.
        return (facts.known.is_none() && metric == "cached").then(|| {
            unknown(
                "unknown: the largest size that time and directory allow; the sweep does not look \
                 for the knee, which is above",
            )
        });
    }
    let (limit_bytes, knee) = knee(facts, found.limit, None);
    let Range { low, likely, high } = knee.range;
    let law = match (metric, found.limit) {
        ("machine_estimate", Limit::Memory) => return None,
        ("machine_estimate", _) => self::knee(facts, Limit::Memory, None)
            .1
            .and("estimated from the group's knee and the available memory"),
        ("knee", _) => knee,
        ("knee_over_limit", _) => knee.times(1.0 / limit_bytes),
        ("cached", _) => knee
            .at(range(0.8 * low, 0.98 * likely, high))
            .and("the largest size measured below the knee"),
        ("rate_above", _) => {
            rate(facts).times(1e9).and("all data comes from the device, with readahead")
        }
        _ => Law::new(
            0.5,
            1.0,
            1.8,
            "the same device through the page cache, but another file and pages that evict each \
             other",
        ),
    };
    Some(law.prediction())
}

struct Read {
    /// `None` for a step of the bisection.
    bytes: Option<f64>,
    knee: Law,
    has_company: bool,
}

impl Read {
    fn side(&self) -> Side {
        let Range { low, high, .. } = self.knee.range;
        match self.bytes {
            Some(bytes) if bytes <= low => Side::Below,
            Some(bytes) if bytes > high => Side::Above,
            _ => Side::Unsure,
        }
    }

    /// The size divided by the likely size that stays in memory.
    fn over(&self, cached: f64) -> f64 {
        self.bytes.map_or(1.0, |bytes| bytes / cached)
    }

    fn is_likely_above(&self) -> bool {
        self.over(self.knee.range.likely) > 1.0
    }

    /// An interval that follows from the knee.
    fn law(&self, low: f64, likely: f64, high: f64, why: &str) -> Law {
        Law::new(low, likely, high, why).with(&self.knee)
    }

    fn block(&self, facts: Facts) -> Law {
        let (hit, miss) = (hit(facts), miss(facts));
        let Range { low, likely, high } = miss.range;
        match self.side() {
            Side::Below => hit.and("the file fits and is entirely in memory"),
            Side::Above => {
                // What a kernel may keep all the same.
                let least = (1.0 - KEPT / self.over(self.knee.range.high)).clamp(0.2, 1.0);
                let low = (hit.range.low + least * low).min(likely);
                let why = "a file that does not fit is evicted before it is read again";
                miss.at(range(low, likely, high)).and(why)
            }
            Side::Unsure => {
                let likely = if self.is_likely_above() { likely } else { hit.range.likely };
                let of = range(hit.range.low, likely, high);
                miss.at(of).and("near the knee: cached or not")
            }
        }
    }

    fn residency(&self) -> Law {
        let Range { low, likely, high } = self.knee.range;
        let share = |cached: f64| (1.0 / self.over(cached)).min(1.0);
        match self.side() {
            Side::Below => self.law(0.97, 1.0, 1.0, "the file fits"),
            _ => {
                let why = "the part that stays in memory, divided by the size";
                self.law(0.8 * share(low), share(likely), share(high), why)
            }
        }
    }

    fn missed(&self) -> Law {
        let least = match self.side() {
            Side::Below => return self.law(0.0, 0.0, 0.02, "the file fits"),
            Side::Above => 1.0 - KEPT.max(1.0 / self.over(self.knee.range.high)),
            Side::Unsure => 0.0,
        };
        let likely = if self.is_likely_above() { 1.0 } else { 0.0 };
        let why = "the kernel evicts the oldest page first, which is the next one to be read";
        self.law(least, likely, 1.1, why)
    }

    fn growth(&self) -> Law {
        let Range { low, likely, high } = self.knee.range;
        let (low, likely, high) = match (self.side(), self.bytes) {
            (_, None) => (0.8 * low, 0.98 * likely, 1.02 * high),
            (Side::Below, Some(bytes)) => (0.95 * bytes, bytes, 1.06 * bytes),
            (_, Some(bytes)) => (0.8 * low.min(bytes), likely.min(bytes), 1.02 * high.min(bytes)),
        };
        let company = match self.has_company {
            true => (COMPANY.0 * likely).min(COMPANY.1),
            false => 0.0,
        };
        self.law(low - company, likely, high + company, "the file's pages in memory")
    }

    fn file(&self) -> Prediction {
        let Range { low, likely, high } = self.knee.range;
        match self.bytes {
            Some(bytes) => Law::new(bytes, bytes, bytes, "as planned").prediction(),
            None if high > 0.0 => {
                let why = "the bisection converges to the knee";
                self.law(0.75 * low, likely, 1.25 * high, why).prediction()
            }
            None => {
                unknown("unknown: the bisection converges to the knee, and the limit is unknown")
            }
        }
    }
}
