//! The threshold between a reading loop's own spread and interruptions, from its times alone.
//!
//! A loop that reads a clock without pause takes a nearly constant time from read to read; now and
//! then its own code, data or translations are not at hand, or the neighbour on the core takes a
//! turn; and sometimes it is interrupted, which takes far longer. In the density of the logarithms
//! of the times the last two are parted by a valley, because kinds of events differ by factors, not
//! by sums. The valley is sought where it can be: no interruption is shorter than a kernel's entry
//! and exit with a handler between, and no miss is longer than some accesses to memory in a row.

use super::quantile::quantile_of_counted;
use std::collections::BTreeMap;

/// No interruption is as short, in ns: an interrupt delivered, acknowledged and returned from takes
/// more than a thousand cycles, and this is less than any processor needs for that.
const LEAST_NS: f64 = 250.0;
/// Nothing that the loop does to itself is as long, in ns: several misses to the memory of another
/// node, one after another.
const MOST_NS: f64 = 2000.0;
/// Where reading the clock itself is slow (it traps, or it is busy), both move up with it: no
/// threshold is below so many medians, and the search goes on for a factor of so much.
const MEDIANS_MIN: f64 = 2.0;
const SPAN_MIN: f64 = 4.0;
/// A counter of coarse steps shows a time as one step less or more.
const STEPS_ABOVE_MEDIAN: u64 = 2;
/// The density at a place is taken from the distance to so many of the nearest times: narrow where
/// there are many, wide among few, so that no chance void between two of few passes for a valley.
const NEAREST: u64 = 5;
/// Thresholds tried in a factor of 2.
const PER_OCTAVE: f64 = 24.0;
/// Of two places as sparse the lower one is better: the loop's own times below it are known from
/// millions, the shortest interruption above it from few. So a place's radius counts over the root
/// of how high it lies, and the lowest is taken that comes next to the best within this factor.
const NEXT_TO_SPARSEST: f64 = 1.5;
/// Without interruptions the threshold is so many times the longest time.
const CLEAR_OF_TAIL: f64 = 1.5;
/// "Near" means within a sixth, in natural logarithms.
const NEAR: f64 = 0.15;
/// Times up to here, in ticks, are counted in an array.
const DENSE: usize = 4096;

/// How often each time from read to read was seen, in ticks; exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    short: Vec<u64>,
    long: BTreeMap<u64, u64>,
    count: u64,
}

/// A threshold and what stands on both sides of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The threshold in ticks: a time of so many or more is an interruption.
    pub ticks: u64,
    pub median_ticks: u64,
    /// The longest time below it, in ticks.
    pub own_ticks: u64,
    /// The shortest time above it, in ticks; none was seen without an interruption.
    pub shortest_ticks: Option<u64>,
    /// How many lie above it.
    pub interruptions: u64,
    /// How many lie within a sixth of it.
    pub near: u64,
    /// Why there: a sentence with figures.
    pub because: String,
}

impl Default for Times {
    fn default() -> Self {
        Times { short: vec![0; DENSE], long: BTreeMap::new(), count: 0 }
    }
}

