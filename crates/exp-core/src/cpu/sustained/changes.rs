//! Where a rate over time changes its level, and what moved with it.

use crate::cpu::peak::load::Load;
use host::counters::Snapshot;
use record::quantity::render;
use record::unit::Unit;
use stats::quantile::median;
use stats::trend::change_points;

/// A level lasts this many seconds at least.
const LEAST: usize = 3;
/// A change of level is named from this relative size on.
const NAMED: f64 = 0.01;
/// A counter explains a change that it moved with by this share.
const EXPLAINS: f64 = 0.5;

/// One block of the load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Second {
    /// Middle of the block, in s since the load began.
    pub at_s: f64,
    /// Operations per second.
    pub rate: f64,
    /// Core clock at the kernel's width, in Hz.
    pub core_hz: Option<f64>,
    /// Share of the CPUs' time that the hypervisor took.
    pub steal: Option<f64>,
    /// Share of the time in which the control group was throttled.
    pub throttled: Option<f64>,
    /// Share of the threads' lives in which they were on no CPU.
    pub taken: Option<f64>,
    /// Times the CPUs' cores and packages began to throttle for heat.
    pub thermal_events: Option<f64>,
}

/// A column of the trace: its name, what it is called in notes, and its value in a block.
type Column = (&'static str, &'static str, fn(&Second) -> Option<f64>);

/// The columns of the trace after time and rate, whose values may not be known.
pub(super) const COLUMNS: [Column; 5] = [
    ("core_hz", "core clock at this width", |second| second.core_hz),
    ("steal_share", "steal", |second| second.steal),
    ("throttled_share", "throttling by the control group", |second| second.throttled),
    ("taken_share", "other load on the CPUs", |second| second.taken),
    ("thermal_events", "thermal throttling", |second| second.thermal_events),
];

impl Second {
    /// A block from one time to another with what the counters of `cpus` CPUs did over it.
    pub(super) fn new(from_s: f64, to_s: f64, load: &Load, moved: &Snapshot, cpus: usize) -> Self {
        let length_ns = (to_s - from_s).max(1e-9) * 1e9;
        let share = |ns: Option<u64>, of: f64| Some(ns? as f64 / (length_ns * of));
        Second {
            at_s: f64::midpoint(from_s, to_s),
            rate: load.rate,
            core_hz: load.core_hz,
            steal: share(moved.steal_ns(), cpus.max(1) as f64),
            throttled: share(moved.throttled_ns, 1.0),
            taken: Some(1.0 - load.had),
            thermal_events: moved.thermal_events().map(|events| events as f64),
        }
    }

    /// Its row of the trace: time, rate, [`COLUMNS`]. What is not known is 0; [`untold`] says so.
    pub(super) fn row(&self) -> Vec<f64> {
        let counted = COLUMNS.map(|(.., of)| of(self).unwrap_or(0.0));
        [self.at_s, self.rate].into_iter().chain(counted).collect()
    }
}

/// A note for each column of the trace that is not known in all blocks or in some.
pub(super) fn untold(seconds: &[Second]) -> Vec<String> {
    let note = |(column, name, of): Column| {
        let unknown = seconds.iter().filter(|second| of(second).is_none()).count();
        if unknown == 0 {
            return None;
        }
        Some(if unknown == seconds.len() {
            format!("{name} is not known in any block: `{column}` is 0 in the trace")
        } else {
            format!(
                "{name} is not known in {unknown} of {} blocks: `{column}` is 0 there in the trace",
                seconds.len()
            )
        })
    };
    COLUMNS.into_iter().filter_map(note).collect()
}

/// A change of level.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// When, in s since the load began.
    pub at_s: f64,
    /// Level before, in operations per second.
    pub from: f64,
    /// Level after.
    pub to: f64,
    /// What moved with it, in words.
    pub cause: String,
}

impl Change {
    /// Whether it is large enough to be named.
    pub(super) fn is_named(&self) -> bool {
        (self.to / self.from - 1.0).abs() >= NAMED
    }

