//! Finds where a rate has settled, from a log of moments and counts: bytes of a stream, operations
//! of a device.

use super::quantile::{median, robust_deviation};
use super::trend;
use record::event::Samples;
use serde::{Deserialize, Serialize};

/// Blocks of the window that is aimed at: short ones find a burst at the beginning.
pub const BLOCKS: u64 = 32;
/// A steady part has so many blocks at least.
const BLOCKS_MIN: usize = 8;
/// Silences are those of a limit where there are so many, and they end in the last quarter too.
const TURNS_MIN: usize = 3;
/// Fewer silences may still be a limit's where they take more than one part in so many of the time.
const SILENT_PART: u64 = 8;
/// A last turn of so many times the median turn is one of turns that grow.
const GROWN: f64 = 1.5;
/// A leading block is not part of the steady phase while it is farther from the level of the second
/// half than this share and this multiple of that half's scatter.
const NEAR: f64 = 0.02;
const SCATTERS: f64 = 4.0;
/// A rest whose beginning and end differ by more than this share, and by so many times what
/// neighbours differ by, still grows or falls.
const LEVEL: f64 = 0.1;

/// The part of a window in which the rate was steady; counts have the log's unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Length of the window, in ns.
    pub window_ns: f64,
    /// A second's count in it, by stream.
    pub streams: Vec<f64>,
    /// A second's count in the best of its blocks, all streams together.
    pub best: f64,
    pub blocks: u64,
    /// Length of each, in ns.
    pub block_ns: f64,
    /// Time before it that was discarded, in ns.
    pub discarded_ns: f64,
    /// A second's count in that time, all streams together; 0 where none was discarded.
    pub discarded: f64,
    pub settled: bool,
}

impl Steady {
    /// A second's count of all streams together.
    pub fn rate(&self) -> f64 {
        self.streams.iter().sum()
    }

    /// Records beside a rate which part of its window it covers, and what was cut off; a count has
    /// `each` bytes.
    pub fn describe(&self, samples: &mut Samples, each: f64) {
        samples.set_quantities([
            ("window_ns", self.window_ns),
            ("discarded_ns", self.discarded_ns),
            ("discarded_b_per_s", self.discarded * each),
            ("blocks", self.blocks as f64),
            ("block_ns", self.block_ns),
        ]);
        if !self.settled {
            samples.notes.push(format!(
                "the rate had not settled after {:.2} s; the second half is reported",
                (self.discarded_ns + self.window_ns) / 1e9
            ));
        } else if self.discarded_ns > 0.0 {
            samples.notes.push(format!(
                "left out: the first {:.0} ms, with {:.3e} B/s",
                self.discarded_ns / 1e6,
                self.discarded * each
            ));
        }
    }
}

/// What one stream's counter wrote down: moments (in ns since a beginning that all streams share)
/// with the count by then.
#[derive(Clone, Debug, Default)]
pub struct Log {
    points: Vec<(u64, u64)>,
}

impl Log {
    pub fn with_room(points: usize) -> Log {
        // Written now, so that no page of it is touched first inside of a window.
        let mut points = vec![(u64::MAX, u64::MAX); points];
        points.clear();
        Log { points }
    }

    /// Adds a moment, later than the last.
    pub fn push(&mut self, ns: u64, count: u64) {
        self.points.push((ns, count));
    }

    /// Adds a moment, unless it is less than `apart_ns` after the last.
    pub fn push_apart(&mut self, ns: u64, count: u64, apart_ns: u64) {
        if self.points.is_empty() || ns >= self.last_ns() + apart_ns {
            self.push(ns, count);
        }
    }

    /// Its last moment; 0 where it has none.
    pub fn last_ns(&self) -> u64 {
        self.points.last().map_or(0, |(ns, _)| *ns)
    }

    /// Some limits let a slice through at once, and then nothing for `silence_ns` or longer. The
    /// log of such a limit is reduced to its beginning and the moments at which silences ended:
    /// whole turns have a rate, a part of a turn has not. `None` while silences take much of the
    /// time but there are too few turns.
    pub fn of_whole_turns(&self, silence_ns: u64) -> Option<Log> {
        let turns = self.turns(silence_ns);
        let is_most = 4 * turns.length_ns() >= 3 * self.length_ns();
        match turns.points.len() > TURNS_MIN && is_most {
            true => Some(turns),
            false => (!self.is_silent(silence_ns)).then(|| self.clone()),
        }
    }

    /// Whether turns still become longer, as while a program reads further and further ahead of
    /// itself.
    pub fn has_growing_turns(&self, silence_ns: u64) -> bool {
        let turns = self.turns(silence_ns);
        let pairs = turns.points.windows(2);
        let lengths: Vec<f64> = pairs.map(|pair| (pair[1].0 - pair[0].0) as f64).collect();
        let middle = median(&lengths).unwrap_or(f64::INFINITY);
        self.is_silent(silence_ns) && lengths.last().is_some_and(|last| *last > GROWN * middle)
    }

    pub fn is_silent(&self, silence_ns: u64) -> bool {
        let lengths = self.silences(silence_ns).map(|pair| pair[1].0 - pair[0].0);
        SILENT_PART * lengths.sum::<u64>() >= self.length_ns()
    }

