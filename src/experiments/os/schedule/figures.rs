//! What a window showed, as figures, traces and notes.

use super::line::{self, Line, Run, Switch};
use super::spin::Spun;
use crate::experiments::noise::trace::Threshold;
use crate::host::counters::Snapshot;
use crate::measure::{Bench, Clock, raw_ns};
use crate::stats::phase::{self, Tick};
use anyhow::{Context, Result, ensure};
use metal::gaps::Gap;
use record::case::Case;

/// Kind of the trace with a lane for each process.
pub(super) const TIMELINE: &str = "timeline";
/// Kind of the trace with a row for each switch.
pub(super) const SWITCHES: &str = "switches";
/// Names of what is no process, after those of the processes.
const NOT_RUNNING: [&str; 2] = ["interrupted", "none"];
/// Share of the window in which two may seem to run at once before it counts as wrong.
const OVERLAP_MAX: f64 = 0.001;
/// Share of a tick's period in which gaps must crowd for its phase to be told, and how many: so many
/// beside what chance brings there, and so many times its deviation.
const ARC: f64 = 0.005;
const CROWD_MIN: f64 = 5.0;
const CROWD_DEVIATIONS: f64 = 6.0;
/// Share of the time, lost to throttling or steal, that is worth a note.
const NOTED: f64 = 0.001;

/// The ticks of a window.
enum Grid {
    /// As a search for the period found them.
    Found(Tick),
    /// In a window with holes (a quota, a hypervisor), where not every tick shows: the kernel's own
    /// period, from the place where the gaps crowd.
    Stated { period_ns: f64, phase_ns: f64 },
}

impl Grid {
    fn of(starts_ns: &[f64], period_ns: f64) -> Option<Grid> {
        let found = phase::tick(starts_ns, &[period_ns]).map(Grid::Found);
        found.or_else(|| Grid::stated(starts_ns, period_ns))
    }

    fn stated(starts_ns: &[f64], period_ns: f64) -> Option<Grid> {
        let arc_ns = ARC * period_ns;
        let mut phases: Vec<f64> = starts_ns
            .iter()
            .map(|at| at.rem_euclid(period_ns))
            .collect();
        phases.sort_unstable_by(f64::total_cmp);
        // Once around, for a crowd at the seam.
        phases.extend_from_within(..);
        let turn = phases.len() / 2;
        phases[turn..].iter_mut().for_each(|at| *at += period_ns);
        let crowd = |from: usize| {
            let within = phases[from..].partition_point(|at| *at <= phases[from] + arc_ns);
            within.min(turn)
        };
        let most = (0..turn).max_by_key(|from| crowd(*from))?;
        // Events of another period crowd in more places than one.
        let others = (0..turn).filter(|from| {
            let apart = (phases[*from] - phases[most]).rem_euclid(period_ns);
            apart.min(period_ns - apart) > 2.0 * arc_ns
        });
        let next = others.map(crowd).max().unwrap_or(0);
        let by_chance = ARC * turn as f64;
        let needed = CROWD_MIN + by_chance + CROWD_DEVIATIONS * by_chance.sqrt();
        (crowd(most) as f64 >= needed.max(2.0 * next as f64)).then_some(Grid::Stated {
            period_ns,
            phase_ns: phases[most] + 0.5 * arc_ns,
        })
    }

    fn is_on(&self, start_ns: f64) -> bool {
        match self {
            Grid::Found(tick) => tick.is_on(start_ns),
            Grid::Stated {
                period_ns,
                phase_ns,
            } => {
                let off = (start_ns - phase_ns).rem_euclid(*period_ns);
                off.min(period_ns - off) <= ARC * period_ns
            }
        }
    }
}

/// A window with what is known of the tick in it.
struct Seen<'spun> {
    line: Line,
    switches: Vec<Switch>,
    grid: Option<Grid>,
    tick_ns: f64,
    clock: Clock,
    spun: &'spun Spun,
}