    /// `after 312 s from 1.20 Gop/s to 1.05 Gop/s (-12.5 %): core clock 3.60 to 3.15 GHz`.
    pub(super) fn text(&self, unit: Unit) -> String {
        format!(
            "after {:.1} s from {} to {} ({:+.1} %): {}",
            self.at_s,
            render(self.from, unit),
            render(self.to, unit),
            100.0 * (self.to / self.from - 1.0),
            self.cause
        )
    }
}

/// The changes of level, in order.
pub(super) fn find(seconds: &[Second]) -> Vec<Change> {
    let rates: Vec<f64> = seconds.iter().map(|second| second.rate).collect();
    let mut bounds = vec![0];
    bounds.extend(change_points(&rates, LEAST));
    bounds.push(seconds.len());
    bounds
        .windows(3)
        .filter_map(|three| {
            let (before, after) = (&seconds[three[0]..three[1]], &seconds[three[1]..three[2]]);
            let from = level(before, |second| Some(second.rate))?;
            let to = level(after, |second| Some(second.rate))?;
            Some(Change {
                at_s: f64::midpoint(before.last()?.at_s, after.first()?.at_s),
                from,
                to,
                cause: cause(before, after, to / from - 1.0),
            })
        })
        .collect()
}

fn level(seconds: &[Second], of: impl Fn(&Second) -> Option<f64>) -> Option<f64> {
    median(&seconds.iter().filter_map(of).collect::<Vec<f64>>())
}

fn mean(seconds: &[Second], of: impl Fn(&Second) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = seconds.iter().filter_map(of).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// The counters that moved in the direction of a relative change by at least half its size; each
/// explains what it explains, so there may be several.
fn cause(before: &[Second], after: &[Second], change: f64) -> String {
    let mut causes = Vec::new();
    let mut untold = Vec::new();
    // A share of time that was lost is so much less rate of what is left.
    let mut lost = |name: &'static str, of: fn(&Second) -> Option<f64>| match (
        mean(before, of),
        mean(after, of),
    ) {
        (Some(from), Some(to)) => {
            let effect = (1.0 - to) / (1.0 - from).max(1e-9) - 1.0;
            if effect / change >= EXPLAINS {
                causes.push(format!("{name} {:.1} to {:.1} %", 100.0 * from, 100.0 * to));
            }
        }
        _ => untold.push(name),
    };
    lost("steal", |second| second.steal);
    lost("throttling by the control group", |second| second.throttled);
    lost("other load on these CPUs", |second| second.taken);
    match (level(before, |second| second.core_hz), level(after, |second| second.core_hz)) {
        (Some(from), Some(to)) if (to / from - 1.0) / change >= EXPLAINS => {
            let heat = heat(before, after, change);
            causes.push(format!("{heat}core clock {:.2} to {:.2} GHz", from / 1e9, to / 1e9));
        }
        (Some(_), Some(_)) => {}
        _ => match heat(before, after, change) {
            heat if heat.is_empty() => untold.push("core clock"),
            heat => causes.push(format!("{heat}core clock not known")),
        },
    }
    match (causes.is_empty(), untold.is_empty()) {
        (false, _) => causes.join(", "),
        (true, true) => {
            "unexplained: neither steal, throttling, other load nor the core clock moved with it"
                .to_owned()
        }
        (true, false) => format!("unexplained; not known: {}", untold.join(", ")),
    }
}

