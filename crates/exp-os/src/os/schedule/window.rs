//! What a window showed, as figures, traces and notes.

use super::grid::Grid;
use super::line::{self, Line, Run, Switch};
use super::spin::Spun;
use crate::noise::trace::Threshold;
use bench::measure::raw_ns;
use bench::prelude::*;
use host::counters::Snapshot;
use metal::gaps::Gap;
use stats::quantile::median;

/// Kind of the trace with a lane for each process.
pub(super) const TIMELINE: &str = "timeline";
/// Kind of the trace with a row for each switch.
pub(super) const SWITCHES: &str = "switches";
/// Kind of the trace with a row for each process.
pub(super) const PROCESSES: &str = "processes";
/// Largest number of processes with separate quantities and shares.
const NAMED_MAX: usize = 16;
/// Names of what is no process, after those of the processes.
const NOT_RUNNING: [&str; 2] = ["interrupted", "none"];
/// Share of the window in which two may seem to run at once before it counts as wrong.
const OVERLAP_MAX: f64 = 0.001;
/// Share of the time, lost to throttling or steal, that is worth a note.
const NOTED: f64 = 0.001;

struct Seen<'spun> {
    line: Line,
    switches: Vec<Switch>,
    grid: Option<Grid>,
    tick_ns: f64,
    clock: Clock,
    spun: &'spun Spun,
}

pub(super) fn write(
    bench: &mut Bench,
    case: &Case,
    spun: &Spun,
    threshold: &Threshold,
    tick_ns: f64,
    moved: &Snapshot,
) -> Result<()> {
    let seen = Seen::new(spun, bench.order().clock(), tick_ns)?;
    let slices: Vec<f64> = seen.line.whole().iter().map(|run| seen.slice(run)).collect();
    ensure!(
        !slices.is_empty(),
        "{} ran in a window of {:.0} ms, so it contains no complete slice",
        match seen.line.order().len() {
            0 => "no process".to_owned(),
            1 => "one process alone".to_owned(),
            several => format!("{several} processes, each once,"),
        },
        seen.window_ns() / 1e6
    );
    let (switches, ticks) = seen.others();
    let time_ns = seen.clock.ns(ticks);
    bench.declare(Declared::Others { switches, time_ns });
    let ticks = slices.iter().map(|slice| slice / tick_ns).collect();
    let mut notes = seen.notes(moved);
    if bench.order().round == 1 {
        // What differs a little from round to round is in the quantities and traces of each.
        notes.push(format!("the threshold of a gap in the first round: {}", threshold.because));
        notes.push(seen.processes_told());
        notes.extend(seen.grid.and_then(|grid| grid.told()));
    }
    let samples = bench.record(case, "slice", slices)?;
    samples.notes.extend(notes);
    samples.set_quantities([
        ("threshold_ns", threshold.ns),
        ("read_to_read_ns", threshold.read_to_read_ns),
        ("whole_slices", seen.line.whole().len() as f64),
        ("others_switches", switches as f64),
        ("others_ns", time_ns),
        ("birth_order", in_order(&spun.births)),
        // Where the window of the list of switches lies in time, so that what the kernel saw
        // meanwhile can be laid beside it (scripts/agree/noise).
        ("switches_begin_raw_ns", raw_ns(seen.clock, spun.window.0)),
        ("switches_window_ns", seen.window_ns()),
    ]);
    samples.quantities.extend(seen.by_process());
    bench.record(case, "slice_ticks", Values::blocks(ticks))?;
    let (switches, among) = seen.switch_lengths();
    bench.record(case, "switch", switches)?.notes.extend(among);
    write_shares(bench, case, &seen)?;
    seen.trace(bench, case)
}

/// Writes the figures that are one share a window.
fn write_shares(bench: &mut Bench, case: &Case, seen: &Seen) -> Result<()> {
    let (on_tick, why_not) = seen.on_tick();
    let (interrupted, lost) = seen.line.lost().context("nothing ran in the window")?;
    let fairness = seen.line.fairness().context("nothing ran in the window")?;
    for (metric, share) in [
        ("on_tick", Some(on_tick)),
        ("rotation", seen.rotation()),
        ("fairness", Some(fairness)),
        ("interrupted", Some(interrupted)),
        ("lost", Some(lost)),
    ] {
        let Some(share) = share else { continue };
        let samples = bench.record(case, metric, Values::block(share))?;
        match metric {
            "on_tick" => samples.notes.extend(why_not.clone()),
            "rotation" => samples.notes.push(pattern(share)),
            "fairness" => samples.notes.extend(seen.starved()),
            _ => {}
        }
    }
    Ok(())
}

fn pattern(rotation: f64) -> String {
    if rotation == 1.0 {
        "round robin in some rounds: each waits until all others have run".to_owned()
    } else {
        "not round robin in some rounds: some come again before others".to_owned()
    }
}

