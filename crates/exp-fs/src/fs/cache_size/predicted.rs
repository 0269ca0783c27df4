//! What the cases should come to.

use super::{Found, Limit};
use bench::experiment::contract::Facts;
use bench::experiment::unknown;
use laws::fs::cache_size::{hit, is_known, knee_in_group, knee_in_memory, miss, rate};
use laws::fs::{BLOCK_BYTES, measured_stream};
use laws::{Law, range};
use record::case::Case;
use record::event::{Prediction, Range};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Above,
    Unsure,
}

/// Share of what is read in order that a kernel with another order than the oldest first may keep.
const KEPT: f64 = 0.8;
/// What other processes' files may come and go by while one is read, as a share of its size and at
/// most in bytes.
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

pub(super) fn measured(facts: Facts, limit: Limit, at: &Case, metric: &str) -> Option<Prediction> {
    let is_time = ["latency_per_block", "latency_per_byte", "bandwidth"].contains(&metric);
    if facts.known.is_some() && !(is_time && is_known(facts)) {
        return None;
    }
    let swept = Read {
        bytes: at.int("bytes").map(|bytes| bytes as f64),
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
