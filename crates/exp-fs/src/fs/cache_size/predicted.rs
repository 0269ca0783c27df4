//! What the cases should come to.

use super::sizes::{LARGEST, Limit};
use crate::fs::file;
use bench::experiment::{Known, Site, predicted, unknown};
use host::block::Disk;
use laws::Law;
use laws::fs::cache_size::{
    BLOCK_BYTES, hit, knee_in_group, knee_in_memory, measured_read, miss, rate,
};
use laws::memory::fault::measured_copy;
use laws::os::measured_call;
use record::case::Case;
use record::event::{Prediction, Range};
use record::metric::Metric;
use record::quantity::render;
use record::unit::Unit;

/// On which side of the knee a size lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Above,
    Unsure,
}

/// Share of what is read in order that a kernel with another order than the oldest first may keep.
const KEPT: f64 = 0.8;

/// The prediction of a metric of a case.
pub(super) fn predict(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &Metric,
) -> Option<Prediction> {
    let limit = Limit::of(&case.id)?;
    if let Some(known) = known
        && !adds(known, metric)
    {
        return None;
    }
    let limit_bytes = limit_bytes(site, case, limit);
    let knee = match limit {
        Limit::Group(bytes) => knee_in_group(bytes as f64),
        Limit::Memory => knee_in_memory(site, limit_bytes),
    };
    let disk = site.dir.as_ref();
    let disk = disk.and_then(|dir| file::ground(site, &dir.path).disk);
    if metric.derived && case.text("size") == Some(LARGEST) {
        // Of a file that does not reach the limit nothing else is found.
        return (known.is_none() && metric.name == "cached").then(|| {
            unknown("the largest size that time and directory allow; the knee lies above, and is not sought")
        });
    }
    if metric.derived {
        return derived(site, known, limit_bytes, &knee, disk, metric);
    }
    let law = FileRead {
        has_company: limit == Limit::Memory,
        bytes: case.int("bytes").map(|bytes| bytes as f64),
        knee: &knee,
    };
    Some(match metric.name.as_ref() {
        "latency_per_block" => law.block(site, known, disk).prediction(),
        "latency_per_byte" => scaled(law.block(site, known, disk), |ns| ns / BLOCK_BYTES),
        "bandwidth" => {
            let block = law.block(site, known, disk);
            let of = |ns: f64| BLOCK_BYTES / ns * 1e9;
            let range = block.range;
            predicted(of(range.high), of(range.likely), of(range.low), block.because())
        }
        "residency" => law.residency(),
        "missed" => law.missed(),
        "cache_growth" => law.growth(),
        "file" => law.file(),
        _ => return None,
    })
}

/// Whether earlier figures say more of a metric than the prior did.
fn adds(known: &Known, metric: &Metric) -> bool {
    match metric.name.as_ref() {
        "latency_per_block" | "latency_per_byte" | "bandwidth" => {
            measured_read(known).is_some()
                || measured_copy(known).is_some()
                || measured_call(known, "pread_cached").is_some()
        }
        "rate_above" => measured_read(known).is_some(),
        _ => false,
    }
}

/// The limit of a measured case stands in it.
fn limit_bytes(site: &Site, case: &Case, limit: Limit) -> f64 {
    let bytes = match limit {
        Limit::Group(bytes) => Some(bytes),
        Limit::Memory => case.int("limit_bytes").or_else(|| site.host.memory_ceiling_bytes()),
    };
    bytes.unwrap_or(site.memory_bytes) as f64
}

fn scaled(estimate: Law, of: impl Fn(f64) -> f64) -> Prediction {
    let Range { low, likely, high } = estimate.range;
    predicted(of(low), of(likely), of(high), estimate.because())
}

fn derived(
    site: &Site,
    known: Option<&Known>,
    limit_bytes: f64,
    knee: &Law,
    disk: Option<&Disk>,
    metric: &Metric,
) -> Option<Prediction> {
    let Range { low, likely, high } = knee.range;
    let because = &knee.because();
    Some(match metric.name.as_ref() {
        "knee" => knee.clone().prediction(),
        "knee_over_limit" => scaled(knee.clone(), |bytes| bytes / limit_bytes),
        "cached" => predicted(
            0.8 * low,
            0.98 * likely,
            high,
            format!("the largest size measured below the knee; {because}"),
        ),
        "rate_above" => {
            let (rate, from) = rate(site, known, disk);
            let per_s = |rate: f64| rate * 1e9;
            predicted(
                per_s(rate.low),
                per_s(rate.likely),
                per_s(rate.high),
                format!(
                    "base hardware: {from}; software: all of it comes from there, with readahead"
                ),
            )
        }
        "rate_over_read" => predicted(
            0.5,
            1.0,
            1.8,
            "base hardware: the same device; software: the same way through the page cache, another file, \
             pages that make room for each other",
        ),
        _ => return None,
    })
}