impl<'spun> Seen<'spun> {
    fn new(spun: &'spun Spun, clock: Clock, tick_ns: f64) -> Result<Self> {
        let line = line::merged(&spun.logs, spun.window);
        let mut seen = Seen { switches: line.switches(), line, grid: None, tick_ns, clock, spun };
        let overlap_ns = clock.ns(seen.line.overlap_ticks);
        ensure!(
            overlap_ns <= OVERLAP_MAX * seen.window_ns(),
            "two processes seem to have run at the same time for {overlap_ns:.0} ns: the counter \
             of this CPU jumped, or they were on different CPUs"
        );
        let in_ns = |starts: Vec<u64>| starts.into_iter().map(|start| seen.at(start)).collect();
        let switches_ns: Vec<f64> = in_ns(seen.switches.iter().map(|of| of.at).collect());
        let gaps_ns: Vec<f64> = in_ns(seen.gap_starts());
        seen.grid = Grid::of(&switches_ns, &gaps_ns, tick_ns);
        Ok(seen)
    }

    /// ns from the window's start.
    fn at(&self, tick: u64) -> f64 {
        self.clock.between_ns(self.spun.window.0, tick)
    }

    fn window_ns(&self) -> f64 {
        self.at(self.spun.window.1)
    }

    fn slice(&self, run: &Run) -> f64 {
        self.clock.ns(run.ticks())
    }

    fn gap_starts(&self) -> Vec<u64> {
        let inside = self.line.runs.iter().flat_map(|run| &run.inside);
        let mut starts: Vec<u64> = inside.map(|gap| gap.start).collect();
        starts.extend(self.switches.iter().map(|of| of.at));
        starts.sort_unstable();
        starts
    }

    /// Switches in ns; those from the wait for the start only where there are no others.
    fn switch_lengths(&self) -> (Vec<f64>, Option<String>) {
        let lengths = |first_too: bool| -> Vec<f64> {
            let counted = self.switches.iter().filter(|of| first_too || !of.is_first);
            counted.filter_map(|of| Some(self.clock.ns(of.ticks?))).collect()
        };
        let settled = lengths(false);
        if settled.is_empty() {
            (lengths(true), Some("it includes leaving the wait for the start".to_owned()))
        } else {
            (settled, None)
        }
    }

    fn is_on_tick(&self, of: &Switch) -> bool {
        self.grid.as_ref().is_some_and(|grid| grid.is_on(self.at(of.at)))
    }

    /// Share of switches on a tick, and what must be known of it.
    fn on_tick(&self) -> (f64, Option<String>) {
        let on = self.switches.iter().filter(|of| self.is_on_tick(of));
        let share = on.count() as f64 / self.switches.len() as f64;
        let why = self.grid.is_none().then(|| {
            format!(
                "no tick of {:.3} ms among the gaps, so no switch counts as being on a tick",
                self.tick_ns / 1e6
            )
        });
        (share, why)
    }

    /// Share of switches to the process that has waited longest, where there is a choice and all
    /// ran.
    fn rotation(&self) -> Option<f64> {
        (self.line.processes > 2).then(|| self.line.rotation()).flatten()
    }

    fn starved(&self) -> Option<String> {
        let ran = self.line.order().len();
        (ran < self.line.processes)
            .then(|| "some processes never ran in the window in some rounds".to_owned())
    }

    /// Each process' share of the time, its whole slices, and their median in ns.
    fn each(&self) -> Vec<(f64, usize, Option<f64>)> {
        let span = self.line.span() as f64;
        let had = self.line.had().into_iter().enumerate();
        had.map(|(process, had)| {
            let runs = self.line.whole().iter().filter(|run| run.process == process);
            let slices: Vec<f64> = runs.map(|run| self.slice(run)).collect();
            (had as f64 / span, slices.len(), median(&slices))
        })
        .collect()
    }

    /// The same by name, where there are few enough for names.
    fn by_process(&self) -> Vec<(String, f64)> {
        if self.line.processes > NAMED_MAX {
            return Vec::new();
        }
        let each = self.each().into_iter().enumerate();
        each.flat_map(|(process, (share, _, slice_ns))| {
            let number = process + 1;
            let slice = slice_ns.map(|ns| (format!("slice_{number}_ns"), ns));
            [Some((format!("share_{number}"), share)), slice]
        })
        .flatten()
        .collect()
    }

    /// The order of first run and the share of each, in words.
    fn processes_told(&self) -> String {
        let list = |order: &[usize]| -> String {
            let numbers: Vec<String> = order.iter().map(|of| (of + 1).to_string()).collect();
            numbers.join(" ")
        };
        let each = self.each();
        let shares: Vec<String> = each
            .iter()
            .take(NAMED_MAX)
            .map(|(share, ..)| format!("{:.1}", 100.0 * share))
            .collect();
        let more = if each.len() > NAMED_MAX { " …" } else { "" };
        format!(
            "processes in the first round: first run after fork {}; in the window {}; shares of the time \
             {}{more} %",
            list(&self.spun.births),
            list(&self.line.order()),
            shares.join(" ")
        )
    }