/// Writes everything of a case down.
///
/// # Errors
/// Two processes ran at once, or too little ran in the window for any slice to be whole.
pub(super) fn write(
    bench: &mut Bench,
    case: &Case,
    spun: &Spun,
    threshold: &Threshold,
    tick_ns: f64,
    moved: &Snapshot,
) -> Result<()> {
    let seen = Seen::new(spun, bench.clock(), tick_ns)?;
    let slices: Vec<f64> = seen
        .line
        .whole()
        .iter()
        .map(|run| seen.slice(run))
        .collect();
    ensure!(
        !slices.is_empty(),
        "{} ran in a window of {:.0} ms, so that no slice in it is whole",
        match seen.line.order().len() {
            0 => "no process".to_owned(),
            1 => "one process alone".to_owned(),
            several => format!("{several} processes, none of them twice,"),
        },
        seen.window_ns() / 1e6
    );
    let ticks = slices.iter().map(|slice| slice / tick_ns).collect();
    let mut notes = seen.notes(moved);
    if bench.order().round == 1 {
        // It differs a little from round to round, and is in the quantities of each.
        notes.push(format!(
            "the threshold of a gap in the first round: {}",
            threshold.because
        ));
    }
    let samples = bench.record(case, "slice", slices)?;
    samples.notes.extend(notes);
    for (name, value) in [
        ("threshold_ns", threshold.ns),
        ("read_to_read_ns", threshold.read_to_read_ns),
        ("slices_seen", seen.line.runs.len() as f64),
        ("others_switches", seen.hidden() as f64),
        // Where the window of the list of switches lies in time, so that what the kernel saw meanwhile
        // can be laid beside it (scripts/agree/noise).
        ("switches_begin_raw_ns", raw_ns(seen.clock, spun.window.0)),
        ("switches_window_ns", seen.window_ns()),
    ] {
        samples.quantities.insert(name.to_owned(), value);
    }
    bench.record_batches(case, "slice_ticks", 0, ticks)?;
    let (switches, among) = seen.switch_lengths();
    bench.record(case, "switch", switches)?.notes.extend(among);
    let (on_tick, why_not) = seen.on_tick();
    let shares = [
        ("on_tick", Some(on_tick)),
        ("rotation", seen.line.rotation()),
        ("fairness", seen.line.fairness()),
        ("interrupted", seen.line.lost().map(|lost| lost.0)),
        ("lost", seen.line.lost().map(|lost| lost.1)),
        ("birth_order", in_order(&spun.births)),
    ];
    for (metric, share) in shares {
        let share = share.with_context(|| {
            format!("{metric}: not all processes ran in the window, whatever their share is")
        })?;
        let samples = bench.record_batches(case, metric, 0, vec![share])?;
        match metric {
            "on_tick" => samples.notes.extend(why_not.clone()),
            "rotation" => samples.notes.push(seen.pattern()),
            _ => {}
        }
    }
    seen.trace(bench, case)
}