struct FileRead<'knee> {
    /// `None` for a step of the bisection.
    bytes: Option<f64>,
    knee: &'knee Law,
    /// Whether others' files are counted with this one.
    has_company: bool,
}

/// What other processes' files may come and go by while one is read, as a share of its size and at most
/// in bytes.
const COMPANY: (f64, f64) = (0.6, 1e9);

impl FileRead<'_> {
    fn side(&self) -> Side {
        let Range { low, high, .. } = self.knee.range;
        match self.bytes {
            Some(bytes) if bytes <= low => Side::Below,
            Some(bytes) if bytes > high => Side::Above,
            _ => Side::Unsure,
        }
    }

    /// The size over what stays in memory, of which the most likely is taken.
    fn over(&self, cached: f64) -> f64 {
        self.bytes.map_or(1.0, |bytes| bytes / cached)
    }

    fn is_likely_above(&self) -> bool {
        self.over(self.knee.range.likely) > 1.0
    }

    fn block(&self, site: &Site, known: Option<&Known>, disk: Option<&Disk>) -> Law {
        let (hit, miss) = (hit(site, known), miss(site, known, disk));
        match self.side() {
            Side::Below => hit.and("the file fits, so all of it is in memory"),
            Side::Above => {
                // What a kernel may keep all the same.
                let least = (1.0 - KEPT / self.over(self.knee.range.high)).clamp(0.2, 1.0);
                let mut estimate = miss.and(
                    "read in order again and again a file that does not fit has left when its turn comes",
                );
                estimate.range.low = hit.range.low + least * estimate.range.low;
                estimate.range.low = estimate.range.low.min(estimate.range.likely);
                estimate
            }
            Side::Unsure => {
                let likely = match self.is_likely_above() {
                    true => miss.range.likely,
                    false => hit.range.likely,
                };
                Law::new(
                    hit.range.low,
                    likely,
                    miss.range.high,
                    format!(
                        "the knee is near: cached ({}), or not ({})",
                        hit.because(),
                        miss.because()
                    ),
                )
            }
        }
    }

    fn residency(&self) -> Prediction {
        let Range { low, likely, high } = self.knee.range;
        let share = |cached: f64| (1.0 / self.over(cached)).min(1.0);
        match self.side() {
            Side::Below => predicted(0.97, 1.0, 1.0, format!("it fits; {}", self.knee.because())),
            _ => predicted(
                0.8 * share(low),
                share(likely),
                share(high),
                format!("what stays in memory over the size; {}", self.knee.because()),
            ),
        }
    }

    fn missed(&self) -> Prediction {
        let because = &self.knee.because();
        match self.side() {
            Side::Below => predicted(0.0, 0.0, 0.02, format!("it fits; {because}")),
            side => {
                let least = match side {
                    Side::Above => 1.0 - KEPT.max(1.0 / self.over(self.knee.range.high)),
                    _ => 0.0,
                };
                let likely = if self.is_likely_above() { 1.0 } else { 0.0 };
                predicted(
                    least,
                    likely,
                    1.1,
                    format!(
                        "software: the oldest page goes first, which is the one that is read next; {because}"
                    ),
                )
            }
        }
    }

    fn growth(&self) -> Prediction {
        let Range { low, likely, high } = self.knee.range;
        let because = format!("the file's pages in memory; {}", self.knee.because());
        let own = match (self.side(), self.bytes) {
            (_, None) => (0.8 * low, 0.98 * likely, 1.02 * high),
            (Side::Below, Some(bytes)) => (0.95 * bytes, bytes, 1.06 * bytes),
            (_, Some(bytes)) => (0.8 * low.min(bytes), likely.min(bytes), 1.02 * high.min(bytes)),
        };
        let company = match self.has_company {
            true => (COMPANY.0 * own.1).min(COMPANY.1),
            false => 0.0,
        };
        predicted(own.0 - company, own.1, own.2 + company, because)
    }

    fn file(&self) -> Prediction {
        let Range { low, likely, high } = self.knee.range;
        match self.bytes {
            Some(bytes) => {
                predicted(bytes, bytes, bytes, format!("as planned: {}", render(bytes, Unit::B)))
            }
            None if high > 0.0 => predicted(
                0.75 * low,
                likely,
                1.25 * high,
                format!("the bisection goes to the knee; {}", self.knee.because()),
            ),
            None => unknown("the bisection goes where the knee is, and no limit is known"),
        }
    }
}
