//! Windows of rates: a long one lasts until the rate of the device has settled, and a short one
//! measures a burst. A case's facts say which.

use bench::prelude::*;
use stats::steady::{BLOCKS, Log, Steady, steady};

/// A window of at least this length reports the rate of a device, or of a configured limit.
pub(super) const SETTLED_NS: u64 = 500_000_000;
/// Half a second and more by every preset, in times of a case.
pub(super) const RATE_CASES: u64 = 42;
/// What has not settled goes on up to so many times as long …
const LONGER: u64 = 4;
/// … and up to so many times where it is by turns.
const LONGER_TURNS: u64 = 8;
/// Of operations that follow each other within this part of a block the first is written down.
const APART: u64 = 256;
/// The fact of a case that holds the least length of a rate's window, in ns; absent for a burst.
const WINDOW_NS_AT: &str = "window_ns";
/// The fact of a case that says whether its rates are those of a long window or of a burst.
const WINDOW_AT: &str = "window";

/// Records the window of a case: of a rate with its least length in ns, or of a burst.
pub(super) fn put(case: &mut Case, rate_ns: Option<u64>) {
    case.at.put(WINDOW_AT, if rate_ns.is_some() { "rate" } else { "burst" });
    case.at.put_known(WINDOW_NS_AT, rate_ns);
}

/// The least length of the window of a rate, in ns; `None` for a burst.
pub(super) fn rate_ns(case: &Case) -> Option<u64> {
    case.at.get(WINDOW_NS_AT).and_then(Value::int)
}

/// The window of one thread: when its operations began, and whether another is to.
#[derive(Debug)]
pub(super) struct Window {
    log: Log,
    least_ns: u64,
    pub(super) most_ns: u64,
    block_ns: u64,
    /// Operations that begin in any case.
    at_least: u64,
    /// Operations in flight where the queue is full.
    depth: u64,
    begun: u64,
    /// When to look next whether it has settled.
    look_ns: u64,
    pub(super) is_over: bool,
}

impl Window {
    /// A window of `least_ns`, or longer until it has settled; one of several threads' (`is_alone`
    /// is false) ends with theirs.
    pub(super) fn new(least_ns: u64, at_least: u64, depth: u64, is_alone: bool) -> Window {
        let most_ns = if is_alone { LONGER_TURNS * least_ns } else { least_ns };
        let block_ns = (least_ns / BLOCKS).max(1);
        Window {
            log: Log::with_room((APART * most_ns / block_ns) as usize + 2),
            least_ns,
            most_ns,
            block_ns,
            at_least,
            depth,
            begun: 0,
            look_ns: least_ns,
            is_over: false,
        }
    }

    /// Whether another operation begins at `ns` since the window's begin. All that began before
    /// have completed by then, but as many as make the queue full with this one: what fills it
    /// counts nowhere.
    pub(super) fn begins(&mut self, ns: u64) -> bool {
        self.begun += 1;
        if let Some(done) = self.begun.checked_sub(self.depth) {
            self.log.push_apart(ns, done, self.block_ns / APART);
        }
        if ns >= self.look_ns && self.begun > self.at_least {
            self.look_ns = ns + self.block_ns;
            let has_settled = || {
                let found = self.found().filter(|found| found.settled);
                found.is_some_and(|found| found.window_ns >= self.least_ns as f64 / 2.0)
            };
            let is_long = || ns >= LONGER * self.least_ns && !self.log.is_silent(self.block_ns);
            let is_growing = || self.log.has_growing_turns(self.block_ns);
            self.is_over = ns >= self.most_ns || is_long() || (!is_growing() && has_settled());
        }
        !self.is_over
    }

    /// The part in which the rate was steady.
    fn found(&self) -> Option<Steady> {
        let log = self.log.of_whole_turns(self.block_ns)?;
        steady(std::slice::from_ref(&log), log.last_ns(), self.block_ns as f64)
    }
}

