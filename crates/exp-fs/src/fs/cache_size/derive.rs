//! What the sizes say together, and what the cases should come to.

use super::{Found, ID, Limit, Swept};
use crate::fs::prelude::*;
use laws::fs::cache_size::{hit, is_known, knee_in_group, knee_in_memory, miss, rate};
use laws::fs::{BLOCK_BYTES, measured_stream};
use laws::range;
use record::event::Range;
use record::quantity::digits;
use stats::ladder::Rung;
use stats::quantile::median;
use stats::step::{Step, step};

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
    fn from_values(values: &Known, case: &CaseId, bytes: f64) -> Option<Point> {
        let of = |metric: &str| values.get(ID, case, metric);
        let (missed, residency) = (of("missed"), of("residency"));
        let (block_ns, bytes_per_s) = (of("latency_per_block")?, of("bandwidth")?);
        let point = Point { bytes, block_ns, bytes_per_s, missed, residency };
        missed.or(residency).map(|_| point)
    }

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

/// A size under a limit, with the bytes of its file.
type Sized<'known> = (Swept, &'known CaseId, f64);

pub(super) fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
    let sizes = values.figures(ID, "file");
    let sizes = sizes.filter_map(|(case, bytes)| Some((Swept::from_id(case)?, case, bytes)));
    let mut sizes: Vec<Sized> = sizes.collect();
    sizes.order_by(|a, b| a.0.limit.cmp(&b.0.limit).then(a.2.total_cmp(&b.2)));
    let read = measured_stream(Facts { site, known: Some(known) });
    let limits = sizes.chunk_by(|a, b| a.0.limit == b.0.limit);
    limits.flat_map(|sizes| of_limit(site, read, values, sizes)).collect()
}

/// What the sizes of a limit, in ascending order, say together; `read` is fs.read's rate.
fn of_limit(site: &Site, read: Option<f64>, values: &Known, sizes: &[Sized]) -> Vec<DerivedValue> {
    let limit = sizes[0].0.limit;
    let case = limit.found(sizes.iter().map(|(swept, ..)| swept.size));
    let of = |metric, value| DerivedValue::new(case.clone(), metric, value);
    let points =
        sizes.iter().filter_map(|(_, case, bytes)| Point::from_values(values, case, *bytes));
    let points: Vec<Point> = points.collect();
    let rung = |point: &Point| Rung { size: point.bytes, value: point.block_ns };
    let found = step(&points.iter().map(rung).collect::<Vec<Rung>>());
    let above = |step: &Step| points.partition_point(|point| point.bytes < step.high);
    let knee = found.filter(|step| {
        let away: Vec<f64> = points[above(step)..].iter().map(Point::away).collect();
        median(&away).unwrap_or(0.0) > MISSED
    });
    let fits =
        |point: &&Point| point.is_cached() && knee.is_none_or(|knee: Step| point.bytes <= knee.low);
    let largest = points.iter().take_while(fits).last();
    let cached = largest.map(|largest| DerivedValue {
        // Between it and the smallest above the knee lies what would just fit.
        cell: knee.map(|knee| (largest.bytes, knee.high)),
        notes: match knee {
            Some(_) => Vec::new(),
            None => vec![no_knee(largest.bytes, found.is_some())],
        },
        ..of("cached", largest.bytes)
    });
    let mut all: Vec<DerivedValue> = cached.into_iter().collect();
    let Some(knee) = knee else {
        return all;
    };
    let above = &points[above(&knee)..];
    let position = |metric, scaled: &dyn Fn(f64) -> f64| DerivedValue {
        cell: Some((scaled(knee.low), scaled(knee.high))),
        ..of(metric, scaled(f64::midpoint(knee.low, knee.high)))
    };
    let memory = site.host.memory_ceiling_bytes();
    let (limit_bytes, available) = match limit {
        Limit::Group(bytes) => (Some(bytes), memory),
        Limit::Memory => (memory, None),
    };
    all.push(with_surroundings(&knee, above, position("knee", &|bytes| bytes)));
    if let Some(limit) = limit_bytes.map(|bytes| bytes as f64) {
        all.push(position("knee_over_limit", &|bytes| bytes / limit));
        all.extend(available.map(|available| {
            let scale = available as f64 / limit;
            let estimate = position("machine_estimate", &|bytes| bytes * scale);
            estimated(site, available, estimate)
        }));
    }
    // Data that was read ahead twice counts once. Without a count there is no rate.
    let rates = above.iter().filter_map(|point| Some(point.bytes_per_s * point.missed?.min(1.0)));
    if let Some(rate) = median(&rates.collect::<Vec<f64>>()) {
        all.push(of("rate_above", rate));
        all.extend(read.map(|read| of("rate_over_read", rate / (read * 1e9))));
    }
    all
}

/// Why the largest size that was cached has no knee above it.
fn no_knee(largest_bytes: f64, is_step: bool) -> String {
    if is_step {
        return "the time rises although no data came from the device, so this is not the cache's \
                knee"
            .to_owned();
    }
    let most = render(largest_bytes, Unit::B);
    format!("the knee is above {most}, the largest size measured")
}

