//! Three sources of the tick: the gaps, the coarse clock, and the counts of the timer's interrupts.

use super::seen::Seen;
use host::{Root, parse_cpus};
use stats::phase::Tick;

/// The kernels' usual periods, in ns.
const USUAL_NS: [f64; 4] = [10e6, 4e6, 1e7 / 3.0, 1e6];
/// Periods and rates that are so near are the same.
const SAME: f64 = 0.02;
/// Share of the tick's rate below which timer interrupts are no tick's …
const TICKLESS: f64 = 0.5;
/// … below which some of them are missing …
const FEWER: f64 = 0.9;
/// … and above which there are others beside the tick's.
const MORE: f64 = 1.2;
/// What the three disagree about.
const TICKLESS_CPU: &str = "tickless: no tick";
const HIDDEN: &str = "there are timer interrupts, but gaps do not keep their phase: too few, or hidden by other \
     gaps";
const UNKNOWN: &str = "no tick among the gaps, and no counter of timer interrupts: it is unknown \
                       whether the CPU is tickless";
const FOREIGN: &str = "gaps have a period that is not this kernel's: another timer, or the \
                       hypervisor's tick";
const FEWER_INTERRUPTS: &str =
    "fewer timer interrupts than ticks: some ticks arrive as other interrupts";
const MORE_INTERRUPTS: &str = "more timer interrupts than ticks: other timers expire here";

/// Ticks at a window's ends, where counters are read a little before and after it.
const AT_THE_ENDS: f64 = 2.0;

/// Periods of others' ticks: the usual ones that are not the kernel's own.
pub(super) fn foreign_ns(coarse_ns: f64) -> Vec<f64> {
    let usual = USUAL_NS.into_iter();
    usual.filter(|usual| !same(*usual, coarse_ns)).collect()
}

fn same(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() <= SAME
}

pub(super) struct Ticking {
    cpu: usize,
    /// From the gaps' phase.
    tick: Option<Tick>,
    /// Otherwise another's.
    foreign: Option<Tick>,
    gaps: usize,
    /// From the coarse clock.
    coarse_ns: f64,
    /// Timer interrupts a second; `None` if they are unknown.
    timer_hz: Option<f64>,
    /// Length of the window.
    seconds: f64,
    /// The list of tickless CPUs, if there is one.
    nohz_full: Option<String>,
    steal_ns: Option<u64>,
    /// Share of the window that gaps took.
    lost: f64,
}

impl Ticking {
    pub(super) fn of(seen: &Seen, cpu: usize, coarse_ns: u64, root: &Root) -> Ticking {
        let of_cpu = seen.evidence.cpus.get(&cpu);
        let rows = of_cpu.and_then(|cpu| cpu.interrupts.as_ref());
        let timers = rows.map(|rows| {
            let timers = rows.iter().filter(|row| row.is_timer);
            timers.map(|row| row.count).sum::<u64>() as f64
        });
        let list = root.line("sys/devices/system/cpu/nohz_full");
        let list = list.map(|list| list.trim().to_owned());
        Ticking {
            cpu,
            tick: seen.tick.clone(),
            foreign: seen.foreign.clone(),
            seconds: seen.seconds(),
            gaps: seen.starts_ns.len(),
            coarse_ns: coarse_ns as f64,
            timer_hz: timers.map(|count| count / (seen.evidence.counted_ns * 1e-9).max(1e-9)),
            nohz_full: list.filter(|list| !parse_cpus(list).is_empty()),
            steal_ns: of_cpu.and_then(|cpu| cpu.steal_ns),
            lost: seen.traced.lost(),
        }
    }

    pub(super) fn quantities(&self) -> Vec<(&'static str, f64)> {
        let mut named = vec![("coarse_clock_ns", self.coarse_ns)];
        named.extend(self.timer_hz.map(|hz| ("timer_interrupts_hz", hz)));
        if let Some(tick) = &self.tick {
            named.extend([
                ("phase_resultant", tick.resultant),
                ("phase_rayleigh_p", tick.rayleigh_p),
                ("by_chance_p", tick.p),
                ("on_grid_count", tick.on_grid as f64),
                ("occupied_ratio", tick.occupied),
            ]);
        }
        named
    }

    /// All of it in the first round; in others what does not agree, without figures.
    pub(super) fn told(&self, round: u32) -> Vec<String> {
        let told = |(words, figures): (&str, String)| match figures.is_empty() || round > 1 {
            true => words.to_owned(),
            false => format!("{words} ({figures})"),
        };
        let verdict: Vec<String> = self.disagreement().into_iter().map(told).collect();
        let mut verdict = verdict.join("; ");
        if round > 1 {
            return Some(verdict).filter(|verdict| !verdict.is_empty()).into_iter().collect();
        }
        if verdict.is_empty() {
            verdict = "they agree".to_owned();
        }
        let phase = match &self.tick {
            Some(tick) => format!(
                "the phase of {} of {} gaps gives a tick of {:.4} ms in {:.0} % of its cycles",
                tick.events,
                self.gaps,
                tick.period_ns * 1e-6,
                100.0 * tick.occupied,
            ),
            None => format!("the phase of {} gaps gives no tick of that period", self.gaps),
        };
        let timers = match self.timer_hz {
            Some(hz) => format!("{hz:.0} timer interrupts a second in /proc/interrupts"),
            None => "no timer interrupts in /proc/interrupts".to_owned(),
        };
        vec![format!(
            "{phase}; {:.4} ms by clock_getres(CLOCK_MONOTONIC_COARSE); {timers}: {verdict} (round 1)",
            self.coarse_ns * 1e-6
        )]
    }

