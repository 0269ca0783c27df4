//! Where a rate over time changes its level, and what moved with it.

use crate::cpu::peak::load::Load;
use host::counters::Snapshot;
use record::order::InOrder;
use record::quantity::render;
use record::unit::Unit;
use stats::quantile::median;
use stats::trend::change_points;

/// A level lasts this many seconds at least.
const LEAST: usize = 3;
/// A change of level is named from this relative size on.
const NAMED: f64 = 0.01;
/// A level that differs by this much is found however short it is, from [`LEAST`] on, unless the
/// seconds scatter by a third of it.
const LARGE: f64 = 0.05;
const SCATTERS: f64 = 3.0;
pub(super) const DESCRIBED: usize = 20;
/// A counter explains a change that it moved with by this share.
const EXPLAINS: f64 = 0.5;

/// One block of the load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Second {
    /// Middle of the block, in s since the load began.
    pub at_s: f64,
    /// The rate in operations per second.
    pub rate: f64,
    /// Core clock at the kernel's width, in Hz.
    pub core_hz: Option<f64>,
    /// Share of the CPUs' time that the hypervisor took.
    pub steal: Option<f64>,
    /// Share of the time in which the control group was throttled.
    pub throttled: Option<f64>,
    /// Share of the threads' lives in which they were on no CPU, beyond what they wait for each other.
    pub taken: Option<f64>,
    /// Times the CPUs' cores and packages began to throttle for heat.
    pub thermal_events: Option<f64>,
}

/// A column of the trace: its name, what it is called in notes, and its value in a block.
type Column = (&'static str, &'static str, fn(&Second) -> Option<f64>);

const CORE_HZ: Column = ("core_hz", "core clock at this width", |second| second.core_hz);
const THERMAL: Column = ("thermal_events", "thermal throttling", |second| second.thermal_events);
/// Shares of time that were lost.
const LOST: [Column; 3] = [
    ("steal_share", "steal", |second| second.steal),
    ("throttled_share", "throttling by the control group", |second| second.throttled),
    ("taken_share", "other load on the CPUs", |second| second.taken),
];

/// The columns of the trace after time and rate, whose values may not be known.
pub(super) const COLUMNS: [Column; 5] = [CORE_HZ, LOST[0], LOST[1], LOST[2], THERMAL];

impl Second {
    /// A block from one time to another with what the counters of `cpus` CPUs did over it.
    pub(super) fn new(from_s: f64, to_s: f64, load: &Load, moved: &Snapshot, cpus: usize) -> Self {
        let length_ns = (to_s - from_s).max(1e-9) * 1e9;
        let share = |ns: Option<u64>, of: f64| Some(ns? as f64 / (length_ns * of));
        let turns = load.window.shared.members.len().max(cpus) as f64 / cpus.max(1) as f64;
        Second {
            at_s: f64::midpoint(from_s, to_s),
            rate: load.window.shared.rate(),
            core_hz: load.core_hz,
            steal: share(moved.steal_ns(), cpus.max(1) as f64),
            throttled: share(moved.throttled_ns, 1.0),
            taken: Some(1.0 - load.window.share * if load.is_crowded { turns } else { 1.0 }),
            thermal_events: moved.thermal_events().map(|events| events as f64),
        }
    }

    /// Its row of the trace: time, rate, [`COLUMNS`]. What is not known is 0; [`unknown_columns`] says so.
    pub(super) fn row(&self) -> Vec<f64> {
        let counted = COLUMNS.map(|(.., of)| of(self).unwrap_or(0.0));
        [self.at_s, self.rate].into_iter().chain(counted).collect()
    }
}

