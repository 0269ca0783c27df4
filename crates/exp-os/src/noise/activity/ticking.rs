//! Three who know the tick: the gaps, the coarse clock, and the counts of the timer's interrupts.

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
/// A window may begin and end beside a tick, and the counters are read a little before and after it.
const AT_THE_ENDS: f64 = 2.0;

/// Periods of others' ticks: the usual ones that are not the kernel's own.
pub(super) fn foreign_ns(coarse_ns: f64) -> Vec<f64> {
    let usual = USUAL_NS.into_iter();
    usual.filter(|usual| !same(*usual, coarse_ns)).collect()
}

fn same(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() <= SAME
}

/// What each of them says about a CPU.
pub(super) struct Ticking {
    cpu: usize,
    /// From the gaps' phase.
    tick: Option<Tick>,
    /// Another's, where there is none.
    foreign: Option<Tick>,
    gaps: usize,
    /// From the coarse clock.
    coarse_ns: f64,
    /// Timer interrupts a second; `None` where they are not told.
    timer_hz: Option<f64>,
    /// Length of the window.
    seconds: f64,
    /// The list of tickless CPUs, where there is one.
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

    /// For the record of every round, by name.
    pub(super) fn quantities(&self) -> Vec<(String, f64)> {
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
        let owned = |(name, value): (&str, f64)| (name.to_owned(), value);
        named.into_iter().map(owned).collect()
    }

    /// What they say: all of it in the first round; in others what does not agree, without figures, so
    /// that it is told once.
    pub(super) fn told(&self, round: u32) -> Vec<String> {
        let disagreement = self.disagreement();
        if round > 1 {
            let short = |text: &String| text.split(" (").next().unwrap_or(text).to_owned();
            return disagreement.as_ref().map(short).into_iter().collect();
        }
        let phase = match &self.tick {
            Some(tick) => format!(
                "the phase of {} of {} gaps gives a tick of {:.4} ms: {} cycles ({:.0} % of all) have one within \
                 {:.0} us, R {:.3}, Rayleigh's p {}, crowded by chance p {}",
                tick.events,
                self.gaps,
                tick.period_ns * 1e-6,
                tick.on_grid,
                100.0 * tick.occupied,
                tick.tolerance_ns * 1e-3,
                tick.resultant,
                probability(tick.rayleigh_p),
                probability(tick.p),
            ),
            None => format!("the phase of {} gaps gives no tick of that period", self.gaps),
        };
        let timers = match self.timer_hz {
            Some(hz) => format!("{hz:.0} timer interrupts a second in /proc/interrupts"),
            None => "no timer interrupts told by /proc/interrupts".to_owned(),
        };
        let agree = match self.timer_hz {
            Some(_) => "the three agree",
            None => "the two agree",
        };
        let verdict = disagreement.unwrap_or_else(|| agree.to_owned());
        vec![format!(
            "{phase}; {:.4} ms by clock_getres(CLOCK_MONOTONIC_COARSE); {timers}: {verdict} (round 1)",
            self.coarse_ns * 1e-6
        )]
    }

    /// Why they do not say the same, if so. Figures stand in brackets.
    fn disagreement(&self) -> Option<String> {
        let coarse_hz = 1e9 / self.coarse_ns;
        if self.tick.is_none() {
            return Some(self.no_tick(coarse_hz));
        }
        let timer_hz = self.timer_hz?;
        let ends_hz = AT_THE_ENDS / self.seconds.max(1e-9);
        if timer_hz < FEWER * coarse_hz - ends_hz {
            return Some(format!(
                "fewer timer interrupts than ticks: some come as others than the timer's ({timer_hz:.0} a \
                 second)"
            ));
        }
        (timer_hz > MORE * coarse_hz + ends_hz).then(|| {
            format!(
                "more timer interrupts than ticks: other timers run out here ({:.0} a second beside the \
                 tick)",
                timer_hz - coarse_hz
            )
        })
    }