    fn turns(&self, silence_ns: u64) -> Log {
        let first = self.points.first().copied().into_iter();
        Log { points: first.chain(self.silences(silence_ns).map(|pair| pair[1])).collect() }
    }

    fn silences(&self, silence_ns: u64) -> impl Iterator<Item = &[(u64, u64)]> {
        let pairs = self.points.windows(2);
        pairs.filter(move |pair| pair[1].0 - pair[0].0 >= silence_ns)
    }

    fn length_ns(&self) -> u64 {
        self.last_ns() - self.points.first().map_or(0, |(ns, _)| *ns)
    }

    /// What had come by a moment: between two points in proportion.
    fn count_at(&self, ns: f64) -> f64 {
        let after = self.points.partition_point(|(at, _)| *at as f64 <= ns);
        match (after.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(after)) {
            (Some(&(from, count)), Some(&(to, more))) => {
                let share = (ns - from as f64) / (to - from) as f64;
                count as f64 + share * (more - count) as f64
            }
            (Some(&(_, count)), None) => count as f64,
            (None, _) => 0.0,
        }
    }
}

impl Log {
    /// Until when it tells what came, of a time that ends at `ns`: its last point, for what came
    /// since is not written down yet; all of the time where it has been silent for longer than a
    /// block.
    fn known_until(&self, ns: f64, block_ns: f64) -> f64 {
        let last = self.points.last().map_or(ns, |(at, _)| *at as f64);
        if ns - last > block_ns { ns } else { last.min(ns) }
    }
}

/// The steady part of streams up to a moment, in blocks of `block_ns`: all but what came before the
/// rate's change point. `None` while a stream has not begun, or there are too few blocks.
pub fn steady(logs: &[Log], until_ns: u64, block_ns: f64) -> Option<Steady> {
    let firsts = logs.iter().map(|log| log.points.first().map(|(ns, _)| *ns));
    let from = firsts.collect::<Option<Vec<u64>>>()?.into_iter().max()? as f64;
    let until = logs.iter().map(|log| log.known_until(until_ns as f64, block_ns));
    let until = until.fold(until_ns as f64, f64::min);
    let blocks = ((until - from) / block_ns).floor();
    if blocks < BLOCKS_MIN as f64 {
        return None;
    }
    let edge = |at: usize| from + at as f64 * block_ns;
    let all = |at: usize| -> f64 { logs.iter().map(|log| log.count_at(edge(at))).sum() };
    let counts: Vec<f64> = (0..=blocks as usize).map(all).collect();
    let rates: Vec<f64> =
        counts.windows(2).map(|pair| (pair[1] - pair[0]) * 1e9 / block_ns).collect();
    let (cold, settled) = cold(&rates);
    let (begin, end) = (edge(cold), edge(rates.len()));
    let window_ns = end - begin;
    let discarded_ns = begin - from;
    let of_stream = |log: &Log| (log.count_at(end) - log.count_at(begin)) * 1e9 / window_ns;
    Some(Steady {
        window_ns,
        streams: logs.iter().map(of_stream).collect(),
        best: rates[cold..].iter().copied().fold(0.0, f64::max),
        blocks: (rates.len() - cold) as u64,
        block_ns,
        discarded_ns,
        discarded: (counts[cold] - counts[0]) * 1e9 / discarded_ns.max(1.0),
        settled: settled && rates.len() - cold >= BLOCKS_MIN && is_level(&rates[cold..]),
    })
}

/// Whether rates neither grow nor fall from their first third to their last.
fn is_level(rates: &[f64]) -> bool {
    let third = (rates.len() / 3).max(1);
    let middle = |rates: &[f64]| median(rates).unwrap_or(0.0);
    let (first, last) = (middle(&rates[..third]), middle(&rates[rates.len() - third..]));
    let steps: Vec<f64> = rates.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let step = middle(&steps);
    // Two neighbours' scatter is in each difference.
    let scatter = robust_deviation(&steps, step) / std::f64::consts::SQRT_2;
    (last - first).abs() <= (LEVEL * middle(rates)).max(SCATTERS * scatter)
}

/// How many leading rates belong to the beginning, and whether the rest has settled; of rates that
/// have not, the first half.
fn cold(rates: &[f64]) -> (usize, bool) {
    let half = rates.len() / 2;
    let warm_up = trend::warm_up(rates);
    if !warm_up.settled {
        return (half, false);
    }
    let tail = &rates[half..];
    let level = median(tail).unwrap_or(0.0);
    let scatter = robust_deviation(tail, level);
    let near = (NEAR * level).max(SCATTERS * scatter);
    // What a shaper let through at once is one block, which is no change point; and the block in
    // which the rate changed does not belong to the rest.
    let leading = rates[warm_up.discard..=half]
        .iter()
        .take_while(|rate| (**rate - level).abs() > near)
        .count();
    (warm_up.discard + leading, level > 0.0)
}

#[cfg(test)]
mod tests {
    use super::{Log, steady};