/// A note for each column of the trace that is not known in all blocks or in some.
pub(super) fn unknown_columns(seconds: &[Second]) -> Vec<String> {
    let note = |(column, name, of): Column| {
        let unknown = seconds.iter().filter(|second| of(second).is_none()).count();
        if unknown == 0 {
            return None;
        }
        Some(if unknown == seconds.len() {
            format!("{name} is unknown in all blocks: `{column}` is 0 in the trace")
        } else {
            format!(
                "{name} is unknown in {unknown} of {} blocks: `{column}` is 0 there in the trace",
                seconds.len()
            )
        })
    };
    COLUMNS.into_iter().filter_map(note).collect()
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// When, in s since the load began.
    pub at_s: f64,
    /// Level before, in operations per second.
    pub from: f64,
    pub to: f64,
    pub causes: Causes,
}

/// What moved with a change of level.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Causes {
    /// Columns that moved in its direction by at least half its size, and how; each explains what
    /// it explains.
    moved: Vec<(&'static str, String)>,
    /// What is not known in either level.
    unknown: Vec<&'static str>,
}

impl Change {
    /// Whether it is large enough to be named.
    pub(super) fn is_named(&self) -> bool {
        (self.to / self.from - 1.0).abs() >= NAMED
    }

    /// Its size, the same for a fall and the rise that ends it.
    pub(super) fn size(&self) -> f64 {
        (self.to / self.from).ln().abs()
    }

    /// `after 312 s from 1.20 Gop/s to 1.05 Gop/s (-12.5 %): core clock 3.60 to 3.15 GHz`.
    pub(super) fn text(&self, unit: Unit) -> String {
        format!(
            "after {:.1} s from {} to {} ({:+.1} %): {}",
            self.at_s,
            render(self.from, unit),
            render(self.to, unit),
            100.0 * (self.to / self.from - 1.0),
            self.causes.text()
        )
    }
}

/// The changes of level, in order: short ones by their size, and small ones by their length, which
/// the search for change points weighs alone.
pub(super) fn find(seconds: &[Second]) -> Vec<Change> {
    let rates: Vec<f64> = seconds.iter().map(|second| second.rate).collect();
    let mut bounds = large_steps(&rates);
    let small = change_points(&rates, LEAST);
    let near = |at: usize| bounds.iter().any(|bound| bound.abs_diff(at) < LEAST);
    let small: Vec<usize> = small.into_iter().filter(|at| !near(*at)).collect();
    bounds.extend(small);
    bounds.extend([0, seconds.len()]);
    bounds.order();
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
                causes: Causes::between(before, after, to / from - 1.0),
            })
        })
        .collect()
}

/// Where the rate leaves its level by [`LARGE`] for at least [`LEAST`] values: the running median of
/// five keeps each run of three values and drops shorter ones.
fn large_steps(rates: &[f64]) -> Vec<usize> {
    const WINDOW: usize = 2 * LEAST - 1;
    let logs: Vec<f64> = rates.iter().map(|rate| rate.max(f64::MIN_POSITIVE).ln()).collect();
    let Some(last) = logs.len().checked_sub(WINDOW) else { return Vec::new() };
    let smooth = |at: usize| {
        let from = at.saturating_sub(LEAST - 1).min(last);
        median(&logs[from..from + WINDOW]).unwrap_or(logs[at])
    };
    let sum: f64 = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
    // The mean difference of two normal values is 1.128 standard deviations.
    let scatter = sum / (logs.len() - 1) as f64 / 1.128;
    let least = LARGE.max(SCATTERS * scatter);
    let (mut bounds, mut from, mut total) = (Vec::new(), 0, 0.0);
    for at in 0..logs.len() {
        let value = smooth(at);
        let count = at - from;
        if count >= LEAST && (value - total / count as f64).abs() >= least {
            bounds.push(at);
            (from, total) = (at, 0.0);
        }
        total += value;
    }
    bounds
}

fn level(seconds: &[Second], of: impl Fn(&Second) -> Option<f64>) -> Option<f64> {
    median(&seconds.iter().filter_map(of).collect::<Vec<f64>>())
}

