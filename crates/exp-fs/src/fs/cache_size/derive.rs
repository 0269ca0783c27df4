//! What the sizes say together.

use super::{ID, Limit, Swept};
use bench::experiment::contract::Facts;
use bench::experiment::{DerivedValue, Fields, Known, Site};
use laws::fs::cache_size::knee_in_memory;
use laws::fs::measured_stream;
use record::event::Range;
use record::key::CaseId;
use record::quantity::{digits, render};
use record::unit::Unit;
use stats::ladder::Rung;
use stats::quantile::median;
use stats::step::{Step, step};
use std::collections::{BTreeMap, BTreeSet};

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
    let limits: BTreeSet<Limit> = cases.map(|case| case.limit).collect();
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
    points.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
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
    position.at = BTreeMap::from([
        ("largest_below".to_owned(), (knee.low as u64).into()),
        ("smallest_above".to_owned(), (knee.high as u64).into()),
    ]);
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
        at: BTreeMap::from([("available_bytes".to_owned(), available_bytes.into())]),
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
