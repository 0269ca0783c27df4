//! Processes that do nothing but read the counter, all on one CPU.

use super::line::Log;
use bench::measure::team::{Failed, Fault, Seat, Team};
use bench::prelude::*;
use metal::clock::ticks_fenced;
use metal::gaps::Tracer;
use metal::place::current_cpu;
use record::order::InOrder;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// First and last tick of the window.
const START: usize = 0;
const END: usize = 1;
/// Word of each process: its first moment.
const BORN: usize = 0;
/// Fault of a process whose room was full.
const FULL: u32 = 1;
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
    made(of, PATIENCE, |seat, tracer| body(of, seat, tracer))
}

/// Does what [`spin`] does, with processes that run `body`.
fn made(
    of: Spin,
    patience: Duration,
    body: impl Fn(&Seat<'_>, &mut Tracer) -> Result<(), Fault>,
) -> Result<Spun> {
    let mut tracers = (0..of.processes)
        .map(|_| Tracer::with_room(of.room))
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("room for {} gaps of {} processes", of.room, of.processes))?;
    let cpu = current_cpu();
    let team = Team::new(vec![None; of.processes])?.patient(patience);
    let team = team.processes(tracers.iter_mut(), |seat, tracer| body(seat, tracer))?;
    let team = team.end().map_err(|failed| match failed {
        Failed { number, fault: Fault::Body(_), .. } => {
            let (number, room) = (number + 1, of.room);
            anyhow!("process {number} found more than {room} gaps before the window's end")
        }
        failed => failed.into(),
    })?;
    for number in 0..of.processes {
        let (on, gave_up) = (team.report(number).cpu, team.report(number).voluntary);
        let number = number + 1;
        ensure!(on == cpu, "process {number} ended on CPU {on}, the round is on CPU {cpu}");
        ensure!(
            gave_up == 0,
            "process {number} gave up the CPU {gave_up} times in the window: its loop never waits, \
             so it was stopped (SIGSTOP, a frozen control group, a debugger)"
        );
    }
    let mut births: Vec<usize> = (0..of.processes).collect();
    births.order_by_key(|number| team.get(*number, BORN));
    let log = |tracer: &Tracer| Log {
        first: tracer.first(),
        last: tracer.last(),
        gaps: tracer.gaps().to_vec(),
    };
    Ok(Spun {
        window: (team.common(START).load(Acquire), team.common(END).load(Acquire)),
        logs: tracers.iter().map(log).collect(),
        births,
        forced: (0..of.processes).map(|number| team.report(number).involuntary).collect(),
    })
}

/// A process: meets the others, then reads the counter until the window's end.
fn body(of: Spin, seat: &Seat<'_>, tracer: &mut Tracer) -> Result<(), Fault> {
    seat.word(BORN).store(ticks_fenced(), Relaxed);
    // All that the window touches is touched now.
    tracer.begin();
    tracer.run(u64::MAX, 1);
    // None needs the parent, which sleeps.
    seat.meet_then(|| {
        let start = ticks_fenced();
        seat.team.common(START).store(start, Relaxed);
        seat.team.common(END).store(start + of.window, Relaxed);
    })?;
    let end = seat.team.common(END).load(Relaxed);
    let fits = seat.counted(|| {
        tracer.begin();
        tracer.until(of.threshold, end)
    });
    if fits { Ok(()) } else { Err(Fault::Body(FULL)) }
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
        let error = made(of, Duration::from_secs(10), |seat, tracer| match seat.number {
            2 => Err(Fault::System(7)),
            _ => body(of, seat, tracer),
        })
        .expect_err("one is missing");
        assert!(error.to_string().contains("member 3"), "{error}");
        // One that ends without a word is missed after a while.
        let error = made(of, Duration::from_millis(20), |seat, tracer| match seat.number {
            2 => panic!("a panic that is survived"),
            _ => body(of, seat, tracer),
        })
        .expect_err("one is missing");
        assert!(error.to_string().contains("member 3"), "{error}");
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