    /// Why the gaps have no tick.
    fn no_tick(&self, coarse_hz: f64) -> String {
        let is_tickless = self.timer_hz.is_some_and(|hz| hz < TICKLESS * coarse_hz);
        let why = match (self.timer_hz, is_tickless) {
            (Some(hz), true) => self.tickless(hz, coarse_hz),
            (Some(_), false) => format!(
                "timer interrupts come, but gaps do not keep their phase: too few, or hidden by others \
                 (who took {:.1} % of the time in all, steal {})",
                100.0 * self.lost,
                self.steal()
            ),
            (None, _) => {
                "no tick among the gaps, and nothing counts the timer's interrupts: whether the \
                          CPU is tickless is not known"
                    .to_owned()
            }
        };
        match &self.foreign {
            Some(foreign) => format!(
                "{why}; they keep another's period, which is not this kernel's: another timer, or the \
                 hypervisor's tick ({:.4} ms, by chance p {})",
                foreign.period_ns * 1e-6,
                probability(foreign.p)
            ),
            None => why,
        }
    }

    /// No tick to find, and the evidence.
    fn tickless(&self, timer_hz: f64, coarse_hz: f64) -> String {
        let list = match &self.nohz_full {
            Some(list) if parse_cpus(list).contains(&self.cpu) => {
                format!("nohz_full lists CPU {}: {list}", self.cpu)
            }
            Some(list) => format!("though nohz_full, {list}, does not list CPU {}", self.cpu),
            None => "though there is no nohz_full list".to_owned(),
        };
        format!(
            "tickless, there is no tick to find ({timer_hz:.1} timer interrupts a second on CPU {}, not \
             {coarse_hz:.0}; {list})",
            self.cpu
        )
    }

    fn steal(&self) -> String {
        match self.steal_ns {
            Some(ns) => format!("{:.0} ms", ns as f64 * 1e-6),
            None => "not told".to_owned(),
        }
    }
}

/// A probability for people.
pub(super) fn probability(p: f64) -> String {
    match p {
        p if p < 1e-300 => "< 1e-300".to_owned(),
        p if p < 1e-3 => format!("{p:.0e}"),
        p => format!("{p:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ticking, foreign_ns, probability};
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

    #[track_caller]
    fn says(ticking: &Ticking, words: &str) {
        let told = ticking.told(1).join(" ");
        assert!(told.contains(words), "{told}");
    }

    #[test]
    fn all_three_are_told_and_agree() {
        let three = ticking(Some(4.0), Some(251.0), None);
        for words in
            ["4.0000 ms: 50 cycles", "251 timer interrupts", "4.0000 ms by clock", "three agree"]
        {
            says(&three, words);
        }
        assert!(three.told(2).is_empty());
    }

    #[test]
    fn a_tickless_cpu_is_said_to_be_one_with_the_evidence() {
        let with_list = ticking(None, Some(1.0), Some("2-3"));
        says(&with_list, "tickless, there is no tick to find (1.0 timer interrupts");
        says(&with_list, "nohz_full lists CPU 3: 2-3");
        says(&ticking(None, Some(1.0), Some("1")), "does not list CPU 3");
        says(&ticking(None, Some(1.0), None), "no nohz_full list");
        assert_eq!(with_list.told(2), ["tickless, there is no tick to find"]);
    }

    #[test]
    fn each_disagreement_has_its_reason() {
        says(&ticking(None, Some(250.0), None), "do not keep their phase");
        says(&ticking(None, None, None), "is not known");
        says(
            &ticking(Some(10.0), Some(100.0), None),
            "they keep another's period, which is not this kernel's",
        );
        says(&ticking(Some(4.0), Some(600.0), None), "350 a second beside the tick");
        says(&ticking(Some(4.0), Some(2.0), None), "fewer timer interrupts than ticks");
        says(&ticking(Some(4.0), Some(200.0), None), "fewer timer interrupts than ticks");
        // A window of 200 ms may miss a tick at each end.
        says(&ticking(Some(4.0), Some(216.0), None), "the three agree");
        says(&ticking(Some(4.0), None, None), "the two agree");
    }

    /// The kernel says what its tick is: what keeps another usual period is not that.
    #[test]
    fn only_other_periods_are_foreign() {
        assert_eq!(foreign_ns(4e6).len(), 3);
        assert!(!foreign_ns(4e6).contains(&4e6));
        assert_eq!(foreign_ns(2e6).len(), 4);
        let foreign = ticking(Some(10.0), Some(250.0), None);
        assert!(foreign.tick.is_none() && foreign.foreign.is_some());
        says(&foreign, "(10.0000 ms, by chance p");
        // In later rounds without figures.
        assert!(!foreign.told(2)[0].contains("10.0"), "{:?}", foreign.told(2));
    }

    #[test]
    fn probabilities_are_short() {
        assert_eq!(probability(0.0), "< 1e-300");
        assert_eq!(probability(2.2e-16), "2e-16");
    }
}