impl Times {
    pub fn add(&mut self, ticks: u64) {
        self.count += 1;
        match self.short.get_mut(ticks as usize) {
            Some(count) => *count += 1,
            None => *self.long.entry(ticks).or_default() += 1,
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Every time that was seen and how often, ascending.
    fn seen(&self) -> impl Iterator<Item = (u64, u64)> {
        let short = self.short.iter().enumerate();
        short
            .map(|(ticks, count)| (ticks as u64, *count))
            .filter(|(_, count)| *count > 0)
            .chain(self.long.iter().map(|(ticks, count)| (*ticks, *count)))
    }

    /// The time that a share `q` of all does not exceed; none without times.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        quantile_of_counted(self.seen(), q, self.count)
    }
}

/// The threshold for a clock whose tick lasts `tick_ns`; none without times.
pub fn find(times: &Times, tick_ns: f64) -> Option<Found> {
    let median_ticks = times.quantile(0.5)?;
    let median_ns = median_ticks as f64 * tick_ns;
    let least_ns = LEAST_NS.max(MEDIANS_MIN * median_ns);
    let least = ((least_ns / tick_ns).ceil() as u64).max(median_ticks + STEPS_ABOVE_MEDIAN);
    let most = (MOST_NS / tick_ns).max(SPAN_MIN * least as f64).ceil() as u64;
    let seen: Vec<(u64, u64)> = times.seen().collect();
    let mut ticks = valley(&seen, least, most);
    let longest = seen.last().map_or(0, |(at, _)| *at);
    if longest < ticks {
        // Where nothing lies above, nothing says how wide the valley is.
        let clear = (CLEAR_OF_TAIL * longest as f64).ceil() as u64;
        ticks = ticks.min(clear).max(least);
    }

    let (below, above) = seen.split_at(seen.partition_point(|(at, _)| *at < ticks));
    let near = |at: u64| (at as f64 / ticks as f64).ln().abs() <= NEAR;
    let mut found = Found {
        ticks,
        median_ticks,
        own_ticks: below.last().map_or(0, |(at, _)| *at),
        shortest_ticks: above.first().map(|(at, _)| *at),
        interruptions: above.iter().map(|(_, count)| count).sum(),
        near: seen.iter().filter(|(at, _)| near(*at)).map(|(_, count)| count).sum(),
        because: String::new(),
    };
    found.because = found.reason(times, tick_ns, least);
    Some(found)
}

/// The lowest of the places from `least` to `most` where the times are next to the sparsest.
fn valley(seen: &[(u64, u64)], least: u64, most: u64) -> u64 {
    let steps = ((most as f64 / least as f64).log2() * PER_OCTAVE).ceil() as u32;
    let mut places: Vec<u64> = (0..=steps)
        .map(|step| {
            let at = least as f64 * (f64::from(step) / PER_OCTAVE).exp2();
            (at.round() as u64).min(most)
        })
        .collect();
    places.dedup();
    let sparse: Vec<f64> =
        places.iter().map(|at| radius(seen, *at) / (*at as f64 / least as f64).sqrt()).collect();
    let sparsest = sparse.iter().copied().fold(0.0, f64::max);
    let lowest = sparse.iter().position(|sparse| NEXT_TO_SPARSEST * sparse >= sparsest);
    lowest.map_or(least, |index| places[index])
}

/// How far from `at`, in natural logarithms, the [`NEAREST`] times reach, or all if there are
/// fewer: the inverse of their density there.
fn radius(seen: &[(u64, u64)], at: u64) -> f64 {
    // A time of no tick is of less than one.
    let distance = |ticks: u64| ((ticks as f64).max(0.5) / at as f64).ln().abs();
    let (below, above) = seen.split_at(seen.partition_point(|(ticks, _)| *ticks < at));
    let (mut below, mut above) = (below.iter().rev().peekable(), above.iter().peekable());
    let (mut reached, mut radius) = (0, 0.0);
    while reached < NEAREST {
        let next = match (below.peek(), above.peek()) {
            (Some((low, _)), Some((high, _))) if distance(*low) <= distance(*high) => below.next(),
            (Some(_), None) => below.next(),
            _ => above.next(),
        };
        let Some((ticks, count)) = next else { return radius };
        reached += count;
        radius = distance(*ticks);
    }
    radius
}

impl Found {
    fn reason(&self, times: &Times, tick_ns: f64, least: u64) -> String {
        let ns = |ticks: u64| shown(ticks as f64 * tick_ns);
        let high = times.quantile(0.999).unwrap_or(self.median_ticks);
        let own = format!(
            "{} times between two reads: median {}, 99.9 % within {}",
            times.count(),
            ns(self.median_ticks),
            ns(high)
        );
        let Some(shortest_ticks) = self.shortest_ticks else {
            let floor = if self.ticks == least {
                "the shortest possible interruption"
            } else {
                "clear of its tail"
            };
            return format!(
                "{own}, the longest {}: no interruptions, so the threshold of {} is {floor}",
                ns(self.own_ticks),
                ns(self.ticks)
            );
        };
        let near = match self.near {
            0 => "none within a sixth of the threshold".to_owned(),
            near => format!("{near} within a sixth of the threshold"),
        };
        format!(
            "{own}; they are sparse at {} ({near}), which separates the loop's own spread (up to \
             {}) from {} interruptions (from {})",
            ns(self.ticks),
            ns(self.own_ticks),
            self.interruptions,
            ns(shortest_ticks)
        )
    }
}

/// A length with three digits and its unit.
fn shown(ns: f64) -> String {
    match ns {
        _ if ns < 10.0 => format!("{ns:.1} ns"),
        _ if ns < 1e4 => format!("{ns:.0} ns"),
        _ if ns < 1e7 => format!("{:.1} µs", ns / 1e3),
        _ => format!("{:.1} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests;