    /// Rates in bytes per block of 1000 ns, each with two points a block, the first at `from`.
    fn log(from: u64, per_block: &[u64]) -> Log {
        let mut log = Log::default();
        let (mut ns, mut bytes) = (from, 0);
        log.push(ns, bytes);
        for rate in per_block {
            for part in [rate / 2, rate - rate / 2] {
                ns += 500;
                bytes += part;
                log.push(ns, bytes);
            }
        }
        log
    }

    #[test]
    fn a_steady_stream_counts_whole() {
        let rates: Vec<u64> = (0..32).map(|at| 100_000 + at * 7919 % 1000).collect();
        let found = steady(&[log(300, &rates)], 32_300, 1000.0).expect("settles");
        assert!(found.settled);
        assert!(found.discarded_ns <= 3000.0, "{found:?}");
        assert!((found.rate() / 1e14 * 1e3 - 1.005).abs() < 0.01, "{found:?}");
        assert!(found.best >= found.rate());
    }

    #[test]
    fn slow_start_and_a_burst_are_not_counted() {
        let mut ramp: Vec<u64> = (0..12).map(|step| 100 << step.min(9)).collect();
        ramp.extend((0..30).map(|at| 51_000 + at * 7919 % 400));
        let found = steady(&[log(0, &ramp)], 42_000, 1000.0).expect("settles");
        assert!(found.settled && found.discarded_ns >= 8000.0, "{found:?}");
        assert!((found.rate() / 51.2e9 - 1.0).abs() < 0.01, "{found:?}");
        // A shaper's bucket, and then its rate.
        let mut burst = vec![900_000];
        burst.extend((0..31).map(|at| 12_500 + at * 7919 % 60));
        let found = steady(&[log(0, &burst)], 32_000, 1000.0).expect("settles");
        assert!((found.rate() / 12.53e9 - 1.0).abs() < 0.01, "{found:?}");
        assert!(found.best < 13e9, "{found:?}");
        // What was left out has its rate.
        assert_eq!(found.discarded_ns, 1000.0);
        assert!((found.discarded / 900e9 - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn one_that_still_grows_has_not_settled() {
        let ramp: Vec<u64> = (0..32).map(|step| 1000 * (step + 1) * (step + 1)).collect();
        let found = steady(&[log(0, &ramp)], 32_000, 1000.0).expect("blocks");
        assert!(!found.settled, "{found:?}");
        assert!(found.discarded_ns <= 16_000.0);
    }

    #[test]
    fn streams_count_from_when_the_last_has_begun() {
        let rates = [10_000; 40];
        let both = [log(0, &rates), log(5_250, &rates)];
        let found = steady(&both, 37_250, 1000.0).expect("settles");
        assert_eq!(found.streams.len(), 2);
        assert!((found.rate() / 20e9 - 1.0).abs() < 1e-9, "{found:?}");
        // One that got nothing yet.
        assert_eq!(steady(&[log(0, &rates), Log::default()], 37_000, 1000.0), None);
        assert_eq!(steady(&both, 9_000, 1000.0), None, "too few blocks");
    }

    #[test]
    fn what_is_not_written_down_yet_is_no_silence() {
        // Calls of most of a block: the last one has not ended when the log is looked at.
        let mut slow = Log::default();
        (0..=40).for_each(|call| slow.push(call * 900, call * 9000));
        let found = steady(&[slow], 36_850, 1000.0).expect("settles");
        assert!((found.rate() / 10e9 - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_limit_that_lets_through_by_turns_has_the_rate_of_whole_turns() {
        // 50 at once, and then nothing until 100 blocks have passed since.
        let mut turns = Log::default();
        for count in 0..275_u64 {
            let (turn, place) = (count / 50, count % 50);
            turns.push(turn * 100_000 + place * 100, count);
        }
        let until = turns.last_ns();
        let apart = steady(std::slice::from_ref(&turns), until, 16_000.0).expect("blocks");
        assert!(apart.rate() < 450e3, "{apart:?}");
        let whole = turns.of_whole_turns(16_000).expect("five turns");
        let found = steady(std::slice::from_ref(&whole), whole.last_ns(), 16_000.0);
        let found = found.expect("blocks");
        assert!(found.settled && found.discarded_ns == 0.0, "{found:?}");
        assert!((found.rate() / 500e3 - 1.0).abs() < 1e-9, "{found:?}");
        // One silence may be the first of a limit's, if it is long.
        let mut once = Log::default();
        (0..100_u64).for_each(|count| once.push(count * 1000 + count / 50 * 50_000, count));
        assert!(once.of_whole_turns(16_000).is_none(), "half the time was silent");
        let mut long = Log::default();
        (0..1000_u64).for_each(|count| long.push(count * 1000 + count / 500 * 50_000, count));
        let same = long.of_whole_turns(16_000).expect("one short silence");
        assert_eq!(same.points, long.points);
    }

    #[test]
    fn a_stream_that_stops_is_not_steady() {
        let mut rates = vec![10_000; 10];
        rates.extend([0; 30]);
        let found = steady(&[log(0, &rates)], 40_000, 1000.0).expect("blocks");
        assert!(!found.settled, "{found:?}");
    }
}
