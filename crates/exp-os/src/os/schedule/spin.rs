//! Processes that do nothing but read the counter, all on one CPU.

use super::line::Log;
use bench::measure::party::{Board, processes};
use bench::prelude::*;
use metal::clock::{monotonic_ns, ticks_fenced};
use metal::gaps::Tracer;
use metal::place::current_cpu;
use metal::process::{Child, Ending, rusage_thread};
use metal::raw::{Scope, futex_wait_for, futex_wake};
use record::order::InOrder;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Word at which the processes wait for the common start.
const GO: usize = 0;
/// How many are ready.
const READY: usize = 1;
/// First and last tick of the window.
const START: usize = 2;
const END: usize = 3;
/// Words of each process: first moment, involuntary and voluntary switches, CPU.
const BORN: usize = 0;
const FORCED: usize = 1;
const GIVEN_UP: usize = 2;
const CPU: usize = 3;
/// Exit status of a process whose room was full.
const FULL: i32 = 3;
/// Exit status after a timeout while waiting for the others.
const LOST: i32 = 4;
/// For how long a process waits for the others.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spin {
    pub(super) processes: usize,
    /// Ticks between two reads from which on it is a gap.
    pub(super) threshold: u64,
    pub(super) window: u64,
    pub(super) room: usize,
}

#[derive(Debug)]
pub(super) struct Spun {
    pub(super) window: (u64, u64),
    /// One for each process, in the order of their making.
    pub(super) logs: Vec<Log>,
    /// Processes in the order in which they ran first after fork.
    pub(super) births: Vec<usize>,
    /// Involuntary switches of each while it logged, as the kernel counted them.
    pub(super) forced: Vec<u64>,
}

/// Makes the processes and waits for their end. The calling thread sleeps while they run: it is on
/// their CPU, and they inherit its priority and its CPU set.
pub(super) fn spin(of: Spin) -> Result<Spun> {
    made(of, |board, number, tracer| body(of, board, number, tracer, PATIENCE))
}

/// Does what [`spin`] does, with processes that run `body` with their number.
fn made(of: Spin, body: impl Fn(&Board, usize, &mut Tracer) -> i32) -> Result<Spun> {
    let board = Board::new(of.processes)?;
    let mut tracers = (0..of.processes)
        .map(|_| Tracer::with_room(of.room))
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("room for {} gaps of {} processes", of.room, of.processes))?;
    let cpu = current_cpu();
    let children = processes(0..of.processes, |number| body(&board, number, &mut tracers[number]))?;
    let endings: Vec<Ending> = children.into_iter().map(Child::wait).collect::<Result<_, _>>()?;
    check_endings(of, &endings)?;
    for number in 0..of.processes {
        let (on, gave_up) = (board.get(number, CPU), board.get(number, GIVEN_UP));
        ensure!(
            on == cpu as u64,
            "process {} ended on CPU {on}, the round is on CPU {cpu}",
            number + 1
        );
        ensure!(
            gave_up == 0,
            "process {} gave up the CPU {gave_up} times in the window: its loop never waits, so it \
             was stopped (SIGSTOP, a frozen control group, a debugger)",
            number + 1
        );
    }
    let mut births: Vec<usize> = (0..of.processes).collect();
    births.order_by_key(|number| board.get(*number, BORN));
    let log = |tracer: &Tracer| Log {
        first: tracer.first(),
        last: tracer.last(),
        gaps: tracer.gaps().to_vec(),
    };
    Ok(Spun {
        window: (board.common(START).load(Acquire), board.common(END).load(Acquire)),
        logs: tracers.iter().map(log).collect(),
        births,
        forced: (0..of.processes).map(|number| board.get(number, FORCED)).collect(),
    })
}

/// All ended as they should. One that ended otherwise is named before those that waited for it.
fn check_endings(of: Spin, endings: &[Ending]) -> Result<()> {
    let rank = |ending: &Ending| match ending {
        Ending::Exited(0) => None,
        Ending::Exited(FULL) => Some(1),
        Ending::Exited(LOST) => Some(2),
        _ => Some(0),
    };
    let ended = endings.iter().enumerate().filter_map(|(at, of)| Some((rank(of)?, at + 1)));
    match ended.min() {
        None => Ok(()),
        Some((0, number)) => {
            bail!("process {number} of {} ended {}", endings.len(), endings[number - 1])
        }
        Some((1, number)) => {
            bail!("process {number} found more than {} gaps before the window's end", of.room)
        }
        Some((_, number)) => {
            bail!("process {number} timed out waiting for the others to be ready")
        }
    }
}

