//! What processes that shared one CPU logged, as one line of time. Pure.
//!
//! A process knows when it ran: the stretches between its gaps. Put together and ordered by their
//! starts, the stretches of all processes are the CPU's time. A *run* is as many stretches of one
//! process as follow each other with none of another's between: the gaps inside it are
//! interruptions, after which it went on. What lies between two runs is a *switch*. Another's
//! process shows as neither: it makes a gap longer.

use metal::gaps::Gap;

/// What one process logged, in ticks of the counter that all share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) first: u64,
    pub(super) last: u64,
    /// When it did not run in between, ascending.
    pub(super) gaps: Vec<Gap>,
}

impl Log {
    /// The stretches in which it ran, as far as they lie in the window.
    fn stretches(&self, window: (u64, u64)) -> impl Iterator<Item = (u64, u64)> + '_ {
        let starts = std::iter::once(self.first).chain(self.gaps.iter().map(|gap| gap.end));
        let ends = self.gaps.iter().map(|gap| gap.start);
        let ends = ends.chain(std::iter::once(self.last));
        starts
            .zip(ends)
            .map(move |(start, end)| (start.max(window.0), end.min(window.1)))
            .filter(|(start, end)| start < end)
    }
}

/// A process on the CPU without another of ours between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) process: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) inside: Vec<Gap>,
}

impl Run {
    pub(super) fn ticks(&self) -> u64 {
        self.end - self.start
    }

    fn ran_ticks(&self) -> u64 {
        let lost: u64 = self.inside.iter().map(|gap| gap.ticks()).sum();
        self.ticks().saturating_sub(lost)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    pub(super) run: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) tick: u64,
    /// How long neither ran; `None` where both seem to have run at once.
    pub(super) ticks: Option<u64>,
    /// The next run is its process' first: it came from the wait for the common start.
    pub(super) is_first: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Processes, those that never ran among them.
    pub(super) processes: usize,
    /// The runs, ascending; neighbours are of different processes.
    pub(super) runs: Vec<Run>,
    /// One between each run and the next.
    pub(super) switches: Vec<Switch>,
    /// Time in which two processes claim to have run at once, which one CPU does not allow.
    pub(super) overlap_ticks: u64,
}

/// Puts the logs together, as far as they lie in the window (its first and last tick).
pub(super) fn merged(logs: &[Log], window: (u64, u64)) -> Line {
    let mut stretches: Vec<(u64, u64, usize)> = Vec::new();
    for (process, log) in logs.iter().enumerate() {
        stretches.extend(log.stretches(window).map(|(start, end)| (start, end, process)));
    }
    stretches.sort_unstable();
    let (mut runs, mut overlap_ticks, mut latest) = (Vec::<Run>::new(), 0, 0);
    for (start, end, process) in stretches {
        overlap_ticks += latest.min(end).saturating_sub(start);
        latest = latest.max(end);
        match runs.last_mut() {
            Some(run) if run.process == process => {
                run.inside.push(Gap { start: run.end, end: start });
                run.end = end;
            }
            _ => runs.push(Run { process, start, end, inside: Vec::new() }),
        }
    }
    let mut ran = vec![false; logs.len()];
    let switch = |(run, pair): (usize, &[Run])| {
        ran[pair[0].process] = true;
        Switch {
            run,
            from: pair[0].process,
            to: pair[1].process,
            tick: pair[0].end,
            ticks: pair[1].start.checked_sub(pair[0].end),
            is_first: !ran[pair[1].process],
        }
    };
    let switches = runs.windows(2).enumerate().map(switch).collect();
    Line { processes: logs.len(), runs, switches, overlap_ticks }
}

impl Line {
    pub(super) fn span(&self) -> u64 {
        let ends = self.runs.first().zip(self.runs.last());
        ends.map_or(0, |(first, last)| last.end.saturating_sub(first.start))
    }

    /// The runs whose both ends were seen: all but the first and the last.
    pub(super) fn whole(&self) -> &[Run] {
        self.runs.get(1..self.runs.len().saturating_sub(1)).unwrap_or_default()
    }

    fn runs_of(&self, process: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.process == process)
    }

    pub(super) fn ticks_by_process(&self) -> Vec<u64> {
        (0..self.processes).map(|process| self.runs_of(process).map(Run::ran_ticks).sum()).collect()
    }

    /// Share of the time in which no process ran: inside runs, and in all.
    pub(super) fn lost(&self) -> Option<(f64, f64)> {
        let span = self.span();
        let gaps = self.runs.iter().flat_map(|run| &run.inside);
        let inside: u64 = gaps.map(|gap| gap.ticks()).sum();
        let between: u64 = self.switches.iter().filter_map(|of| of.ticks).sum();
        let share = |ticks: u64| ticks as f64 / span as f64;
        (span > 0).then(|| (share(inside), share(inside + between)))
    }

    /// Jain's index of what the processes had: 1 where all had the same, 1 / n where one had all.
    pub(super) fn fairness(&self) -> Option<f64> {
        let had: Vec<f64> = self.ticks_by_process().into_iter().map(|ticks| ticks as f64).collect();
        let sum: f64 = had.iter().sum();
        let squares: f64 = had.iter().map(|ticks| ticks * ticks).sum();
        (squares > 0.0).then(|| sum * sum / (had.len() as f64 * squares))
    }

    /// Processes in the order in which they ran first; those that never ran are not in it.
    pub(super) fn order(&self) -> Vec<usize> {
        let firsts = self.switches.iter().filter(|of| of.is_first).map(|of| of.to);
        self.runs.first().map(|run| run.process).into_iter().chain(firsts).collect()
    }

    /// Share of the switches that gave the CPU to the process that had waited longest: 1 is round
    /// robin. Only those after which every process had run once are looked at; `None` where there
    /// is no such switch.
    pub(super) fn rotation(&self) -> Option<f64> {
        let mut last: Vec<Option<u64>> = vec![None; self.processes];
        let (mut in_turn, mut all) = (0_u64, 0_u64);
        for Switch { from, to, tick, .. } in &self.switches {
            last[*from] = Some(*tick);
            if last.iter().all(Option::is_some) {
                all += 1;
                in_turn += u64::from(last.iter().min() == Some(&last[*to]));
            }
        }
        (all > 0).then(|| in_turn as f64 / all as f64)
    }

    /// How often others ran inside a process' runs, and for how many ticks, if the kernel counted so
    /// many involuntary switches while it logged: those that its log does not show as one, after
    /// which the same one ran again. At most one of them may be its last gap, whose other end lies
    /// behind the window. They had the longest of its interruptions, because an interrupt's handler
    /// is shorter than two switches and a program as a rule. Their time between two runs is part of
    /// the switch and cannot be separated.
    pub(super) fn others(&self, process: usize, counted: u64) -> (u64, u64) {
        let times = counted.saturating_sub(self.runs_of(process).count() as u64);
        let gaps = self.runs_of(process).flat_map(|run| &run.inside);
        let mut lengths: Vec<u64> = gaps.map(|gap| gap.ticks()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        (times, lengths.iter().take(times as usize).sum())
    }
}

#[cfg(test)]
mod tests;
