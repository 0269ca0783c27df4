//! The raw list of gaps, the timeline, the table of periods and the causes of a round.

use super::super::attribution::Level;
use super::super::moved::{self, Names};
use super::seen::Seen;
use super::shares::{self, name, state};
use bench::measure::raw_ns;
use bench::prelude::*;

/// The state in which the loop runs.
const RUNNING: &str = "running";

/// Rows of a list of gaps in the first round (a megabyte) and in each other one.
const ROWS_FIRST: usize = 50_000;
const ROWS: usize = 4_000;

pub(super) fn write(
    bench: &mut Bench,
    case: &Case,
    plain: &Seen,
    traced: Option<&Seen>,
    samples: usize,
    core_hz: Option<f64>,
) -> Result<()> {
    gaps(bench, case, "gaps", plain)?;
    if let Some(traced) = traced {
        gaps(bench, case, "gaps_traced", traced)?;
    }
    let shown = shown(plain, traced);
    timeline(bench, case, shown, samples)?;
    periods(bench, case, shown, samples, core_hz)?;
    causes(bench, case, traced.unwrap_or(plain))?;
    moved::write(bench, case, &plain.evidence, false)
}

/// The window of picture and table: the one in which causes are known by time, if there is one.
fn shown<'seen>(plain: &'seen Seen, traced: Option<&'seen Seen>) -> &'seen Seen {
    let by_time = traced.filter(|traced| traced.evidence.level == Level::Tracepoints);
    by_time.unwrap_or(plain)
}

/// What a reader must know of the picture and the table.
pub(super) fn told(plain: &Seen, traced: Option<&Seen>) -> &'static str {
    if std::ptr::eq(shown(plain, traced), plain) {
        "plot and table show the window without recording; its causes are matched by their \
             counts"
    } else {
        "plot and table show the second window, with recorded tracepoints: its causes are \
             matched by time, and its lengths include the cost of recording; the list `gaps` is \
             from the first window"
    }
}

/// A time to 0.1 ns, less than any counter's tick.
fn tenth(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

/// Where the windows of the lists of gaps lie in time, by name: so that what others saw meanwhile
/// can be laid beside them (`scripts/agree/noise`).
pub(super) fn places(plain: &Seen, traced: Option<&Seen>) -> Vec<(String, f64)> {
    let windows = [("gaps", Some(plain)), ("gaps_traced", traced)];
    let mut named = Vec::new();
    for (kind, seen) in windows {
        let Some((seen, first, last)) = seen.and_then(|seen| {
            let segments = &seen.traced.segments;
            Some((seen, segments.first()?.0, segments.last()?.1))
        }) else {
            continue;
        };
        named.push((format!("{kind}_begin_raw_ns"), raw_ns(seen.clock, first)));
        let window_ns = seen.clock.between_ns(first, last);
        named.push((format!("{kind}_window_ns"), window_ns));
    }
    named
}

/// The gaps: when, how long, whose.
fn gaps(bench: &mut Bench, case: &Case, kind: &str, seen: &Seen) -> Result<()> {
    let most = match bench.order().round {
        0 | 1 => ROWS_FIRST,
        _ => ROWS,
    };
    let mut names = Names::default();
    let held = seen.attributed.len();
    let mut rows = Vec::with_capacity(held.min(most));
    for (gap, attributed) in seen.attributed.iter().enumerate().take(most) {
        let whose = names.number(&name(attributed));
        let (start_ns, length_ns) = (seen.starts_ns[gap], seen.lengths_ns[gap]);
        rows.push(vec![tenth(start_ns), tenth(length_ns), whose]);
    }
    let listed = rows.len();
    let columns = ["start_ns", "length_ns", "cause"];
    let trace = bench.trace(case, kind, &columns, rows)?;
    trace.dropped += seen.traced.dropped + (held - listed) as u64;
    trace.names.put("cause", names.0);
    Ok(())
}

/// What the picture of a first round shows at least, where it has room: R4's time.
const PICTURE_NS: f64 = 120e6;
/// Periods that it has room for.
const PICTURE_PERIODS: usize = 1_500;

fn timeline(bench: &mut Bench, case: &Case, seen: &Seen, samples: usize) -> Result<()> {
    let mut names = Names::default();
    let running = names.number(RUNNING);
    let room = match bench.order().round {
        1 => PICTURE_PERIODS,
        _ => 0,
    };
    let mut rows = Vec::with_capacity(2 * samples);
    for (number, (active_start_ns, active_ns, gap)) in seen.periods().enumerate() {
        if number >= samples && (number >= room || active_start_ns > PICTURE_NS) {
            break;
        }
        let whose = names.number(&state(&seen.attributed[gap]));
        let (start_ns, length_ns) = (seen.starts_ns[gap], seen.lengths_ns[gap]);
        rows.push(vec![tenth(active_start_ns), tenth(active_ns), running]);
        rows.push(vec![tenth(start_ns), tenth(length_ns), whose]);
    }
    let columns = ["start_ns", "duration_ns", "state"];
    let trace = bench.trace(case, "timeline", &columns, rows)?;
    trace.names.put("state", names.0);
    Ok(())
}

/// R4's table of the first periods, in cycles too where the core clock is known.
fn periods(
    bench: &mut Bench,
    case: &Case,
    seen: &Seen,
    samples: usize,
    core_hz: Option<f64>,
) -> Result<()> {
    let mut names = Names::default();
    let mut rows = Vec::with_capacity(samples);
    for (active_start_ns, active_ns, gap) in seen.periods().take(samples) {
        let cycles = |ns: f64| core_hz.map(|hz| (ns * hz * 1e-9).round());
        let inactive_ns = seen.lengths_ns[gap];
        let mut row = vec![tenth(active_start_ns), tenth(active_ns)];
        row.extend(cycles(active_ns));
        row.push(tenth(inactive_ns));
        row.extend(cycles(inactive_ns));
        row.push(names.number(&name(&seen.attributed[gap])));
        rows.push(row);
    }
    let columns: &[&str] = match core_hz {
        Some(_) => &[
            "active_start_ns",
            "active_ns",
            "active_cycle",
            "inactive_ns",
            "inactive_cycle",
            "cause",
        ],
        None => &["active_start_ns", "active_ns", "inactive_ns", "cause"],
    };
    let trace = bench.trace(case, "periods", columns, rows)?;
    trace.names.put("cause", names.0);
    Ok(())
}

fn causes(bench: &mut Bench, case: &Case, seen: &Seen) -> Result<()> {
    let (mut causes, mut names) = (Names::default(), Names::default());
    let time_ns = seen.seconds() * 1e9;
    let mut rows = Vec::new();
    for row in shares::rows(seen) {
        rows.push(vec![
            causes.number(row.cause),
            names.number(&row.name),
            row.count as f64,
            row.median_ns,
            row.total_ns / time_ns,
        ]);
    }
    let columns = ["cause", "who", "gaps", "median_ns", "lost_ratio"];
    let trace = bench.trace(case, "causes", &columns, rows)?;
    trace.names.put("cause", causes.0);
    trace.names.put("who", names.0);
    Ok(())
}
