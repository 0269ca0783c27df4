//! Three sources of the tick: the gaps, the coarse clock, and the counts of the timer's interrupts.

use super::seen::Seen;
use host::{Root, parse_cpus};

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

/// The list of tickless CPUs, if there is one.
pub(super) fn nohz_full(root: &Root) -> Option<String> {
    let list = root.line("sys/devices/system/cpu/nohz_full")?;
    Some(list.trim().to_owned()).filter(|list| !parse_cpus(list).is_empty())
}

/// Timer interrupts a second; `None` if they are unknown.
fn timer_hz(seen: &Seen) -> Option<f64> {
    let rows = seen.of_cpu()?.interrupts.as_ref()?;
    let count: u64 = rows.iter().filter(|row| row.is_timer).map(|row| row.count).sum();
    Some(count as f64 / (seen.evidence.counted_ns * 1e-9).max(1e-9))
}

pub(super) fn quantities(seen: &Seen) -> Vec<(&'static str, Option<f64>)> {
    let tick = seen.tick.as_ref();
    vec![
        ("coarse_clock_ns", Some(seen.look.coarse_ns)),
        ("timer_interrupts_hz", timer_hz(seen)),
        ("phase_resultant", tick.map(|tick| tick.resultant)),
        ("phase_rayleigh_p", tick.map(|tick| tick.rayleigh_p)),
        ("by_chance_p", tick.map(|tick| tick.p)),
        ("on_grid_count", tick.map(|tick| tick.on_grid as f64)),
        ("occupied_ratio", tick.map(|tick| tick.occupied)),
    ]
}

/// All of it in the first round; in others what does not agree, without figures. `nohz_full` is the
/// list of tickless CPUs.
pub(super) fn verdict(seen: &Seen, nohz_full: Option<&str>, round: u32) -> Option<String> {
    let told = |(words, figures): (&str, String)| match figures.is_empty() || round > 1 {
        true => words.to_owned(),
        false => format!("{words} ({figures})"),
    };
    let verdict: Vec<String> = disagreement(seen, nohz_full).into_iter().map(told).collect();
    if round > 1 {
        return (!verdict.is_empty()).then(|| verdict.join("; "));
    }
    let verdict = if verdict.is_empty() { "they agree".to_owned() } else { verdict.join("; ") };
    let gaps = seen.starts_ns.len();
    let phase = match &seen.tick {
        Some(tick) => format!(
            "the phase of {} of {gaps} gaps gives a tick of {:.4} ms in {:.0} % of its cycles",
            tick.events,
            tick.period_ns * 1e-6,
            100.0 * tick.occupied,
        ),
        None => format!("the phase of {gaps} gaps gives no tick of that period"),
    };
    let timers = match timer_hz(seen) {
        Some(hz) => format!("{hz:.0} timer interrupts a second in /proc/interrupts"),
        None => "no timer interrupts in /proc/interrupts".to_owned(),
    };
    Some(format!(
        "{phase}; {:.4} ms by clock_getres(CLOCK_MONOTONIC_COARSE); {timers}: {verdict} (round 1)",
        seen.look.coarse_ns * 1e-6
    ))
}

/// Why they do not say the same, if so, with figures.
fn disagreement(seen: &Seen, nohz_full: Option<&str>) -> Vec<(&'static str, String)> {
    let coarse_hz = 1e9 / seen.look.coarse_ns;
    let ends_hz = AT_THE_ENDS / seen.seconds().max(1e-9);
    let timer_hz = timer_hz(seen);
    if seen.tick.is_some() {
        return match timer_hz {
            Some(hz) if hz < FEWER * coarse_hz - ends_hz => {
                vec![(FEWER_INTERRUPTS, format!("{hz:.0} a second"))]
            }
            Some(hz) if hz > MORE * coarse_hz + ends_hz => {
                vec![(MORE_INTERRUPTS, format!("{:.0} a second besides the tick", hz - coarse_hz))]
            }
            _ => Vec::new(),
        };
    }
    let no_tick = match timer_hz {
        None => (UNKNOWN, String::new()),
        Some(hz) if hz < TICKLESS * coarse_hz => {
            let cpu = seen.look.cpu;
            let listed = listed(cpu, nohz_full);
            let figures = format!(
                "{hz:.1} timer interrupts a second on CPU {cpu}, not {coarse_hz:.0}; {listed}"
            );
            (TICKLESS_CPU, figures)
        }
        Some(_) => {
            let steal = match seen.of_cpu().and_then(|of_cpu| of_cpu.steal_ns) {
                Some(ns) => format!("{:.0} ms", ns as f64 * 1e-6),
                None => "unknown".to_owned(),
            };
            let lost = 100.0 * seen.traced.lost();
            (HIDDEN, format!("they took {lost:.1} % of the time in all, steal {steal}"))
        }
    };
    let foreign = seen.foreign.as_ref().map(|foreign| {
        let (ms, p) = (foreign.period_ns * 1e-6, foreign.p);
        (FOREIGN, format!("{ms:.4} ms, by chance p {p:.0e}"))
    });
    [no_tick].into_iter().chain(foreign).collect()
}

