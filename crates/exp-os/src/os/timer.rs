//! What does a timer cost, and how late is it?
//!
//! ## Question
//!
//! What does it cost to arm and to cancel a timer, and how late does each of the kernel's timers
//! wake its waiter?
//!
//! ## Method
//!
//! `lateness`: one pinned thread requests a wake-up after `delay` and reads the monotonic clock
//! before and after the call; the figure is the difference less `delay`, including the call itself.
//! `clock_nanosleep` sleeps until an absolute time, and its figure counts from there. `setitimer`
//! sends a signal to the process: a single-threaded child arms it and receives the signal with
//! rt_sigtimedwait. Every wake-up is an event.
//!
//! `arm`: a timer a second ahead is armed and disarmed, n against 2n in ABBA quartets.
//!
//! ## Prediction
//!
//! `arm` is two system calls and two changes of the timers' tree. `lateness` is the slack
//! (/proc/self/timerslack_ns; timerfd and setitimer have none), the exit from the deepest idle state
//! that pays within the delay, the timer's interrupt and a switch; in a guest also the hypervisor's
//! part in halts and timers, on a real-time kernel the softirq thread's switch. The derived
//! predictions use the figures of os.syscall and os.switch.
//!
//! ## Reading the result
//!
//! A delay of 50 µs is the slack: `slack=least` shows the effect of PR_SET_TIMERSLACK. The rest is
//! the interrupt and the wake-up, without idle states at `load=same`.
//!
//! ## Pitfalls
//!
//! `setitimer` counts in whole µs and adds one, so it is later by up to 1 µs. Another timer's
//! interrupt within the slack makes single wake-ups earlier. A guest's timer is the hypervisor's,
//! which may merge or delay it.
//!
//! ## Sources
//!
//! [man] nanosleep(2), timerfd_create(2), setitimer(2), epoll_wait(2), prctl(2) PR_SET_TIMERSLACK;
//! [linux] kernel/time/hrtimer.c, itimer.c and fs/timerfd.c. The tree's cycles are an estimate.

use crate::noise::wakeup::load::Loads;
use crate::noise::wakeup::{Load, Slack};
use bench::prelude::*;
use laws::os;
use laws::os::timer::{self as law, Wait};
use metal::clock::{Clock, vdso_clock_gettime};
use metal::memory::SharedWords;
use metal::process::Child;
use metal::sleep::{TimerSlack, until};
use metal::timer::{TimerFd, arm_alarm, epoll_wait_for, sleep, wait_alarm};
use metal::{raw, signal};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

bench::experiment!(Timer);

/// Time of a round in which a case wakes up, and how often at least and at most.
const WAKING_NS: u64 = 20_000_000;
const WAKE_UPS: (u64, u64) = (2, 400);
/// How far ahead the timer is that never expires, and how long a signal is waited for.
const FAR_AHEAD_NS: u64 = 1_000_000_000;
const US: u64 = 1_000;
const SIGALRM: i32 = 14;

symbols! {
    /// A timer.
    pub enum Via {
        Nanosleep = "nanosleep",
        ClockNanosleep = "clock_nanosleep",
        Timerfd = "timerfd",
        Setitimer = "setitimer",
        EpollWait = "epoll_wait",
    }
}
case! {
    /// A timer, and how it is used.
    pub struct Timed {
        /// the timer
        timer: Via,
        /// after how long it is to wake its waiter; without it the timer is armed and cancelled
        delay: Option<u64> = Domain::ns(US, 10_000_000 * US),
        /// what else runs: nothing, or a process that spins on the waiter's CPU
        load: Option<Load> = Domain::Symbols(&["idle", "same"]),
        /// the waiter's timer slack: as the process has it, or 1 ns; timerfd and setitimer have
        /// none
        slack: Option<Slack>,
    }
}

const LATE: &str = "from the requested time to the waiter's first reading of the clock";