/// A process: meets the others, then reads the counter until the window's end.
fn body(of: Spin, board: &Board, number: usize, tracer: &mut Tracer, patience: Duration) -> i32 {
    board.word(number, BORN).store(ticks_fenced(), Relaxed);
    // All that the window touches is touched now.
    tracer.begin();
    tracer.run(u64::MAX, 1);
    let go = board.common_half(GO);
    if board.common(READY).fetch_add(1, SeqCst) + 1 == of.processes as u64 {
        // The others wait, or see the word before they do: none needs the parent, which sleeps.
        let start = ticks_fenced();
        board.common(START).store(start, Relaxed);
        board.common(END).store(start + of.window, Relaxed);
        go.store(1, Release);
        if futex_wake(go, u32::MAX >> 1, Scope::Machine).is_err() {
            return LOST;
        }
    }
    let deadline_ns = monotonic_ns() + patience.as_nanos() as u64;
    while go.load(Acquire) == 0 {
        let waited = futex_wait_for(go, 0, Scope::Machine, patience);
        // One that ended before it was ready is not waited for: the parent reports that.
        if waited.is_err() || monotonic_ns() >= deadline_ns && go.load(Acquire) == 0 {
            return LOST;
        }
    }
    let end = board.common(END).load(Relaxed);
    let before = rusage_thread();
    tracer.begin();
    let fits = tracer.until(of.threshold, end);
    let after = rusage_thread();
    board.word(number, FORCED).store(after.nivcsw - before.nivcsw, Relaxed);
    board.word(number, GIVEN_UP).store(after.nvcsw - before.nvcsw, Relaxed);
    board.word(number, CPU).store(current_cpu() as u64, Release);
    if fits { 0 } else { FULL }
}

#[cfg(test)]
mod tests {
    use super::super::line::merged;
    use super::*;
    use metal::place;

    #[test]
    fn processes_on_one_cpu_never_run_at_once() {
        let work = std::thread::spawn(|| {
            let cpu = place::allowed().expect("CPUs")[0];
            place::pin(cpu).expect("is allowed");
            spin(Spin { processes: 3, threshold: 2_000, window: 20_000_000, room: 4096 })
        });
        let spun = work.join().expect("does not panic").expect("is measured");
        assert_eq!((spun.logs.len(), spun.forced.len()), (3, 3));
        let mut births = spun.births.clone();
        births.sort_unstable();
        assert_eq!(births, [0, 1, 2]);
        assert_eq!(spun.window.1 - spun.window.0, 20_000_000);
        for log in &spun.logs {
            assert!(spun.window.0 <= log.first && log.first <= log.last);
            assert!(log.last >= spun.window.1);
        }
        let line = merged(&spun.logs, spun.window);
        assert!(!line.runs.is_empty());
        assert_eq!(line.overlap_ticks, 0);
        assert!(line.fairness().is_some());
    }

    #[test]
    fn one_that_ends_before_the_start_is_named_and_does_not_hold_the_others() {
        let of = Spin { processes: 3, threshold: 2_000, window: 1_000_000, room: 64 };
        let error = made(of, |board, number, tracer| match number {
            2 => 7,
            _ => body(of, board, number, tracer, Duration::from_millis(20)),
        })
        .expect_err("one is missing");
        assert!(error.to_string().contains("process 3"), "{error}");
    }

    #[test]
    fn a_room_that_is_too_small_is_an_error() {
        let error = spin(Spin {
            processes: 2,
            // Every turn is a gap: they end at once, unless they start after the window.
            threshold: 0,
            window: 2_000_000_000,
            room: 16,
        })
        .expect_err("no room");
        assert!(error.to_string().contains("more than 16 gaps"), "{error:#}");
    }
}