/// The knee with what stands beside it.
fn with_surroundings(knee: &Step, above: &[Point], mut position: DerivedValue) -> DerivedValue {
    position.at.put("largest_below", knee.low as u64);
    position.at.put("smallest_above", knee.high as u64);
    position.notes.push(format!(
        "between {} and {}: the time per block rises from {} to {}",
        render(knee.low, Unit::B),
        render(knee.high, Unit::B),
        render(knee.below, Unit::Ns),
        render(knee.above, Unit::Ns)
    ));
    let is_partly = |point: &&Point| point.missed.is_some_and(|share| share < 0.9);
    let partly = above.iter().filter(is_partly).count();
    if partly > 0 {
        position.notes.push(format!(
            "at {partly} sizes above the knee part of the file stayed in memory: this kernel does \
             not evict the oldest page first"
        ));
    }
    position
}

/// What the knee of a group says of the machine: the same share of the available memory, as far from
/// it as the law allows.
fn estimated(site: &Site, available_bytes: u64, mut estimate: DerivedValue) -> DerivedValue {
    let Range { low, likely, high } = knee_in_memory(site, available_bytes as f64).range;
    estimate.cell = estimate.cell.map(|cell| (cell.0 * low / likely, cell.1 * high / likely));
    let share = digits(100.0 * estimate.value / available_bytes as f64);
    let available = render(available_bytes as f64, Unit::B);
    estimate.at.put("available_bytes", available_bytes);
    estimate.notes.push(format!(
        "an estimate: files got {share} % of the group's limit; {available} of memory are \
         available (MemAvailable, or what a limit of plumb's own group leaves)"
    ));
    estimate
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
    let is_time = ["latency_per_block", "latency_per_byte", "bandwidth"].contains(&metric);
    if facts.known.is_some() && !(is_time && is_known(facts)) {
        return None;
    }
    let swept = Read {
        // A case of another machine's sheet is not resolved, but its size follows from its limit.
        bytes: at.int("bytes").or_else(|| id.bytes()).map(|bytes| bytes as f64),
        knee: knee(facts, id.limit, at.int("limit_bytes")).1,
        // Others' files are counted with this one.
        has_company: id.limit == Limit::Memory,
    };
    if metric == "file" && swept.bytes.is_none() && swept.knee.range.high <= 0.0 {
        let why = "unknown: the bisection converges to the knee, and the limit is unknown";
        return Some(unknown(why));
    }
    let law = match metric {
        "latency_per_block" => swept.block(facts),
        "latency_per_byte" => swept.block(facts).times(1.0 / BLOCK_BYTES),
        "bandwidth" => swept.block(facts).inverse(BLOCK_BYTES * 1e9),
        _ => swept.counted(metric),
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
            .with_range(range(0.8 * low, 0.98 * likely, high))
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
    let most = (metric == "cached").then_some(limit_bytes);
    Some(Prediction { most, ..law.prediction() })
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
                miss.with_range(range(low, likely, high)).and(why)
            }
            Side::Unsure => {
                let likely = if self.is_likely_above() { likely } else { hit.range.likely };
                let of = range(hit.range.low, likely, high);
                miss.with_range(of).and("near the knee: cached or not")
            }
        }
    }

    /// What is counted of a size: all of it follows from the knee, but a size that is planned.
    fn counted(&self, metric: &str) -> Law {
        let Range { low, likely, high } = self.knee.range;
        let share = |cached: f64| (1.0 / self.over(cached)).min(1.0);
        let (low, likely, high, why) = match (metric, self.side(), self.bytes) {
            ("residency", Side::Below, _) => (0.97, 1.0, 1.0, "the file fits"),
            ("residency", ..) => {
                let why = "the part that stays in memory, divided by the size";
                (0.8 * share(low), share(likely), share(high), why)
            }
            ("missed", Side::Below, _) => (0.0, 0.0, 0.02, "the file fits"),
            ("missed", side, _) => {
                let kept = KEPT.max(1.0 / self.over(high));
                let least = if side == Side::Above { 1.0 - kept } else { 0.0 };
                let likely = if self.is_likely_above() { 1.0 } else { 0.0 };
                let why =
                    "the kernel evicts the oldest page first, which is the next one to be read";
                (least, likely, 1.1, why)
            }
            ("cache_growth", side, bytes) => {
                let (low, likely, high) = match (side, bytes) {
                    (_, None) => (0.8 * low, 0.98 * likely, 1.02 * high),
                    (Side::Below, Some(bytes)) => (0.95 * bytes, bytes, 1.06 * bytes),
                    (_, Some(bytes)) => {
                        (0.8 * low.min(bytes), likely.min(bytes), 1.02 * high.min(bytes))
                    }
                };
                let company =
                    if self.has_company { (COMPANY.0 * likely).min(COMPANY.1) } else { 0.0 };
                (low - company, likely, high + company, "the file's pages in memory")
            }
            (.., Some(bytes)) => return Law::new(bytes, bytes, bytes, "as planned"),
            (.., None) => (0.75 * low, likely, 1.25 * high, "the bisection converges to the knee"),
        };
        Law::new(low, likely, high, why).with(&self.knee)
    }
}