static CARD: Card = Card {
    id: "os.timer",
    title: "Timers",
    metrics: metrics! {
        "lateness" => Ns Lower Os over All: LATE;
        "arm" => Ns Lower Os: "a timer armed and cancelled";
    },
    params: Timed::PARAMS,
    after: &["clock.rate", "os.syscall", "os.switch"],
    views: &[ViewCard::bars("lateness").each(&["delay"])],
    ..Card::PLAIN
};

impl Experiment for Timer {
    type Case = Timed;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("timer.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let waking = |delay| delay * (count(delay) + 1) + 3_000 * US;
        let of = |case: &Case| case.int("delay").map_or(site.case_ns, waking);
        Duration::from_millis(30) + Duration::from_nanos(series.cases.iter().map(of).sum())
    };

    fn cases(_: &Site, preset: Preset) -> Vec<Timed> {
        let delays: &[u64] = match preset {
            Preset::Rehearsal | Preset::Quick => &[100 * US],
            Preset::Standard => &[100 * US, 1_000 * US],
            Preset::Thorough => &[100 * US, 10 * US, 1_000 * US, 10_000 * US],
        };
        let all = Via::ALL.iter().flat_map(|&timer| {
            let slacks: &[Option<Slack>] = match timer {
                Via::Timerfd | Via::Setitimer => &[None],
                _ => &[Some(Slack::Default), Some(Slack::Least)],
            };
            let of = move |delay, load, slack| Timed { timer, delay, load, slack };
            let arm = (slacks == [None]).then(|| of(None, None, None));
            let loads = delays.iter().flat_map(|at| [Load::Idle, Load::Same].map(|it| (*at, it)));
            let waits = loads.flat_map(move |(delay, load)| {
                slacks.iter().map(move |slack| of(Some(delay), Some(load), *slack))
            });
            arm.into_iter().chain(waits)
        });
        // Off the plain case in one, at the first delay of the main timers; in thorough in all.
        all.filter(|case| {
            let is_main = matches!(case.timer, Via::Nanosleep | Via::Timerfd);
            match u8::from(case.load == Some(Load::Same))
                + u8::from(case.slack == Some(Slack::Least))
            {
                _ if preset == Preset::Thorough => true,
                0 => is_main || preset > Preset::Quick,
                away => away == 1 && is_main && case.delay == Some(delays[0]),
            }
        })
        .collect()
    }

    fn absent(site: &Site, case: &Timed, _: &Params) -> Option<Skip> {
        if case.timer == Via::EpollWait && site.host.kernel.numbers()? < (5, 11) {
            return Some(Skip::because("this kernel has no epoll_pwait2").needs("Linux 5.11"));
        }
        let quota = site.host.limits.cpu_quota?.cpus();
        let why = "a spinning process would exhaust the control group's quota";
        let is_short = case.load == Some(Load::Same) && quota < 1.0;
        is_short.then(|| Skip::because(why).needs("a higher cpu.max"))
    }

