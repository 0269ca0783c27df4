//! Which cases yield a rate, and how much those that write need for it.

use super::chosen;
use super::workloads::{KIB, MIB, one, ring};
use crate::fs::window::{self, RATE_CASES, SETTLED_NS};
use bench::device;
use bench::experiment::contract::Facts;
use bench::experiment::{Params, Preset, Site};
use laws::fs::Pattern;
use laws::fs::io::{self as law, Mode, Op, Request, Work};
use record::case::Case;
use record::key::Value;

/// A device may write so many times as fast as is likely of it.
const FASTER: f64 = 2.0;
/// What of a case holds the bytes that it may write in a round, where its figures are rates.
const WRITTEN_AT: &str = "written_bytes";

/// Cases whose figures are the device's or its limit's: the longest blocks in order, and the smallest at random
/// by the depth of the queue. Of those that write, thorough alone has the time and asks for the room.
pub(super) const KEYS: [Work; 5] = [
    one(Op::Read, Pattern::Sequential, Mode::Direct, MIB),
    one(Op::Read, Pattern::Random, Mode::Direct, 4 * KIB),
    ring(Op::Read, Pattern::Random, 4 * KIB, 32),
    ring(Op::Read, Pattern::Random, 4 * KIB, 128),
    one(Op::Write, Pattern::Sequential, Mode::Direct, MIB),
];

/// A case's window where that is as long as a rate asks for, in ns.
fn window_ns(site: &Site, params: &Params, work: Work) -> Option<u64> {
    // What is in memory, or goes there first, and what comes once has no rate of a device.
    if matches!(work.mode, Mode::Buffered | Mode::Cold) {
        return None;
    }
    if let Some(window) = chosen(params, "window") {
        return (window >= SETTLED_NS).then_some(window);
    }
    let is_key = KEYS.contains(&work) && (work.is_read() || params.preset == Preset::Thorough);
    is_key.then_some(RATE_CASES * site.case_ns)
}

/// Puts into a case what makes its figures rates, where they are.
pub(super) fn put(site: &Site, params: &Params, work: Work, case: &mut Case) {
    let rate_ns = window_ns(site, params, work);
    window::put(case, rate_ns);
    if let Some(window_ns) = rate_ns.filter(|_| !work.is_read()) {
        let bytes = chosen(params, "written").unwrap_or_else(|| {
            let likely = law::predict(Facts::prior(site), Request::of(&work, case), "bandwidth");
            let likely = likely.map_or(0.0, |law| law.range.likely);
            device::coarse((FASTER * likely * window_ns as f64 / 1e9) as u64)
        });
        case.at.insert(WRITTEN_AT.to_owned(), bytes.into());
    }
}

/// Bytes that a case writes in a round at most, where its least operations are fewer: so many as its
/// window needs where it yields a rate, else as any.
pub(super) fn written(case: &Case, each: u64) -> u64 {
    let of_rate = case.at.get(WRITTEN_AT).and_then(Value::int);
    of_rate.unwrap_or(each)
}

/// What makes the bytes fewer that a case writes in a run.
pub(super) fn fewer_bytes(case: &Case) -> &'static str {
    match case.at.contains_key(WRITTEN_AT) {
        true => "window=18ms, which tells a burst",
        false => "size=SIZE, or fewer cases",
    }
}