fn listed(cpu: usize, nohz_full: Option<&str>) -> String {
    match nohz_full {
        Some(list) if parse_cpus(list).contains(&cpu) => {
            format!("nohz_full lists CPU {cpu}: {list}")
        }
        Some(list) => format!("though nohz_full, {list}, does not list CPU {cpu}"),
        None => "though there is no nohz_full list".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::*;
    use stats::phase::tick;

    /// A window of 200 ms with a tick of this period, and so many interrupts of the timer a second.
    fn ticking(period_ms: Option<f64>, timer_hz: Option<u64>) -> Seen {
        let starts = (0..50).map(|at| period_ms.unwrap_or(1.0) * 1e6 * f64::from(at));
        let starts: Vec<f64> = starts.filter(|_| period_ms.is_some()).collect();
        let mut seen = seen();
        (seen.tick, seen.foreign) = (tick(&starts, &[4e6]), tick(&starts, &foreign_ns(4e6)));
        let evidence = std::sync::Arc::get_mut(&mut seen.evidence).expect("one owner");
        evidence.counted_ns = 1e9;
        let of_cpu = evidence.cpus.get_mut(&0).unwrap();
        match timer_hz {
            Some(hz) => of_cpu.interrupts.as_mut().unwrap()[0].count = hz,
            None => of_cpu.interrupts = None,
        }
        seen
    }

    #[test]
    fn each_disagreement_has_its_kind_and_later_rounds_have_no_figures() {
        for (period_ms, timer_hz, kinds) in [
            (Some(4.0), Some(251), &[][..]),
            (Some(4.0), None, &[]),
            // A window of 200 ms may miss a tick at each end.
            (Some(4.0), Some(216), &[]),
            (Some(4.0), Some(600), &[MORE_INTERRUPTS]),
            (Some(4.0), Some(2), &[FEWER_INTERRUPTS]),
            (Some(4.0), Some(200), &[FEWER_INTERRUPTS]),
            (None, Some(1), &[TICKLESS_CPU]),
            (None, Some(250), &[HIDDEN]),
            (None, None, &[UNKNOWN]),
            // The kernel says what its tick is: what keeps another usual period is not that.
            (Some(10.0), Some(100), &[TICKLESS_CPU, FOREIGN]),
            (Some(10.0), Some(250), &[HIDDEN, FOREIGN]),
        ] {
            let seen = ticking(period_ms, timer_hz);
            let found = disagreement(&seen, None);
            let words: Vec<&str> = found.iter().map(|(words, _)| *words).collect();
            assert_eq!(words, kinds);
            assert!(verdict(&seen, None, 1).is_some());
            assert_eq!(verdict(&seen, None, 2), (!kinds.is_empty()).then(|| kinds.join("; ")));
        }
    }

    #[test]
    fn a_tickless_cpu_has_the_list_as_evidence() {
        let listed = |list| listed(3, list);
        assert!(listed(Some("2-3")).contains("2-3") && listed(Some("1")).contains("does not"));
        assert_ne!(listed(None), listed(Some("1")));
    }

    #[test]
    fn only_other_periods_are_foreign() {
        assert_eq!(foreign_ns(4e6), [10e6, 1e7 / 3.0, 1e6]);
        assert_eq!(foreign_ns(2e6).len(), 4);
    }
}