    /// Why they do not say the same, if so, with figures.
    fn disagreement(&self) -> Vec<(&'static str, String)> {
        let coarse_hz = 1e9 / self.coarse_ns;
        let ends_hz = AT_THE_ENDS / self.seconds.max(1e-9);
        match (&self.tick, self.timer_hz) {
            (None, _) => {
                let foreign = self.foreign.as_ref().map(|foreign| {
                    (
                        FOREIGN,
                        format!(
                            "{:.4} ms, by chance p {:.0e}",
                            foreign.period_ns * 1e-6,
                            foreign.p
                        ),
                    )
                });
                std::iter::once(self.no_tick(coarse_hz)).chain(foreign).collect()
            }
            (Some(_), Some(hz)) if hz < FEWER * coarse_hz - ends_hz => {
                vec![(FEWER_INTERRUPTS, format!("{hz:.0} a second"))]
            }
            (Some(_), Some(hz)) if hz > MORE * coarse_hz + ends_hz => {
                vec![(MORE_INTERRUPTS, format!("{:.0} a second besides the tick", hz - coarse_hz))]
            }
            (Some(_), _) => Vec::new(),
        }
    }

    fn no_tick(&self, coarse_hz: f64) -> (&'static str, String) {
        match self.timer_hz {
            None => (UNKNOWN, String::new()),
            Some(hz) if hz < TICKLESS * coarse_hz => (
                TICKLESS_CPU,
                format!(
                    "{hz:.1} timer interrupts a second on CPU {}, not {coarse_hz:.0}; {}",
                    self.cpu,
                    self.listed()
                ),
            ),
            Some(_) => {
                let steal = match self.steal_ns {
                    Some(ns) => format!("{:.0} ms", ns as f64 * 1e-6),
                    None => "unknown".to_owned(),
                };
                let lost = 100.0 * self.lost;
                (HIDDEN, format!("they took {lost:.1} % of the time in all, steal {steal}"))
            }
        }
    }

    fn listed(&self) -> String {
        match &self.nohz_full {
            Some(list) if parse_cpus(list).contains(&self.cpu) => {
                format!("nohz_full lists CPU {}: {list}", self.cpu)
            }
            Some(list) => format!("though nohz_full, {list}, does not list CPU {}", self.cpu),
            None => "though there is no nohz_full list".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::phase::tick;

    fn ticking(period_ms: Option<f64>, timer_hz: Option<f64>, nohz_full: Option<&str>) -> Ticking {
        let starts: Vec<f64> =
            (0..50).map(|at| period_ms.unwrap_or(1.0) * 1e6 * f64::from(at)).collect();
        let starts = period_ms.map_or(Vec::new(), |_| starts);
        Ticking {
            cpu: 3,
            tick: tick(&starts, &[4e6]),
            foreign: tick(&starts, &foreign_ns(4e6)),
            seconds: 0.2,
            gaps: starts.len(),
            coarse_ns: 4e6,
            timer_hz,
            nohz_full: nohz_full.map(str::to_owned),
            steal_ns: Some(0),
            lost: 0.01,
        }
    }

    #[test]
    fn each_disagreement_has_its_kind_and_later_rounds_have_no_figures() {
        let tick = Some(4.0);
        for (ticking, kinds) in [
            (ticking(tick, Some(251.0), None), &[][..]),
            (ticking(tick, None, None), &[]),
            // A window of 200 ms may miss a tick at each end.
            (ticking(tick, Some(216.0), None), &[]),
            (ticking(tick, Some(600.0), None), &[MORE_INTERRUPTS]),
            (ticking(tick, Some(2.0), None), &[FEWER_INTERRUPTS]),
            (ticking(tick, Some(200.0), None), &[FEWER_INTERRUPTS]),
            (ticking(None, Some(1.0), None), &[TICKLESS_CPU]),
            (ticking(None, Some(250.0), None), &[HIDDEN]),
            (ticking(None, None, None), &[UNKNOWN]),
            (ticking(Some(10.0), Some(100.0), None), &[TICKLESS_CPU, FOREIGN]),
            (ticking(Some(10.0), Some(250.0), None), &[HIDDEN, FOREIGN]),
        ] {
            let found = ticking.disagreement();
            let words: Vec<&str> = found.iter().map(|(words, _)| *words).collect();
            assert_eq!(words, kinds);
            assert_eq!(ticking.told(1).len(), 1);
            let later = if kinds.is_empty() { Vec::new() } else { vec![kinds.join("; ")] };
            assert_eq!(ticking.told(2), later);
        }
    }

    #[test]
    fn a_tickless_cpu_has_the_list_as_evidence() {
        let listed = |list| ticking(None, Some(1.0), list).listed();
        assert!(listed(Some("2-3")).contains("2-3") && listed(Some("1")).contains("does not"));
        assert_ne!(listed(None), listed(Some("1")));
    }

    /// The kernel says what its tick is: what keeps another usual period is not that.
    #[test]
    fn only_other_periods_are_foreign() {
        assert_eq!(foreign_ns(4e6).len(), 3);
        assert!(!foreign_ns(4e6).contains(&4e6));
        assert_eq!(foreign_ns(2e6).len(), 4);
        let foreign = ticking(Some(10.0), Some(250.0), None);
        assert!(foreign.tick.is_none() && foreign.foreign.is_some());
    }
}