    fn law(facts: Facts, case: &Timed, _: &Case, metric: &Metric) -> Option<Prediction> {
        let law = match (case.delay, &*metric.name) {
            (None, "arm") if os::says_more(facts) => law::arm(facts),
            (Some(ns), "lateness") if facts.known.is_none_or(law::is_known) => {
                let is_crowded = case.load == Some(Load::Same);
                let has_slack = case.slack == Some(Slack::Default);
                law::lateness(facts, Wait { ns, is_crowded, has_slack })
            }
            _ if facts.known.is_some() => return None,
            (None, _) => return Some(unknown("not measured: it is cancelled and wakes no thread")),
            _ => {
                return Some(unknown("not measured: this case times the wake-up, not the request"));
            }
        };
        Some(law.prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut loads = Loads::default();
        bench.each_of::<Timed>(series, |bench, case, timed| match timed.delay {
            Some(delay) => wake(bench, case, &timed, delay, &mut loads),
            None => arm(bench, case, timed.timer),
        });
        Ok(())
    }
}

fn count(delay: u64) -> u64 {
    (WAKING_NS / delay).clamp(WAKE_UPS.0, WAKE_UPS.1)
}

/// A timer armed and cancelled. Each has a loop of its own.
fn arm(bench: &mut Bench, case: &Case, timer: Via) -> Result<()> {
    let fd = TimerFd::new().context("a timer")?;
    let body = |n| (0..n).try_for_each(|_| Ok(fd.arm(FAR_AHEAD_NS).and_then(|()| fd.arm(0))?));
    let alarm =
        |n| (0..n).try_for_each(|_| Ok(arm_alarm(FAR_AHEAD_NS).and_then(|()| arm_alarm(0))?));
    match timer {
        Via::Timerfd => bench.time(case, "arm", body)?,
        Via::Setitimer => bench.time(case, "arm", alarm)?,
        _ => bail!("{} cannot be armed without waiting", timer.text()),
    };
    Ok(())
}

fn wake(bench: &mut Bench, case: &Case, of: &Timed, delay: u64, loads: &mut Loads) -> Result<()> {
    let rehearsal = bench.order().rehearsal;
    let count = if rehearsal { WAKE_UPS.0 } else { count(delay) };
    let cpus = [bench.order().cpu()];
    let cpus = if of.load == Some(Load::Same) { &cpus[..] } else { &[] };
    let woken = loads.beside(cpus, rehearsal, || {
        let is_least = of.slack == Some(Slack::Least);
        let slack = is_least.then(|| TimerSlack::set(1)).transpose();
        slack.context("setting the timer slack").and_then(|_slack| wake_ups(of.timer, delay, count))
    })?;
    if !cpus.is_empty() {
        // To lose the CPU to the spinner is what such a case is about.
        bench.declare(Declared::Switches(2 * count));
    }
    bench.record(case, "lateness", woken)?;
    Ok(())
}

/// How late each of some wake-ups was, in ns.
fn wake_ups(timer: Via, delay: u64, count: u64) -> Result<Vec<f64>> {
    match timer {
        Via::Nanosleep => waits(delay, count, |_| Ok(sleep(delay)?)),
        Via::ClockNanosleep => waits(delay, count, |now| Ok(until(Clock::MONOTONIC, now + delay)?)),
        Via::Timerfd => {
            let fd = TimerFd::new().context("a timer")?;
            waits(delay, count, |_| {
                fd.arm(delay)?;
                ensure!(fd.wait()? == 1, "it expired twice");
                Ok(())
            })
        }
        Via::EpollWait => {
            let epoll = raw::epoll_create().context("an epoll set")?;
            waits(delay, count, |_| {
                ensure!(epoll_wait_for(epoll.as_fd(), delay)? == 0, "one of none is ready");
                Ok(())
            })
        }
        // Its signal is the process's, so that process has one thread.
        Via::Setitimer => {
            let words = SharedWords::new(usize::try_from(count)?)?;
            let child = Child::fork(|| {
                let alarm =
                    |_| Ok(arm_alarm(delay).and_then(|()| wait_alarm(FAR_AHEAD_NS + delay))?);
                let blocked = signal::block(&[SIGALRM]).context("blocking SIGALRM");
                let late = blocked.and_then(|()| waits(delay, count, alarm));
                for (word, ns) in words.iter().zip(late.iter().flatten()) {
                    word.store(ns.to_bits(), Ordering::Release);
                }
                i32::from(late.is_err())
            })?;
            child.succeed().context("a signal did not arrive")?;
            let late = words.iter().take(count as usize);
            Ok(late.map(|word| f64::from_bits(word.load(Ordering::Acquire))).collect())
        }
    }
}

/// Waits again and again; the first, which touches what the others use, is not counted.
fn waits(delay: u64, count: u64, mut wait: impl FnMut(u64) -> Result<()>) -> Result<Vec<f64>> {
    let now = || vdso_clock_gettime(Clock::MONOTONIC);
    let mut once = || {
        let before = now();
        wait(before)?;
        Ok(now() as f64 - (before + delay) as f64)
    };
    once()?;
    (0..count).map(|_| once()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timer_is_late() {
        for &timer in Via::ALL {
            let late = wake_ups(timer, 200 * US, 3).expect("wakes");
            assert!(late.len() == 3 && late.iter().all(|ns| *ns >= 0.0), "{timer:?}: {late:?}");
        }
    }
}