/// `thermal throttling (12 events): ` if a drop of the clock came with throttling events: more of them
/// in a block than before it.
fn heat(before: &[Second], after: &[Second], change: f64) -> String {
    let events = |second: &Second| second.thermal_events;
    match (mean(before, events), mean(after, events)) {
        (Some(from), Some(to)) if change < 0.0 && to > from => {
            let sum: f64 = after.iter().filter_map(events).sum();
            format!("thermal throttling ({sum} events): ")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Second, find, untold};
    use record::unit::Unit;

    /// A minute at 1e9 with a little scatter, which `change` alters from second 30 on.
    fn minute(change: impl Fn(&mut Second)) -> Vec<Second> {
        (0..60)
            .map(|at| {
                let mut second = Second {
                    at_s: f64::from(at) + 0.5,
                    rate: 1e9 * (1.0 + 0.001 * f64::from(at * 7 % 5)),
                    core_hz: Some(3.6e9),
                    steal: Some(0.0),
                    throttled: Some(0.0),
                    taken: Some(0.01),
                    thermal_events: Some(0.0),
                };
                if at >= 30 {
                    change(&mut second);
                }
                second
            })
            .collect()
    }

    fn only(seconds: &[Second]) -> String {
        let found = find(seconds);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].at_s - 30.0).abs() < 1e-9 && found[0].is_named());
        found[0].text(Unit::OpPerS)
    }

    #[test]
    fn a_steady_minute_has_no_change() {
        assert_eq!(find(&minute(|_| {})), []);
        assert_eq!(find(&[]), []);
    }

    #[test]
    fn what_moved_with_a_change_is_named() {
        let clock = only(&minute(|second| {
            second.rate *= 0.9;
            second.core_hz = Some(3.24e9);
        }));
        assert!(clock.contains("core clock 3.60 to 3.24 GHz"), "{clock}");
        assert!(clock.starts_with("after 30.0 s") && clock.contains("-10.0 %"), "{clock}");
        let steal = only(&minute(|second| {
            second.rate *= 0.8;
            second.steal = Some(0.2);
        }));
        assert!(steal.contains("steal 0.0 to 20.0 %"), "{steal}");
        let others = only(&minute(|second| {
            second.rate *= 0.6;
            second.taken = Some(0.4);
        }));
        assert!(others.contains("other load on these CPUs 1.0 to 40.0 %"), "{others}");
        let quota = only(&minute(|second| {
            second.rate *= 0.5;
            second.throttled = Some(0.5);
        }));
        assert!(quota.contains("throttling"), "{quota}");
    }

    #[test]
    fn a_clock_that_falls_with_throttling_events_is_named_so() {
        let hot = |change: f64, events: f64| {
            only(&minute(|second| {
                second.rate *= change;
                second.core_hz = Some(3.6e9 * change);
                second.thermal_events = Some(events);
            }))
        };
        let throttled = hot(0.8, 2.0);
        assert!(
            throttled.contains("thermal throttling (60 events): core clock 3.60 to 2.88 GHz"),
            "{throttled}"
        );
        // Without events, and upwards, it is the clock alone.
        for clock in [hot(0.8, 0.0), hot(1.2, 2.0)] {
            assert!(!clock.contains("thermal") && clock.contains("core clock"));
        }
        let blind = only(&minute(|second| {
            second.rate *= 0.8;
            second.core_hz = None;
            second.thermal_events = Some(1.0);
        }));
        assert!(blind.contains("thermal throttling (30 events): core clock not known"), "{blind}");
        // Events while the clock stayed explain nothing.
        let steady = only(&minute(|second| {
            second.rate *= 0.8;
            second.thermal_events = Some(2.0);
        }));
        assert!(steady.contains("unexplained"), "{steady}");
    }

    #[test]
    fn a_column_that_is_not_known_has_its_note() {
        let mut seconds = minute(|_| {});
        assert!(untold(&seconds).is_empty());
        assert_eq!(seconds[0].row().len(), 2 + COLUMNS.len());
        for second in &mut seconds {
            second.steal = None;
        }
        seconds[3].core_hz = None;
        let notes = untold(&seconds);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("1 of 60 blocks") && notes[0].contains("`core_hz`"));
        assert!(notes[1].contains("not known in any block") && notes[1].contains("`steal_share`"));
        assert_eq!(seconds[3].row()[2], 0.0);
    }

    #[test]
    fn what_nothing_moved_with_is_unexplained() {
        let silent = only(&minute(|second| second.rate *= 0.9));
        assert!(silent.contains("unexplained: neither"), "{silent}");
        // A counter that moved the other way, or by little, explains nothing.
        let other = only(&minute(|second| {
            second.rate *= 0.8;
            second.core_hz = Some(3.7e9);
            second.steal = Some(0.02);
        }));
        assert!(other.contains("unexplained"), "{other}");
        let blind = only(&minute(|second| {
            second.rate *= 0.8;
            second.steal = None;
        }));
        assert!(blind.contains("not known: steal"), "{blind}");
    }

    #[test]
    fn a_small_change_is_found_and_not_named() {
        let seconds = minute(|second| second.rate *= 0.993);
        let found = find(&seconds);
        assert!(found.len() == 1 && !found[0].is_named(), "{found:?}");
    }
}