/// The steady part of the windows of all threads, in operations.
pub(super) fn settled(windows: Vec<Window>) -> Result<Steady> {
    let last_ns = windows.iter().map(|window| window.log.last_ns()).min();
    let (last_ns, first) = (last_ns.unwrap_or(0), windows.first());
    let (least_ns, block_ns) = first.map_or((0, 0), |window| (window.least_ns, window.block_ns));
    // Several begin together and look one operation apart.
    anyhow::ensure!(
        last_ns + block_ns >= least_ns,
        "the file or the write budget was used up after {:.3} s, and a rate needs {:.1} s; use \
         --dir DIR with more space, or a shorter --set fs.io.window for a burst",
        last_ns as f64 / 1e9,
        least_ns as f64 / 1e9
    );
    let turns = windows.iter().map(|window| window.log.of_whole_turns(block_ns));
    let turns: Option<Vec<Log>> = turns.collect();
    let is_clear = turns.is_some();
    let logs = turns.unwrap_or_else(|| windows.into_iter().map(|window| window.log).collect());
    let until_ns = logs.iter().map(Log::last_ns).min().unwrap_or(0);
    let mut found = steady(&logs, until_ns, block_ns as f64)
        .ok_or_else(|| anyhow::anyhow!("too few operations for a rate"))?;
    found.settled &= is_clear;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Window, put, rate_ns, settled};
    use bench::prelude::*;
    use record::event::{Raw, Samples};

    const MS: u64 = 1_000_000;

    /// Plays a device that takes `burst` operations at once and then one every `each_ns`.
    fn played(mut window: Window, burst: u64, each_ns: u64) -> Window {
        let mut at = |index: u64| {
            let ns = index * 1000 + index.saturating_sub(burst) * each_ns;
            window.begins(ns)
        };
        assert!((0..1_000_000).any(|index| !at(index)));
        window
    }

    #[test]
    fn a_limit_is_read_at_its_rate_whatever_went_through_before() {
        for (burst, depth) in [(0, 1), (100, 1), (100, 32)] {
            let window = Window::new(500 * MS, 8, depth, true);
            let found = settled(vec![played(window, burst, 2 * MS)]).expect("long enough");
            assert!(found.settled, "{found:?}");
            let expected = 1e9 / (2e6 + 1e3);
            let ratio = found.rate() / expected;
            assert!((ratio - 1.0).abs() < 0.02, "{burst} {depth}: {ratio}");
            assert_eq!(burst > depth, found.discarded > 2.0 * expected, "{found:?}");
        }
    }

    #[test]
    fn a_rate_that_changes_late_is_waited_for() {
        let mut window = Window::new(500 * MS, 8, 1, true);
        // A bucket that lasts for 0.4 s.
        let mut ns = 0;
        while window.begins(ns) {
            ns += if ns < 400 * MS { MS / 10 } else { MS };
        }
        assert!(ns > 700 * MS && ns < 2000 * MS, "{ns}");
        let found = settled(vec![window]).expect("long enough");
        assert!((found.rate() / 1000.0 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_limit_that_lets_through_by_turns_is_read_at_its_rate() {
        for (through, depth) in [(50, 1), (50, 32), (500, 32)] {
            let mut window = Window::new(504 * MS, 8, depth, true);
            let begin = |index: u64| index / through * 100 * MS + index % through * MS / 100;
            assert!((0..1_000_000).any(|index| !window.begins(begin(index))));
            let found = settled(vec![window]).expect("long enough");
            let ratio = found.rate() / (10.0 * through as f64);
            assert!(found.settled && (ratio - 1.0).abs() < 0.01, "{through} {depth}: {ratio}");
        }
    }

    #[test]
    fn turns_that_grow_are_waited_for() {
        // Read-ahead below a limit of 2048 blocks in 0.4 s: milliseconds and blocks by then, as
        // seen.
        let ramp = [
            (161, 321),
            (213, 769),
            (317, 1025),
            (422, 1537),
            (635, 2049),
            (842, 3073),
            (1292, 4097),
        ];
        let later = (0..20).map(|turn| (1707 + 415 * turn, 6145 + 2048 * turn));
        let mut window = Window::new(504 * MS, 8, 1, true);
        let mut done = u64::from(window.begins(0));
        for (ms, blocks) in ramp.into_iter().chain(later) {
            if !(done..blocks).all(|block| window.begins(ms * MS + (block - done) * 1000)) {
                break;
            }
            done = blocks;
        }
        let found = settled(vec![window]).expect("long enough");
        let ratio = found.rate() / (2048.0 / 0.415);
        assert!(found.settled && (ratio - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn operations_that_are_longer_than_a_block_have_a_rate() {
        let window = played(Window::new(500 * MS, 8, 1, true), 0, 50 * MS);
        let found = settled(vec![window]).expect("long enough");
        assert!((found.rate() / 20.0 - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn what_ends_too_early_is_no_rate() {
        let mut window = Window::new(500 * MS, 8, 1, true);
        assert!((0..100).all(|index| window.begins(index * MS)));
        let error = settled(vec![window]).expect_err("a fifth of it");
        assert!(error.to_string().contains("used up"), "{error}");
    }

    #[test]
    fn a_case_says_whether_its_window_is_that_of_a_rate() {
        for (window_ns, kind) in [(None, "burst"), (Some(500 * MS), "rate")] {
            let mut case = Case::new(CaseId::new());
            put(&mut case, window_ns);
            assert_eq!(case.at.get("window").and_then(Value::text), Some(kind));
            assert_eq!(rate_ns(&case), window_ns);
        }
    }

    #[test]
    fn what_was_cut_off_stands_beside_the_rate_in_bytes() {
        let window = played(Window::new(500 * MS, 8, 1, true), 100, 2 * MS);
        let found = settled(vec![window]).expect("long enough");
        let values = vec![found.rate()];
        let raw = Raw::Batch { k: 0, values };
        let mut samples = Samples::new("fs.io", 1, CaseId::new(), "iops", raw);
        found.describe(&mut samples, 4096.0);
        let of = |name: &str| samples.quantities[name];
        assert!(of("discarded_b_per_s") > 4096.0 * 1000.0 && of("discarded_ns") > 0.0);
        assert!(of("window_ns") >= 250e6);
        assert_eq!(samples.notes.len(), 1);
    }
}
