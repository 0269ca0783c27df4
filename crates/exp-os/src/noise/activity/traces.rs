//! The raw list of gaps, the timeline, the table of periods and the causes of a round.

use super::super::attribution::Level;
use super::super::moved::{self, Names, named};
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
    for (kind, seen) in lists(plain, traced) {
        gaps(bench, case, kind, seen)?;
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
pub(super) fn legend(plain: &Seen, traced: Option<&Seen>) -> &'static str {
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

fn lists<'seen>(
    plain: &'seen Seen,
    traced: Option<&'seen Seen>,
) -> impl Iterator<Item = (&'static str, &'seen Seen)> {
    std::iter::once(("gaps", plain)).chain(traced.map(|traced| ("gaps_traced", traced)))
}

/// Where the windows of the lists of gaps lie in time, by name: so that what others saw meanwhile
/// can be laid beside them (`scripts/agree/noise`).
pub(super) fn places(plain: &Seen, traced: Option<&Seen>) -> Vec<(String, f64)> {
    let place = |(kind, seen): (&str, &Seen)| {
        let (clock, segments) = (seen.look.clock, &seen.traced.segments);
        let (first, last) = (segments.first()?.0, segments.last()?.1);
        Some([
            (format!("{kind}_begin_raw_ns"), raw_ns(clock, first)),
            (format!("{kind}_window_ns"), clock.between_ns(first, last)),
        ])
    };
    lists(plain, traced).filter_map(place).flatten().collect()
}

/// The gaps: when, how long, whose.
fn gaps(bench: &mut Bench, case: &Case, kind: &str, seen: &Seen) -> Result<()> {
    let most = if bench.order().round <= 1 { ROWS_FIRST } else { ROWS };
    let held = seen.attributed.len();
    let mut names = Names::default();
    let row = |gap: usize| {
        let whose = names.number(&name(&seen.attributed[gap]));
        vec![tenth(seen.starts_ns[gap]), tenth(seen.lengths_ns[gap]), whose]
    };
    let rows: Vec<Vec<f64>> = (0..held.min(most)).map(row).collect();
    let dropped = seen.traced.dropped + (held - rows.len()) as u64;
    let columns = ["start_ns", "length_ns", "cause"];
    named(bench, case, kind, &columns, rows, [("cause", names)])?.dropped += dropped;
    Ok(())
}

/// What the picture of a first round shows at least, where it has room: R4's time.
const PICTURE_NS: f64 = 120e6;
const PICTURE_PERIODS: usize = 1_500;

fn timeline(bench: &mut Bench, case: &Case, seen: &Seen, samples: usize) -> Result<()> {
    let mut names = Names::default();
    let running = names.number(RUNNING);
    let room = if bench.order().round == 1 { PICTURE_PERIODS } else { 0 };
    let shown = |(number, (active_start_ns, ..)): &(usize, (f64, f64, usize))| {
        *number < samples || (*number < room && *active_start_ns <= PICTURE_NS)
    };
    let both = |(_, (active_start_ns, active_ns, gap)): (usize, (f64, f64, usize))| {
        let whose = names.number(&state(&seen.attributed[gap]));
        let (start_ns, length_ns) = (seen.starts_ns[gap], seen.lengths_ns[gap]);
        [
            vec![tenth(active_start_ns), tenth(active_ns), running],
            vec![tenth(start_ns), tenth(length_ns), whose],
        ]
    };
    let rows = seen.periods().enumerate().take_while(shown).flat_map(both).collect();
    let columns = ["start_ns", "duration_ns", "state"];
    named(bench, case, "timeline", &columns, rows, [("state", names)]).map(|_| ())
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
    let cycles = |ns: f64| core_hz.map(|hz| (ns * hz * 1e-9).round());
    let row = |(active_start_ns, active_ns, gap): (f64, f64, usize)| {
        let inactive_ns = seen.lengths_ns[gap];
        let row = [
            Some(tenth(active_start_ns)),
            Some(tenth(active_ns)),
            cycles(active_ns),
            Some(tenth(inactive_ns)),
            cycles(inactive_ns),
            Some(names.number(&name(&seen.attributed[gap]))),
        ];
        row.into_iter().flatten().collect()
    };
    let rows = seen.periods().take(samples).map(row).collect();
    let mut columns = vec![
        "active_start_ns",
        "active_ns",
        "active_cycle",
        "inactive_ns",
        "inactive_cycle",
        "cause",
    ];
    columns.retain(|column| core_hz.is_some() || !column.ends_with("_cycle"));
    named(bench, case, "periods", &columns, rows, [("cause", names)]).map(|_| ())
}

fn causes(bench: &mut Bench, case: &Case, seen: &Seen) -> Result<()> {
    let (mut causes, mut names) = (Names::default(), Names::default());
    let time_ns = seen.seconds() * 1e9;
    let row = |row: shares::Row| {
        let (cause, who) = (causes.number(row.cause), names.number(&row.name));
        vec![cause, who, row.count as f64, row.median_ns, row.total_ns / time_ns]
    };
    let rows = shares::rows(seen).into_iter().map(row).collect();
    let columns = ["cause", "who", "gaps", "median_ns", "lost_ratio"];
    named(bench, case, "causes", &columns, rows, [("cause", causes), ("who", names)]).map(|_| ())
}
