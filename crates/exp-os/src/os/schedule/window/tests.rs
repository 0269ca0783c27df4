use super::{Clock, NOT_RUNNING, OVERLAP_MAX, Seen, Spun, in_order};
use crate::os::schedule::line::{Log, merged};
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
            last => log.gaps.push(Gap { start: last, end: start }),
        }
        log.gaps.push(Gap { start: tick, end: tick + 2_000 });
        log.last = end;
    }
    Spun { window: (0, slices * 8 * MS), logs, births: vec![0, 1], forced: vec![0, 0] }
}

fn seen(spun: &Spun) -> Seen<'_> {
    Seen::new(spun, CLOCK, 4e6).unwrap()
}

fn share(seen: &Seen, metric: &str) -> Option<(f64, bool)> {
    let mut shares = seen.shares().unwrap();
    let found = shares.find(|(name, ..)| *name == metric);
    found.map(|(_, share, note)| (share, note.is_some()))
}

#[test]
fn switches_at_every_second_tick_are_on_it() {
    let spun = two(30, 0);
    let seen = seen(&spun);
    assert_eq!(share(&seen, "on_tick"), Some((1.0, false)));
    let row = [32e6, 1.0, 0.0, 5_000.0, 7_995_000.0, 7_995_000.0 / 4e6, 1.0];
    assert_eq!(seen.row(&seen.line.switches[3]), Some(row.to_vec()));
    assert_eq!(seen.row(&seen.line.switches[0]), None, "its slice was cut");
}

#[test]
fn switches_between_ticks_are_not() {
    let spun = two(30, MS);
    let (on_tick, _) = share(&seen(&spun), "on_tick").unwrap();
    assert!((0.25..0.45).contains(&on_tick), "{on_tick}");
    // A period that is not there.
    let seen = Seen::new(&spun, CLOCK, 3_333_333.0).unwrap();
    assert_eq!(share(&seen, "on_tick"), Some((0.0, true)));
}

#[test]
fn the_timeline_leaves_no_time_out() {
    let spun = two(6, 0);
    let seen = seen(&spun);
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
    let had: u64 = seen.line.ticks_by_process().iter().sum();
    assert_eq!(time(0) + time(1), had as f64);
}

#[test]
fn first_switches_are_left_out_and_two_at_once_are_refused() {
    let mut spun = two(30, 0);
    let seen = seen(&spun);
    assert_eq!(seen.switch_lengths().0.len(), 28);
    // The first process goes on through a slice of the second one.
    spun.logs[0].gaps.remove(1);
    let overlap_ns = merged(&spun.logs, spun.window).overlap_ticks as f64;
    assert!(overlap_ns > OVERLAP_MAX * (spun.window.1 - spun.window.0) as f64);
    assert!(Seen::new(&spun, CLOCK, 4e6).is_err());
}

#[test]
fn each_process_has_its_rank_its_slices_and_its_share() {
    let mut spun = two(30, 0);
    // The second one's slices are half as long; nobody has the rest.
    for gap in spun.logs[1].gaps.iter_mut().filter(|gap| gap.ticks() > MS) {
        gap.start -= 4 * MS;
    }
    spun.births = vec![1, 0];
    let seen = seen(&spun);
    let rows = seen.processes();
    let expected = [[0.0, 2.0, 14.0, 7_995_000.0, 0.5], [1.0, 1.0, 14.0, 3_995_000.0, 0.25]];
    for ((row, expected), within) in rows.iter().zip(expected).zip([0.01, 0.02]) {
        assert_eq!(row[..3], expected[..3]);
        assert!((row[3] - expected[3]).abs() < 1.0, "{rows:?}");
        assert!((row[4] - expected[4]).abs() < within, "{rows:?}");
    }
    let named: std::collections::BTreeMap<_, _> = seen.by_process().collect();
    assert_eq!((named["slice_2_ns"], named["share_1"]), (rows[1][3], rows[0][4]));
}

#[test]
fn one_that_never_runs_takes_no_figure_from_the_others() {
    let mut spun = two(30, 0);
    spun.logs.push(Log::default());
    spun.forced.push(0);
    spun.births.push(2);
    let seen = seen(&spun);
    assert_eq!(share(&seen, "rotation"), None);
    let (fairness, is_noted) = share(&seen, "fairness").unwrap();
    assert!((fairness - 2.0 / 3.0).abs() < 0.01 && is_noted, "{fairness}");
    assert!(share(&seen, "lost").is_some());
    assert_eq!((seen.processes().len(), seen.each.len()), (2, 3));
}

#[test]
fn what_others_had_inside_slices_is_their_number_of_longest_gaps() {
    let mut spun = two(30, 0);
    // Others came twice into the first process' slices, for 800 us.
    for (slice, at) in [(4, 2), (8, 3)] {
        let start = slice * 8 * MS + at * MS;
        let log = &mut spun.logs[0];
        log.gaps.push(Gap { start, end: start + 800_000 });
        log.gaps.sort_unstable_by_key(|gap| gap.start);
    }
    spun.forced = vec![15 + 2, 15];
    let seen = seen(&spun);
    assert_eq!(seen.others(), (2, 1_600_000));
}

#[test]
fn orders_are_shares_of_pairs() {
    assert_eq!(in_order(&[0, 1, 2]), 1.0);
    assert_eq!(in_order(&[2, 1, 0]), 0.0);
    // R4's five: 4, 5, 3, 2, 1.
    assert_eq!(in_order(&[3, 4, 2, 1, 0]), 0.1);
}