impl<'spun> Seen<'spun> {
    fn new(spun: &'spun Spun, clock: Clock, tick_ns: f64) -> Result<Self> {
        let line = line::merged(&spun.logs, spun.window);
        let mut seen = Seen {
            switches: line.switches(),
            line,
            grid: None,
            tick_ns,
            clock,
            spun,
        };
        let overlap_ns = clock.ns(seen.line.overlap_ticks);
        ensure!(
            overlap_ns <= OVERLAP_MAX * seen.window_ns(),
            "two processes seem to have run at once for {overlap_ns:.0} ns: the counter of this CPU \
             jumped, or they were not on one"
        );
        let starts: Vec<f64> = seen
            .gap_starts()
            .into_iter()
            .map(|start| seen.at(start))
            .collect();
        seen.grid = Grid::of(&starts, tick_ns);
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

    /// Starts of interruptions and switches, ascending.
    fn gap_starts(&self) -> Vec<u64> {
        let inside = self.line.runs.iter().flat_map(|run| &run.inside);
        let mut starts: Vec<u64> = inside.map(|gap| gap.start).collect();
        starts.extend(self.switches.iter().map(|of| of.at));
        starts.sort_unstable();
        starts
    }

    /// The switches that count, in ns; those to a process that comes from the wait for the start
    /// count where there are no others.
    fn switch_lengths(&self) -> (Vec<f64>, Option<String>) {
        let lengths = |first_too: bool| -> Vec<f64> {
            let counted = self.switches.iter().filter(|of| first_too || !of.is_first);
            counted
                .filter_map(|of| Some(self.clock.ns(of.ticks?)))
                .collect()
        };
        let settled = lengths(false);
        match settled.is_empty() {
            true => (
                lengths(true),
                Some("a first run's way out of the wait for the start is in it".to_owned()),
            ),
            false => (settled, None),
        }
    }

    fn is_on_tick(&self, of: &Switch) -> bool {
        self.grid
            .as_ref()
            .is_some_and(|grid| grid.is_on(self.at(of.at)))
    }

    /// Share of switches on a tick, and what must be known of it.
    fn on_tick(&self) -> (f64, Option<String>) {
        let on = self.switches.iter().filter(|of| self.is_on_tick(of));
        let share = on.count() as f64 / self.switches.len() as f64;
        let why = self.grid.is_none().then(|| {
            format!(
                "no tick of {:.3} ms is to be found among the gaps, so no switch is on one",
                self.tick_ns / 1e6
            )
        });
        (share, why)
    }

    /// In what order the processes come.
    fn pattern(&self) -> String {
        let round_robin = self.line.rotation() == Some(1.0);
        match (self.line.processes, round_robin) {
            (2, _) => "two processes always take turns".to_owned(),
            (_, true) => {
                "round robin in some rounds: each waits until all others have run".to_owned()
            }
            (_, false) => {
                "not round robin in some rounds: some come again before others".to_owned()
            }
        }
    }

    /// Involuntary switches that are not the processes' own.
    fn hidden(&self) -> u64 {
        (0..self.line.processes)
            .map(|process| self.line.hidden(process, self.spun.forced[process]))
            .sum()
    }

    fn notes(&self, moved: &Snapshot) -> Vec<String> {
        let mut notes = vec!["the window's first and last slice are left out".to_owned()];
        let share = |ns: Option<u64>| ns.map(|ns| ns as f64 / self.window_ns());
        if share(moved.throttled_ns).is_some_and(|share| share > NOTED) {
            notes.push(
                "the control group's CPU quota throttled the processes in some rounds: none \
                 ran meanwhile, which is in `lost` and in the slices or switches it fell into"
                    .to_owned(),
            );
        }
        if share(moved.steal_ns()).is_some_and(|share| share > NOTED) {
            notes.push(
                "the hypervisor took time in some rounds (steal), which is in `lost`".to_owned(),
            );
        }
        if self.hidden() > 0 {
            notes.push(
                "others ran inside slices in some rounds: the kernel counted more involuntary \
                 switches than the processes' own"
                    .to_owned(),
            );
        }
        notes
    }

    fn trace(&self, bench: &mut Bench, case: &Case) -> Result<()> {
        let processes = self.line.processes;
        let states = (1..=processes).map(|number| format!("process {number}"));
        let states = states.chain(NOT_RUNNING.map(str::to_owned)).collect();
        let columns = ["start_ns", "duration_ns", "state"];
        let trace = bench.trace(case, TIMELINE, &columns, self.timeline())?;
        trace.names.insert("state".to_owned(), states);
        let columns = [
            "at_ns",
            "from",
            "to",
            "switch_ns",
            "slice_ns",
            "slice_ticks",
            "on_tick",
        ];
        let rows = self.switches.iter().filter_map(|of| self.row(of)).collect();
        let trace = bench.trace(case, SWITCHES, &columns, rows)?;
        let names: Vec<String> = (1..=processes).map(|number| number.to_string()).collect();
        for column in ["from", "to"] {
            trace.names.insert(column.to_owned(), names.clone());
        }
        let answers = ["no", "yes"].map(str::to_owned).to_vec();
        trace.names.insert("on_tick".to_owned(), answers);
        Ok(())
    }

    /// Rows of the timeline: start, length, state.
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

    /// A row of the table of switches.
    fn row(&self, of: &Switch) -> Option<Vec<f64>> {
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

/// Share of the pairs that stand in ascending order; `None` of fewer than two.
fn in_order(order: &[usize]) -> Option<f64> {
    let count = order.len();
    let ascending: usize = (0..count)
        .map(|at| order[at + 1..].iter().filter(|of| **of > order[at]).count())
        .sum();
    (count > 1).then(|| ascending as f64 / (count * (count - 1) / 2) as f64)
}

#[cfg(test)]
mod tests {
    use super::{Clock, Grid, NOT_RUNNING, Seen, Spun, in_order};
    use crate::experiments::os::schedule::line::Log;
    use metal::gaps::Gap;

    const MS: u64 = 1_000_000;
    const CLOCK: Clock = Clock::Counter { tick_ns: 1.0 };

    /// Two processes that take turns of two ticks of 4 ms, interrupted for 2 µs by the tick between,
    /// 5 µs for a switch; `offset` moves the switches against the tick.
    fn two(slices: u64, offset: u64) -> Spun {
        let mut logs = vec![Log::default(), Log::default()];
        for slice in 0..slices {
            let log = &mut logs[(slice % 2) as usize];
            let start = slice * 8 * MS + 5_000 + offset * (slice % 3);
            let end = (slice + 1) * 8 * MS + offset * ((slice + 1) % 3);
            let tick = slice * 8 * MS + 4 * MS;
            match log.last {
                0 => log.first = start,
                last => log.gaps.push(Gap {
                    start: last,
                    end: start,
                }),
            }
            log.gaps.push(Gap {
                start: tick,
                end: tick + 2_000,
            });
            log.last = end;
        }
        Spun {
            window: (0, slices * 8 * MS),
            logs,
            births: vec![0, 1],
            forced: vec![0, 0],
        }
    }

    #[test]
    fn switches_at_every_second_tick_are_on_it() {
        let spun = two(30, 0);
        let seen = Seen::new(&spun, CLOCK, 4e6).unwrap();
        assert_eq!(seen.on_tick(), (1.0, None));
        let row = seen.row(&seen.switches[3]).unwrap();
        assert_eq!(row[..5], [32e6, 1.0, 0.0, 5_000.0, 7_995_000.0]);
        assert_eq!((row[5], row[6]), (7_995_000.0 / 4e6, 1.0));
    }

    #[test]
    fn switches_between_ticks_are_not() {
        let spun = two(30, MS);
        let seen = Seen::new(&spun, CLOCK, 4e6).unwrap();
        let (share, _) = seen.on_tick();
        assert!((0.25..0.45).contains(&share), "{share}");
        // A period that is not there.
        let seen = Seen::new(&spun, CLOCK, 3_333_333.0).unwrap();
        let (share, why) = seen.on_tick();
        assert_eq!(share, 0.0);
        assert!(why.unwrap().starts_with("no tick of 3.333 ms"));
    }

    #[test]
    fn a_window_with_holes_has_its_ticks_all_the_same() {
        // 50 of 120 ms are gone, as a quota takes them; half of the gaps left are no ticks.
        let ticks = (0..30).map(|tick| f64::from(tick) * 4e6);
        let others = (0..30).map(|at| f64::from(at) * 3.917e6 + 1e6);
        let mut starts: Vec<f64> = ticks.chain(others).collect();
        starts.retain(|at| !(44e6..96e6).contains(at));
        starts.sort_unstable_by(f64::total_cmp);
        let grid = Grid::of(&starts, 4e6).expect("ticks");
        assert!(grid.is_on(400e6) && !grid.is_on(402e6) && grid.is_on(4e6 - 3_000.0));
        let stated = Grid::stated(&starts, 4e6).expect("ticks");
        assert!(stated.is_on(400e6) && !stated.is_on(402e6) && stated.is_on(4e6 - 3_000.0));
        // Twenty interruptions to a tick, at any time.
        let many = (0..1_500).map(|at| (f64::from(at) * 0.618_033_988_7).fract() * 300e6);
        let ticks = (0..75).map(|tick| f64::from(tick) * 4e6);
        let crowded: Vec<f64> = many.clone().chain(ticks).collect();
        assert!(Grid::stated(&crowded, 4e6).is_some_and(|grid| grid.is_on(8e6)));
        assert!(Grid::stated(&many.collect::<Vec<_>>(), 4e6).is_none());
        // As many at any time.
        let spread: Vec<f64> = (0..starts.len()).map(|at| at as f64 * 6.1e6).collect();
        assert!(Grid::of(&spread, 4e6).is_none());
        assert!(Grid::of(&[], 4e6).is_none());
    }

    #[test]
    fn the_timeline_leaves_no_time_out() {
        let spun = two(6, 0);
        let seen = Seen::new(&spun, CLOCK, 4e6).unwrap();
        let rows = seen.timeline();
        for pair in rows.windows(2) {
            assert_eq!(pair[0][0] + pair[0][1], pair[1][0]);
        }
        let time = |state: usize| -> f64 {
            let of = rows.iter().filter(|row| row[2] == state as f64);
            of.map(|row| row[1]).sum()
        };
        let names = 2 + NOT_RUNNING.len();
        assert!(rows.iter().all(|row| (row[2] as usize) < names));
        assert_eq!((time(2), time(3)), (6.0 * 2_000.0, 5.0 * 5_000.0));
        let had: u64 = seen.line.had().iter().sum();
        assert_eq!(time(0) + time(1), had as f64);
    }

    #[test]
    fn first_switches_are_left_out_and_two_at_once_are_refused() {
        let mut spun = two(30, 0);
        let seen = Seen::new(&spun, CLOCK, 4e6).unwrap();
        assert_eq!(seen.switch_lengths().0.len(), 28);
        // The first process goes on through a slice of the second one.
        spun.logs[0].gaps.remove(1);
        let error = Seen::new(&spun, CLOCK, 4e6).err().expect("refused");
        assert!(error.to_string().contains("at once"), "{error:#}");
    }

    #[test]
    fn orders_are_shares_of_pairs() {
        assert_eq!(in_order(&[0, 1, 2]), Some(1.0));
        assert_eq!(in_order(&[2, 1, 0]), Some(0.0));
        // R4's five: 4, 5, 3, 2, 1.
        assert_eq!(in_order(&[3, 4, 2, 1, 0]), Some(0.1));
        assert_eq!(in_order(&[0]), None);
    }
}