fn mean(seconds: &[Second], of: impl Fn(&Second) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = seconds.iter().filter_map(of).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

impl Causes {
    /// The causes of a relative change from some blocks to others.
    fn between(before: &[Second], after: &[Second], change: f64) -> Causes {
        let mut causes = Causes::default();
        for (column, name, of) in LOST {
            let (Some(from), Some(to)) = (mean(before, of), mean(after, of)) else {
                causes.unknown.push(name);
                continue;
            };
            // A share of time that was lost is so much less rate of what is left.
            let effect = (1.0 - to) / (1.0 - from).max(1e-9) - 1.0;
            if effect / change >= EXPLAINS {
                let moved = format!("{name} {:.1} to {:.1} %", 100.0 * from, 100.0 * to);
                causes.moved.push((column, moved));
            }
        }
        let (column, name, of) = CORE_HZ;
        let clocks = level(before, of).zip(level(after, of));
        let is_explained = clocks.is_none_or(|(from, to)| (to / from - 1.0) / change >= EXPLAINS);
        let heat = heat(before, after, change).filter(|_| is_explained);
        match clocks {
            Some((from, to)) if is_explained => {
                let clock = format!("core clock {:.2} to {:.2} GHz", from / 1e9, to / 1e9);
                causes.moved.extend(heat.map(|heat| (THERMAL.0, heat)));
                causes.moved.push((column, clock));
            }
            Some(_) => {}
            None => match heat {
                Some(heat) => causes.moved.push((THERMAL.0, heat)),
                None => causes.unknown.push(name),
            },
        }
        causes
    }

    fn text(&self) -> String {
        let moved: Vec<&str> = self.moved.iter().map(|(_, how)| how.as_str()).collect();
        match (moved.is_empty(), self.unknown.is_empty()) {
            (false, _) => moved.join(", "),
            (true, true) => {
                "unexplained: steal, throttling, other load and the core clock did not change with \
                 it"
                .to_owned()
            }
            (true, false) => format!("unexplained; unknown: {}", self.unknown.join(", ")),
        }
    }
}

/// Throttling events, if a drop came with more of them in a block than before it.
fn heat(before: &[Second], after: &[Second], change: f64) -> Option<String> {
    let (_, name, of) = THERMAL;
    let (from, to) = mean(before, of).zip(mean(after, of))?;
    let sum: f64 = after.iter().filter_map(of).sum();
    (change < 0.0 && to > from).then(|| format!("{name} ({sum} events)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::draw::Draw;

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

    #[test]
    fn a_steady_minute_has_no_change_and_a_small_one_is_not_named() {
        assert_eq!(find(&minute(|_| {})), []);
        assert_eq!(find(&[]), []);
        let found = find(&minute(|second| second.rate *= 0.993));
        assert!(found.len() == 1 && !found[0].is_named(), "{found:?}");
    }

    /// Seconds with some scatter; in each stretch the rate is that of a share of the CPUs, and
    /// `cause` says by which counter.
    fn planted(
        count: usize,
        scatter: f64,
        stretches: &[(std::ops::Range<usize>, f64)],
        cause: impl Fn(&mut Second, f64),
    ) -> Vec<Second> {
        let mut draw = Draw::new(11);
        let at_once = |at: usize| stretches.iter().find(|(of, _)| of.contains(&at));
        let mut seconds: Vec<Second> = minute(|_| {}).into_iter().cycle().take(count).collect();
        for (at, second) in seconds.iter_mut().enumerate() {
            let share = at_once(at).map_or(1.0, |(_, share)| *share);
            second.at_s = at as f64 + 0.5;
            second.rate = 6.2e9 * share * (1.0 + scatter * draw.normal());
            if share != 1.0 {
                cause(second, share);
            }
        }
        seconds
    }

    /// R3's ten minutes with two falls by a third, for 7 and 11 s, as were met.
    #[test]
    fn short_falls_are_listed_with_their_counter() {
        let taken = |second: &mut Second, share: f64| second.taken = Some(1.0 - share);
        for (count, stretches) in [
            (600, vec![(22..29, 0.67), (33..44, 0.67)]),
            (20, vec![(4..7, 0.67), (12..17, 0.67)]),
            (60, vec![(30..33, 0.94)]),
        ] {
            let found = find(&planted(count, 0.005, &stretches, taken));
            let ends = stretches.iter().flat_map(|(of, _)| [of.start, of.end]);
            let begins: Vec<usize> = found.iter().map(|change| change.at_s as usize).collect();
            assert_eq!(begins, ends.collect::<Vec<_>>(), "{found:?}");
            for (change, (_, share)) in found.iter().zip(stretches.iter().flat_map(|of| [of, of])) {
                let columns: Vec<&str> =
                    change.causes.moved.iter().map(|(column, _)| *column).collect();
                assert_eq!(columns, ["taken_share"], "{change:?}");
                assert!((change.size() + share.ln()).abs() < 0.01, "{change:?}");
            }
        }
    }

    #[test]
    fn a_fall_of_two_seconds_and_scatter_are_no_change() {
        let steal = |second: &mut Second, share: f64| second.steal = Some(1.0 - share);
        assert_eq!(find(&planted(600, 0.005, &[(100..102, 0.5)], steal)), []);
        for scatter in [0.002, 0.02, 0.05, 0.1] {
            for count in [20, 60, 600] {
                assert_eq!(find(&planted(count, scatter, &[], steal)), [], "{scatter} {count}");
            }
        }
    }

    #[test]
    fn what_moved_with_a_change_by_half_its_size_explains_it() {
        type Row = (f64, fn(&mut Second), &'static [&'static str], &'static [&'static str]);
        let rows: &[Row] = &[
            (0.9, |second| second.core_hz = Some(3.24e9), &["core_hz"], &[]),
            (1.2, |second| second.core_hz = Some(4.32e9), &["core_hz"], &[]),
            (0.8, |second| second.steal = Some(0.2), &["steal_share"], &[]),
            (0.6, |second| second.taken = Some(0.4), &["taken_share"], &[]),
            (0.5, |second| second.throttled = Some(0.5), &["throttled_share"], &[]),
            // A clock that falls with throttling events; upwards they explain nothing, nor while it
            // stayed.
            (
                0.8,
                |second| (second.core_hz, second.thermal_events) = (Some(2.88e9), Some(2.0)),
                &["thermal_events", "core_hz"],
                &[],
            ),
            (
                1.2,
                |second| (second.core_hz, second.thermal_events) = (Some(4.32e9), Some(2.0)),
                &["core_hz"],
                &[],
            ),
            (
                0.8,
                |second| (second.core_hz, second.thermal_events) = (None, Some(1.0)),
                &["thermal_events"],
                &[],
            ),
            (0.8, |second| second.thermal_events = Some(2.0), &[], &[]),
            (0.9, |_| {}, &[], &[]),
            // What moved the other way, or by little.
            (0.8, |second| (second.core_hz, second.steal) = (Some(3.7e9), Some(0.02)), &[], &[]),
            (0.8, |second| second.steal = None, &[], &["steal"]),
        ];
        for (number, (rate, change, moved, unknown)) in rows.iter().enumerate() {
            let found = find(&minute(|second| {
                second.rate *= rate;
                change(second);
            }));
            let [found] = &found[..] else { panic!("row {number}: {found:?}") };
            assert!((found.at_s - 30.0).abs() < 1e-9 && found.is_named());
            let columns: Vec<&str> = found.causes.moved.iter().map(|(column, _)| *column).collect();
            assert_eq!(
                (&columns[..], &found.causes.unknown[..]),
                (*moved, *unknown),
                "row {number}"
            );
        }
    }

    #[test]
    fn a_column_that_is_not_known_has_its_note() {
        let mut seconds = minute(|_| {});
        assert!(unknown_columns(&seconds).is_empty());
        assert_eq!(seconds[0].row().len(), 2 + COLUMNS.len());
        for second in &mut seconds {
            second.steal = None;
        }
        seconds[3].core_hz = None;
        let notes = unknown_columns(&seconds);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("`core_hz`") && notes[1].contains("`steal_share`"));
        assert_eq!(seconds[3].row()[2], 0.0);
    }
}