    /// Rows: number, rank of the first run after fork, whole slices, their median, share.
    fn processes(&self) -> Vec<Vec<f64>> {
        let each = self.each().into_iter().enumerate();
        each.filter_map(|(process, (share, slices, slice_ns))| {
            let rank = self.spun.births.iter().position(|of| *of == process)? + 1;
            Some(vec![
                process as f64,
                rank as f64,
                slices as f64,
                // One that had no whole slice has no length of one.
                slice_ns?,
                share,
            ])
        })
        .collect()
    }

    /// Involuntary switches that are not the processes' own, and the time that others had in them.
    fn others(&self) -> (u64, u64) {
        (0..self.line.processes).fold((0, 0), |(switches, ticks), process| {
            let times = self.line.hidden(process, self.spun.forced[process]);
            (switches + times, ticks + self.line.foreign_ticks(process, times))
        })
    }

    fn notes(&self, moved: &Snapshot) -> Vec<String> {
        let is_much = |ns: Option<u64>| ns.is_some_and(|ns| ns as f64 > NOTED * self.window_ns());
        [
            (true, "the window's first and last slice are left out"),
            (
                is_much(moved.throttled_ns),
                "the control group's CPU quota throttled the processes in some rounds; that time \
                 is in `lost` and in the slices or switches in which it occurred",
            ),
            (
                is_much(moved.steal_ns()),
                "the hypervisor took time in some rounds (steal), which is in `lost`",
            ),
            (
                self.others().0 > 0,
                "other programs ran within slices in some rounds: the kernel counted more \
                 involuntary switches than the processes' own",
            ),
        ]
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, note)| note.to_owned())
        .collect()
    }

    fn trace(&self, bench: &mut Bench, case: &Case) -> Result<()> {
        let processes = self.line.processes;
        let states = (1..=processes).map(|number| format!("process {number}"));
        let states: Vec<String> = states.chain(NOT_RUNNING.map(str::to_owned)).collect();
        let columns = ["start_ns", "duration_ns", "state"];
        let trace = bench.trace(case, TIMELINE, &columns, self.timeline())?;
        trace.names.put("state", states);
        let columns = ["at_ns", "from", "to", "switch_ns", "slice_ns", "slice_ticks", "on_tick"];
        let rows = self.switches.iter().filter_map(|of| self.row(of)).collect();
        let trace = bench.trace(case, SWITCHES, &columns, rows)?;
        let names: Vec<String> = (1..=processes).map(|number| number.to_string()).collect();
        for column in ["from", "to"] {
            trace.names.put(column, names.clone());
        }
        trace.names.put("on_tick", ["no", "yes"].map(str::to_owned));
        let columns = ["process", "first_run", "slices", "slice_ns", "share_ratio"];
        let trace = bench.trace(case, PROCESSES, &columns, self.processes())?;
        trace.names.put("process", names);
        Ok(())
    }

    fn timeline(&self) -> Vec<Vec<f64>> {
        let processes = self.line.processes as f64;
        let row = |start: u64, end: u64, state: f64| {
            let start_ns = self.at(start);
            vec![start_ns, self.at(end) - start_ns, state]
        };
        let mut rows = Vec::new();
        for (number, run) in self.line.runs.iter().enumerate() {
            let mut from = run.start;
            for Gap { start, end } in run.inside.iter().copied() {
                rows.push(row(from, start, run.process as f64));
                rows.push(row(start, end, processes));
                from = end;
            }
            rows.push(row(from, run.end, run.process as f64));
            if let Some(next) = self.line.runs.get(number + 1)
                && next.start > run.end
            {
                rows.push(row(run.end, next.start, processes + 1.0));
            }
        }
        rows
    }

    /// A row of the table of switches; none for the first, whose slice the window's begin has cut.
    fn row(&self, of: &Switch) -> Option<Vec<f64>> {
        if of.run == 0 {
            return None;
        }
        let slice_ns = self.slice(&self.line.runs[of.run]);
        Some(vec![
            self.at(of.at),
            of.from as f64,
            of.to as f64,
            self.clock.ns(of.ticks?),
            slice_ns,
            slice_ns / self.tick_ns,
            f64::from(u8::from(self.is_on_tick(of))),
        ])
    }
}

fn in_order(order: &[usize]) -> f64 {
    let count = order.len();
    let ascending: usize =
        (0..count).map(|at| order[at + 1..].iter().filter(|of| **of > order[at]).count()).sum();
    ascending as f64 / (count * (count - 1) / 2) as f64
}

#[cfg(test)]
mod tests;
