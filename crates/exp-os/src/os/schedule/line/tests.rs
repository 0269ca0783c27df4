use super::{Line, Log, Run, Switch, merged};
use metal::gaps::Gap;

const ALL: (u64, u64) = (0, u64::MAX);

fn log(stretches: &[(u64, u64)]) -> Log {
    let gaps = stretches.windows(2).map(|pair| Gap { start: pair[0].1, end: pair[1].0 });
    Log {
        first: stretches.first().map_or(0, |first| first.0),
        last: stretches.last().map_or(0, |last| last.1),
        gaps: gaps.collect(),
    }
}

/// Who ran from when to when, and how many interruptions there were.
fn brief(line: &Line) -> Vec<(usize, u64, u64, usize)> {
    let of = |run: &Run| (run.process, run.start, run.end, run.inside.len());
    line.runs.iter().map(of).collect()
}

fn lengths(line: &Line) -> Vec<Option<u64>> {
    line.switches.iter().map(|of| of.ticks).collect()
}

fn slices(line: &Line) -> Vec<u64> {
    line.whole().iter().map(Run::ticks).collect()
}

#[test]
fn interruptions_are_told_from_switches() {
    // The first process is interrupted twice in its first run, once right after the other; the
    // second once.
    let first = log(&[(10, 100), (105, 106), (110, 300), (520, 700)]);
    let second = log(&[(310, 400), (410, 510), (710, 900)]);
    let line = merged(&[first, second], ALL);
    let expected = [(0, 10, 300, 2), (1, 310, 510, 1), (0, 520, 700, 0), (1, 710, 900, 0)];
    assert_eq!(brief(&line), expected);
    assert_eq!(line.overlap_ticks, 0);
    assert_eq!(lengths(&line), [Some(10), Some(10), Some(10)]);
    assert_eq!(line.ticks_by_process(), [290 - 9 + 180, 200 - 10 + 190]);
    assert_eq!(line.span(), 890);
    let (inside, all) = line.lost().unwrap();
    assert_eq!((inside, all), (19.0 / 890.0, 49.0 / 890.0));
    // Its time is either someone's or lost.
    let had: u64 = line.ticks_by_process().iter().sum();
    assert!((had as f64 / 890.0 + all - 1.0).abs() < 1e-12);
}

#[test]
fn the_first_and_the_last_slice_are_not_whole() {
    let logs = [log(&[(0, 70), (210, 300)]), log(&[(80, 200), (310, 330)])];
    let line = merged(&logs, ALL);
    assert_eq!(slices(&line), [120, 90]);
    let second = Switch { run: 1, from: 1, to: 0, tick: 200, ticks: Some(10), is_first: false };
    let first = Switch { run: 0, from: 0, to: 1, tick: 70, is_first: true, ..second };
    assert_eq!(line.switches[..2], [first, second]);
    assert!(!line.switches[2].is_first);
    assert_eq!(merged(&logs, (0, 205)).whole(), []);
    assert_eq!(merged(&[], ALL).whole(), []);
}

#[test]
fn a_window_cuts_what_begins_before_it_or_ends_after_it() {
    let logs = [log(&[(0, 100), (210, 500)]), log(&[(110, 200), (510, 600)])];
    let line = merged(&logs, (50, 400));
    assert_eq!(brief(&line), [(0, 50, 100, 0), (1, 110, 200, 0), (0, 210, 400, 0)]);
    // A gap that reaches over the end is no interruption.
    assert_eq!(brief(&merged(&logs, (0, 205))), [(0, 0, 100, 0), (1, 110, 200, 0)]);
    assert_eq!(merged(&logs, (101, 109)).runs, []);
}

#[test]
fn a_process_that_never_ran_has_nothing_and_is_counted() {
    let late = Log { first: 900, last: 950, gaps: Vec::new() };
    let logs = [log(&[(0, 100), (210, 300)]), log(&[(110, 200)]), late];
    let line = merged(&logs, (0, 310));
    assert_eq!(line.ticks_by_process(), [190, 90, 0]);
    assert_eq!(line.order(), [0, 1]);
    assert_eq!(line.rotation(), None);
    let fairness = line.fairness().unwrap();
    assert!((fairness - 280.0 * 280.0 / (3.0 * (190.0 * 190.0 + 90.0 * 90.0))).abs() < 1e-12);
    let nothing = merged(&[log(&[]), log(&[])], ALL);
    assert_eq!((nothing.span(), nothing.ticks_by_process()), (0, vec![0, 0]));
    assert_eq!((nothing.lost(), nothing.fairness()), (None, None));
    assert_eq!((nothing.rotation(), nothing.switches.len()), (None, 0));
}

