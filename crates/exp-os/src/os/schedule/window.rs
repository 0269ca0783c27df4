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
const PROCESSES: &str = "processes";
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
    grid: Option<Grid>,
    tick_ns: f64,
    clock: Clock,
    spun: &'spun Spun,
    each: Vec<Each>,
}

struct Each {
    share: f64,
    /// Whole ones, and their median in ns.
    slices: usize,
    slice_ns: Option<f64>,
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
    let (others, ticks) = seen.others();
    let others_ns = seen.clock.ns(ticks);
    bench.declare(Declared::Others { switches: others, time_ns: others_ns });
    let ticks = slices.iter().map(|slice| slice / tick_ns).collect();
    let round = bench.order().round;
    let samples = bench.record(case, "slice", slices)?;
    samples.notes.extend(seen.notes(moved));
    if round == 1 {
        // What differs a little from round to round is in the quantities and traces of each.
        let because = &threshold.because;
        samples.notes.push(format!("the threshold of a gap in the first round: {because}"));
        samples.notes.push(seen.processes_told());
        samples.notes.extend(seen.grid.and_then(|grid| grid.note()));
    }
    samples.set_quantities([
        ("threshold_ns", threshold.ns),
        ("read_to_read_ns", threshold.read_to_read_ns),
        ("whole_slices", seen.line.whole().len() as f64),
        ("others_switches", others as f64),
        ("others_ns", others_ns),
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
    for (metric, share, note) in seen.shares()? {
        bench.record(case, metric, Values::block(share))?.notes.extend(note);
    }
    seen.trace(bench, case)
}

impl<'spun> Seen<'spun> {
    fn new(spun: &'spun Spun, clock: Clock, tick_ns: f64) -> Result<Self> {
        let line = line::merged(&spun.logs, spun.window);
        let mut seen = Seen { line, grid: None, tick_ns, clock, spun, each: Vec::new() };
        let overlap_ns = clock.ns(seen.line.overlap_ticks);
        ensure!(
            overlap_ns <= OVERLAP_MAX * seen.window_ns(),
            "two processes seem to have run at the same time for {overlap_ns:.0} ns: the counter \
             of this CPU jumped, or they were on different CPUs"
        );
        let line = &seen.line;
        let switches_ns: Vec<f64> = line.switches.iter().map(|of| seen.ns_at(of.tick)).collect();
        let inside = line.runs.iter().flat_map(|run| &run.inside);
        let mut gaps_ns: Vec<f64> = inside.map(|gap| seen.ns_at(gap.start)).collect();
        gaps_ns.extend(&switches_ns);
        gaps_ns.sort_unstable_by(f64::total_cmp);
        let each = line.ticks_by_process().into_iter().enumerate().map(|(process, had)| {
            let whole = line.whole().iter().filter(|run| run.process == process);
            let slices: Vec<f64> = whole.map(|run| seen.slice(run)).collect();
            let share = had as f64 / line.span() as f64;
            Each { share, slices: slices.len(), slice_ns: median(&slices) }
        });
        (seen.each, seen.grid) =
            (each.collect(), Grid::from_starts(&switches_ns, &gaps_ns, tick_ns));
        Ok(seen)
    }

    /// ns from the window's start.
    fn ns_at(&self, tick: u64) -> f64 {
        self.clock.between_ns(self.spun.window.0, tick)
    }

    fn window_ns(&self) -> f64 {
        self.ns_at(self.spun.window.1)
    }

    fn slice(&self, run: &Run) -> f64 {
        self.clock.ns(run.ticks())
    }

    /// Switches in ns; those from the wait for the start only where there are no others.
    fn switch_lengths(&self) -> (Vec<f64>, Option<String>) {
        let lengths = |first_too: bool| -> Vec<f64> {
            let counted = self.line.switches.iter().filter(|of| first_too || !of.is_first);
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
        self.grid.as_ref().is_some_and(|grid| grid.is_on(self.ns_at(of.tick)))
    }

    /// The figures that are one share a window, and what must be known of them.
    fn shares(&self) -> Result<impl Iterator<Item = (&'static str, f64, Option<String>)>> {
        let line = &self.line;
        let (interrupted, lost) = line.lost().context("nothing ran in the window")?;
        let on = line.switches.iter().filter(|of| self.is_on_tick(of)).count();
        let on_tick = on as f64 / line.switches.len() as f64;
        let no_tick = self.grid.is_none().then(|| {
            format!(
                "no tick of {:.3} ms among the gaps, so no switch counts as being on a tick",
                self.tick_ns / 1e6
            )
        });
        // Of two each can only follow the other.
        let rotation = (line.processes > 2).then(|| line.rotation()).flatten();
        let pattern = rotation.map(|rotation| match rotation == 1.0 {
            true => "round robin in some rounds: each waits until all others have run".to_owned(),
            false => "not round robin in some rounds: some come again before others".to_owned(),
        });
        let starved = (line.order().len() < line.processes)
            .then(|| "some processes never ran in the window in some rounds".to_owned());
        let shares = [
            ("on_tick", Some(on_tick), no_tick),
            ("rotation", rotation, pattern),
            ("fairness", line.fairness(), starved),
            ("interrupted", Some(interrupted), None),
            ("lost", Some(lost), None),
        ];
        Ok(shares.into_iter().filter_map(|(metric, share, note)| Some((metric, share?, note))))
    }

    /// What each process had by name, where there are few enough for names.
    fn by_process(&self) -> impl Iterator<Item = (String, f64)> {
        let are_few = self.line.processes <= NAMED_MAX;
        let each = (1..).zip(&self.each).filter(move |_| are_few);
        each.flat_map(|(number, Each { share, slice_ns, .. })| {
            let slice = slice_ns.map(|ns| (format!("slice_{number}_ns"), ns));
            [Some((format!("share_{number}"), *share)), slice].into_iter().flatten()
        })
    }

    /// The order of first run and the share of each, in words.
    fn processes_told(&self) -> String {
        let list = |order: &[usize]| {
            let numbers: Vec<String> = order.iter().map(|of| (of + 1).to_string()).collect();
            numbers.join(" ")
        };
        let named = self.each.iter().take(NAMED_MAX);
        let shares: Vec<String> = named.map(|each| format!("{:.1}", 100.0 * each.share)).collect();
        let more = if self.each.len() > NAMED_MAX { " …" } else { "" };
        format!(
            "processes in the first round: first run after fork {}; in the window {}; shares of the time \
             {}{more} %",
            list(&self.spun.births),
            list(&self.line.order()),
            shares.join(" ")
        )
    }

    /// Rows: number, rank of the first run after fork, whole slices, their median, share. A
    /// process without a whole slice is left out.
    fn processes(&self) -> Vec<Vec<f64>> {
        let row = |(process, each): (usize, &Each)| {
            let rank = self.spun.births.iter().position(|of| *of == process)? + 1;
            let slices = each.slices as f64;
            Some(vec![process as f64, rank as f64, slices, each.slice_ns?, each.share])
        };
        self.each.iter().enumerate().filter_map(row).collect()
    }

    /// Involuntary switches that are not the processes' own, and the time that others had in them.
    fn others(&self) -> (u64, u64) {
        let counted = self.spun.forced.iter().enumerate();
        let others = counted.map(|(process, counted)| self.line.others(process, *counted));
        others.fold((0, 0), |all, of| (all.0 + of.0, all.1 + of.1))
    }

    fn notes(&self, moved: &Snapshot) -> impl Iterator<Item = String> {
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
    }

    fn trace(&self, bench: &mut Bench, case: &Case) -> Result<()> {
        let names: Vec<String> = (1..=self.line.processes).map(|of| of.to_string()).collect();
        let states = names.iter().map(|number| format!("process {number}"));
        let states: Vec<String> = states.chain(NOT_RUNNING.map(str::to_owned)).collect();
        let columns = ["start_ns", "duration_ns", "state"];
        let trace = bench.trace(case, TIMELINE, &columns, self.timeline())?;
        trace.names.put("state", states);
        let columns = ["at_ns", "from", "to", "switch_ns", "slice_ns", "slice_ticks", "on_tick"];
        let rows = self.line.switches.iter().filter_map(|of| self.row(of)).collect();
        let trace = bench.trace(case, SWITCHES, &columns, rows)?;
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
        let [interrupted, none] = [0, 1].map(|at| self.line.processes + at);
        let row = |(start, end, state): (u64, u64, usize)| {
            let start_ns = self.ns_at(start);
            vec![start_ns, self.ns_at(end) - start_ns, state as f64]
        };
        let mut rows = Vec::new();
        for (number, run) in self.line.runs.iter().enumerate() {
            let mut from = run.start;
            for Gap { start, end } in run.inside.iter().copied() {
                rows.extend([(from, start, run.process), (start, end, interrupted)].map(row));
                from = end;
            }
            rows.push(row((from, run.end, run.process)));
            let next = self.line.runs.get(number + 1).filter(|next| next.start > run.end);
            rows.extend(next.map(|next| row((run.end, next.start, none))));
        }
        rows
    }

    /// A row of the table of switches; none for the first, whose slice the window's begin has cut.
    fn row(&self, of: &Switch) -> Option<Vec<f64>> {
        let run = self.line.runs.get(of.run).filter(|_| of.run > 0)?;
        let slice_ns = self.slice(run);
        Some(vec![
            self.ns_at(of.tick),
            of.from as f64,
            of.to as f64,
            self.clock.ns(of.ticks?),
            slice_ns,
            slice_ns / self.tick_ns,
            f64::from(u8::from(self.is_on_tick(of))),
        ])
    }
}

/// Share of the pairs that are in ascending order.
fn in_order(order: &[usize]) -> f64 {
    let count = order.len();
    let ascending: usize =
        (0..count).map(|at| order[at + 1..].iter().filter(|of| **of > order[at]).count()).sum();
    ascending as f64 / (count * (count - 1) / 2) as f64
}

#[cfg(test)]
mod tests;
