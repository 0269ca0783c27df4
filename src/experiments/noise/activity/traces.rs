//! The raw list of gaps, the timeline, the table of periods and the causes of a round.

use super::seen::Seen;
use super::shares::{self, name};
use crate::measure::{Bench, raw_ns};
use anyhow::Result;
use record::case::Case;

/// The state in which the loop runs.
const RUNNING: &str = "running";

/// Names in the order of their numbers.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn number(&mut self, name: &str) -> f64 {
        let at = self.0.iter().position(|known| known == name);
        let at = at.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        at as f64
    }
}

/// Writes all traces of a round.
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
    timeline(bench, case, plain, samples)?;
    periods(bench, case, plain, samples, core_hz)?;
    causes(bench, case, traced.unwrap_or(plain))
}

/// Where the windows of the lists of gaps lie in time, by name: so that what others saw meanwhile can be
/// laid beside them (`scripts/agree/noise`).
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

/// Every gap that is held: when, how long, whose.
fn gaps(bench: &mut Bench, case: &Case, kind: &str, seen: &Seen) -> Result<()> {
    let mut names = Names::default();
    let mut rows = Vec::with_capacity(seen.starts_ns.len());
    for (gap, attributed) in seen.attributed.iter().enumerate() {
        let whose = names.number(&name(attributed));
        rows.push(vec![seen.starts_ns[gap], seen.lengths_ns[gap], whose]);
    }
    let columns = ["start_ns", "length_ns", "cause"];
    let trace = bench.trace(case, kind, &columns, rows)?;
    trace.dropped += seen.traced.dropped;
    trace.names.insert("cause".to_owned(), names.0);
    Ok(())
}

/// The first periods as stretches of time.
fn timeline(bench: &mut Bench, case: &Case, seen: &Seen, samples: usize) -> Result<()> {
    let mut names = Names::default();
    let running = names.number(RUNNING);
    let mut rows = Vec::with_capacity(2 * samples);
    for (active_start_ns, active_ns, gap) in seen.periods().take(samples) {
        let whose = names.number(seen.attributed[gap].cause.name());
        rows.push(vec![active_start_ns, active_ns, running]);
        rows.push(vec![seen.starts_ns[gap], seen.lengths_ns[gap], whose]);
    }
    let columns = ["start_ns", "duration_ns", "state"];
    let trace = bench.trace(case, "timeline", &columns, rows)?;
    trace.names.insert("state".to_owned(), names.0);
    Ok(())
}

/// The first periods as R4's table: active and inactive, in ns and in cycles where the core clock is
/// known.
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
        let cycles = |ns: f64| core_hz.map(|hz| ns * hz * 1e-9);
        let inactive_ns = seen.lengths_ns[gap];
        let mut row = vec![active_start_ns, active_ns];
        row.extend(cycles(active_ns));
        row.push(inactive_ns);
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
    trace.names.insert("cause".to_owned(), names.0);
    Ok(())
}

/// Every cause with its gaps.
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
    trace.names.insert("cause".to_owned(), causes.0);
    trace.names.insert("who".to_owned(), names.0);
    Ok(())
}