#[test]
fn one_that_ran_all_the_time_and_equal_ones_are_the_ends_of_fairness() {
    let alone = merged(&[log(&[(0, 100)]), log(&[])], ALL);
    assert_eq!(alone.fairness(), Some(0.5));
    let equal = merged(&[log(&[(0, 100)]), log(&[(110, 210)])], ALL);
    assert_eq!(equal.fairness(), Some(1.0));
    assert_eq!(equal.lost(), Some((0.0, 10.0 / 210.0)));
}

#[test]
fn two_at_once_are_counted_and_give_no_switch() {
    // Clocks of two CPUs, or of a machine that was moved, need not agree.
    let line = merged(&[log(&[(0, 100), (200, 300)]), log(&[(95, 195), (210, 220)])], ALL);
    assert_eq!(line.overlap_ticks, 5 + 10);
    assert_eq!(lengths(&line)[..2], [None, Some(5)]);
    // One within another: all of the shorter one counts.
    assert_eq!(merged(&[log(&[(0, 100)]), log(&[(20, 50)])], ALL).overlap_ticks, 30);
}

#[test]
fn a_strangers_time_is_an_interruption_or_part_of_a_switch() {
    // 50 ticks of another's process inside a run, and 60 between two.
    let logs = [log(&[(0, 100), (150, 200)]), log(&[(260, 300)])];
    let line = merged(&logs, ALL);
    assert_eq!(brief(&line), [(0, 0, 200, 1), (1, 260, 300, 0)]);
    assert_eq!(lengths(&line), [Some(60)]);
    assert_eq!(line.lost(), Some((50.0 / 300.0, 110.0 / 300.0)));
    // The kernel counted two switches away from the first process; one was to the second.
    assert_eq!((line.others(0, 2), line.others(1, 1)), ((1, 50), (0, 0)));
}

#[test]
fn round_robin_is_told_from_other_orders() {
    let line = |order: &[usize]| {
        let mut stretches: [Vec<(u64, u64)>; 3] = Default::default();
        for (at, process) in (0..).zip(order) {
            stretches[*process].push((100 * at, 100 * at + 90));
        }
        merged(&stretches.map(|stretches| log(&stretches)), ALL)
    };
    let round = line(&[2, 1, 0, 2, 1, 0, 2]);
    assert_eq!(round.rotation(), Some(1.0));
    assert_eq!(round.order(), [2, 1, 0]);
    // One is served twice as often as the others: two of three switches are in turn after the
    // first round.
    let uneven = line(&[0, 1, 2, 0, 1, 0, 2]);
    assert_eq!(uneven.rotation(), Some(0.75));
    assert_eq!(line(&[0, 1, 0, 1]).rotation(), None);
}

#[test]
fn the_table_of_a_report_is_found_again() {
    // R4's figure 2.3b in µs: (switch, slice before it), processes 2 and 1 in turn.
    let rows = [
        (123_379_u64, 7_935_217_u64),
        (9_041, 11_876_560),
        (10_844, 11_989_067),
        (8_661, 11_988_150),
        (8_495, 11_990_447),
        (8_706, 11_990_446),
        (10_656, 11_990_425),
        (8_676, 11_988_369),
        (8_469, 11_990_315),
    ];
    let (mut at, mut stretches) = (1_000, [Vec::new(), Vec::new()]);
    for (turn, (switch, slice)) in rows.iter().enumerate() {
        // A tick inside each slice, 1 µs long.
        let owner = &mut stretches[(turn + 1) % 2];
        owner.push((at, at + 4_000_000));
        owner.push((at + 4_001_000, at + slice));
        at += slice + switch;
    }
    stretches[0].push((at, at + 6_912_341));
    let logs = stretches.map(|stretches| log(&stretches));
    let line = merged(&logs, ALL);
    assert_eq!(line.order(), [1, 0]);
    assert_eq!(slices(&line), rows.map(|row| row.1)[1..]);
    let switches: Vec<u64> = lengths(&line).into_iter().flatten().collect();
    assert_eq!(switches, rows.map(|row| row.0));
    // Its mean of the switches; of the slices it prints 11.173 ms, which its rows do not give.
    let mean = |values: &[u64]| values.iter().sum::<u64>() as f64 / values.len() as f64;
    assert!((mean(&switches) / 1e6 - 0.021_88).abs() < 5e-6);
    let all: Vec<_> = line.runs.iter().map(Run::ticks).collect();
    assert!((mean(&all) / 1e6 - 11.065).abs() < 0.001);
    assert_eq!(line.rotation(), Some(1.0));
}
