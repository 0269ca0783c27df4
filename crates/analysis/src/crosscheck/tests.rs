//! Verdicts on made-up turns.

use super::sample::{around, end, pair, pairing, rival, row, run_of_plumb, turns};
use super::{Bout, Compared, JUDGED_FROM, Verdict, count, rivals, rows};
use crate::sample;
use record::crosscheck::{Goal, Load, Pair, Pairing};
use record::event::{Ending, Event};
use record::run::Run;
use stats::draw::Draw;

fn run_of(events: Vec<Event>) -> Run {
    let mut run = Run::new(sample::header());
    events.into_iter().for_each(|event| run.push(event));
    run
}

fn with_goal(goal: Goal) -> Pairing {
    pairing("perf", "basic", vec![row("", goal)])
}

fn check(goal: Goal, ratios: &[f64], verdict: Verdict) {
    let run = run_of(turns(&with_goal(goal), ratios));
    let found = rows(&run);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].verdict, verdict, "{goal:?} {ratios:?}");
}

/// Nine turns, five of them at the middle.
fn nine(low: f64, middle: f64, high: f64) -> [f64; 9] {
    [low, low, middle, middle, middle, middle, middle, high, high]
}

#[test]
fn each_goal_has_its_limits() {
    use Goal::{Agree, AtLeast, AtLeastNearly, AtMost, Explained};
    use Verdict::{Met, Missed, Undecided};
    for (goal, ratios, verdict) in [
        (AtLeast, nine(1.5, 1.5, 1.5), Met),
        (AtLeast, nine(0.9, 1.0, 1.0), Met),
        // The interval reaches 1.00, and the median is not far below.
        (AtLeast, nine(0.9, 0.981, 1.0), Met),
        (AtLeast, nine(0.9, 0.979, 1.2), Missed),
        (AtLeast, nine(0.9, 0.99, 0.999), Missed),
        (AtLeastNearly, nine(0.9, 0.95, 0.95), Met),
        (AtLeastNearly, nine(0.9, 0.932, 0.951), Met),
        (AtLeastNearly, nine(0.9, 0.930, 1.2), Missed),
        (AtLeastNearly, nine(0.9, 0.945, 0.949), Missed),
        (AtMost, nine(0.2, 0.2, 0.2), Met),
        (AtMost, nine(1.0, 1.0, 1.1), Met),
        (AtMost, nine(1.0, 1.019, 1.1), Met),
        (AtMost, nine(0.8, 1.021, 1.2), Missed),
        (AtMost, nine(1.001, 1.01, 1.2), Missed),
        (Agree, nine(0.9, 1.0, 1.1), Met),
        (Agree, nine(1.0, 1.05, 1.1), Met),
        (Agree, nine(0.9, 0.95, 1.0), Met),
        (Agree, nine(1.0, 1.051, 1.2), Missed),
        (Agree, nine(0.9, 0.949, 1.0), Missed),
        // The median meets it, and what it may as well be is far off.
        (AtLeast, nine(0.89, 1.0, 1.0), Undecided),
        (AtLeast, nine(0.538, 0.99, 1.011), Undecided),
        (AtLeastNearly, nine(0.85, 0.95, 1.0), Undecided),
        (AtMost, nine(1.0, 1.019, 1.11), Undecided),
        (Agree, nine(0.538, 0.97, 1.011), Undecided),
        (Agree, nine(1.0, 1.0, 1.11), Undecided),
        // Far off on the right side.
        (AtLeast, nine(0.95, 1.5, 9.0), Met),
        (AtMost, nine(0.1, 0.5, 1.05), Met),
        (Explained, nine(5.0, 7.0, 9.0), Verdict::Explained),
    ] {
        check(goal, &ratios, verdict);
    }
}

#[test]
fn a_goal_is_judged_from_nine_turns_and_an_interval_told_from_six() {
    let pairing = with_goal(Goal::Agree);
    for (count, verdict, has_interval) in [
        (0, Verdict::Absent, false),
        (1, Verdict::NotJudged, false),
        (5, Verdict::NotJudged, false),
        (6, Verdict::NotJudged, true),
        (8, Verdict::NotJudged, true),
        (9, Verdict::Met, true),
        (15, Verdict::Met, true),
    ] {
        let run = run_of(turns(&pairing, &around(1.0, count)));
        let found = rows(&run);
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(one.verdict, verdict, "{count}");
        assert_eq!(one.interval.is_some(), has_interval, "{count}");
        assert_eq!(one.ratio.is_some(), count > 0, "{count}");
        assert_eq!(one.ours.is_some(), count > 0, "{count}");
        assert_eq!(one.ratios.len(), count as usize);
        assert!(one.confidence.is_none_or(|share| share >= 0.95));
    }
    // What has no goal needs no turns to be without one.
    check(Goal::Explained, &[3.0], Verdict::Explained);
    check(Goal::Explained, &[], Verdict::Absent);
}

#[test]
fn what_is_no_timing_is_judged_by_one_turn() {
    for (ratio, verdict) in [(1.0, Verdict::Met), (1.04, Verdict::Met), (2.0, Verdict::Missed)] {
        let pairing = Pairing { once: true, ..with_goal(Goal::Agree) };
        let run = run_of(turns(&pairing, &[ratio]));
        assert_eq!(rows(&run)[0].verdict, verdict, "{ratio}");
        assert_eq!(rows(&run)[0].interval, None);
    }
}

#[test]
fn values_are_told_as_medians_and_the_ratio_pair_by_pair() {
    let pairing = with_goal(Goal::Agree);
    let mut events = vec![Event::Pairing(pairing.clone())];
    // The machine slows down over the turns: each side's values scatter by a factor, their ratio
    // not at all.
    for n in 1..=9_u32 {
        let slow = f64::from(n);
        events.push(Event::Pair(pair(&pairing, n, vec![51.0 * slow], vec![50.0 * slow])));
    }
    let run = run_of(events);
    let found = rows(&run);
    assert_eq!((found[0].ours, found[0].theirs), (Some(255.0), Some(250.0)));
    assert_eq!(found[0].interval, Some((1.02, 1.02)));
    assert_eq!(found[0].verdict, Verdict::Met);
}

#[test]
fn turns_without_a_ratio_are_left_out() {
    let pairing = pairing("perf", "two", vec![row("a", Goal::Agree), row("b", Goal::Agree)]);
    let mut events = vec![Event::Pairing(pairing.clone())];
    let turns = [
        (vec![1.0, 2.0], vec![1.0, 1.0]),
        // As records of strangers may be.
        (vec![1.0], vec![1.0, 1.0]),
        (vec![1.0, 2.0], vec![1.0]),
        (vec![], vec![]),
        (vec![f64::NAN, f64::INFINITY], vec![1.0, 1.0]),
        (vec![1.0, 2.0], vec![0.0, -1.0]),
    ];
    for (n, (ours, theirs)) in (1..).zip(turns) {
        events.push(Event::Pair(pair(&pairing, n, ours, theirs)));
    }
    let run = run_of(events);
    let found = rows(&run);
    assert_eq!(found[0].ratios, [1.0, 1.0, 1.0], "a");
    assert_eq!(found[1].ratios, [2.0], "b");
    assert_eq!(rivals(&run)[0].bouts[0].turns, 6);
}

#[test]
fn a_value_that_is_not_positive_meets_no_goal() {
    for goal in [Goal::AtMost, Goal::Agree, Goal::AtLeast, Goal::AtLeastNearly] {
        check(goal, &[-0.2; 9], Verdict::Missed);
        check(goal, &[0.0; 9], Verdict::Missed);
    }
}

#[test]
fn a_pairing_says_why_it_lacks_turns() {
    let pairing = with_goal(Goal::Agree);
    let lack = |turns_made: u32, end: Option<(Ending, Option<&str>)>| {
        let mut events = turns(&pairing, &around(1.0, turns_made));
        events.extend(
            end.map(|(outcome, why)| Event::PairingEnd(super::sample::end(&pairing, outcome, why))),
        );
        let run = run_of(events);
        rivals(&run)[0].bouts[0].lack()
    };
    assert_eq!(lack(9, Some((Ending::Measured, None))), None);
    assert_eq!(lack(0, None).as_deref(), Some("cut off"));
    assert!(lack(3, None).is_some_and(|why| why.contains("3 turns")));
    let failed = lack(1, Some((Ending::Failed, Some("it hung"))));
    assert!(failed.is_some_and(|why| why.ends_with("it hung")));
    let skipped = lack(0, Some((Ending::Skipped, None)));
    assert_eq!(skipped.as_deref(), Some("skipped"));
}

#[test]
fn a_row_without_a_ratio_says_who_reported_what() {
    let pairing = with_goal(Goal::AtLeast);
    for (values, lack) in [
        (&[(5.0, 0.0), (6.0, 0.0)][..], Some("not compared: perf reported 0")),
        (&[(5.0, -3.0)], Some("not compared: perf reported -3")),
        (&[(5.0, f64::NAN)], Some("not compared: perf reported nothing")),
        (&[(f64::NAN, 5.0)], Some("not compared: plumb reported nothing")),
        (&[(5.0, 5.0), (5.0, 0.0)], Some("1 of 2 turns: perf reported 0")),
        (&[(5.0, 5.0)], None),
    ] {
        let pairs =
            values.iter().map(|(ours, theirs)| pair(&pairing, 1, vec![*ours], vec![*theirs]));
        let run = run_of(
            [Event::Pairing(pairing.clone())].into_iter().chain(pairs.map(Event::Pair)).collect(),
        );
        assert_eq!(rows(&run)[0].lack.as_deref(), lack);
    }
}

#[test]
fn turns_of_a_pairing_that_failed_later_still_count() {
    let pairing = with_goal(Goal::Agree);
    let mut events = turns(&pairing, &around(1.0, 9));
    events.push(Event::PairingEnd(end(&pairing, Ending::Failed, Some("it hung"))));
    let run = run_of(events);
    assert_eq!(rows(&run)[0].verdict, Verdict::Met);
    assert_eq!(rows(&run)[0].end.map(|end| end.outcome), Some(Ending::Failed));
}

#[test]
fn a_rival_that_is_crosschecked_again_replaces_itself_alone() {
    let (perf, other) =
        (with_goal(Goal::Agree), pairing("fio", "psync", vec![row("", Goal::AtLeast)]));
    let mut events = vec![Event::Rival(rival("perf"))];
    events.extend(turns(&perf, &around(2.0, 9)));
    events.push(Event::Rival(rival("fio")));
    events.extend(turns(&other, &around(1.0, 9)));
    events.push(Event::Rival(rival("perf")));
    events.extend(turns(&perf, &around(1.0, 9)));
    let run = run_of(events);
    let all = rivals(&run);
    let names: Vec<(&str, usize)> = all.iter().map(|one| (one.name, one.bouts.len())).collect();
    assert_eq!(names, [("fio", 1), ("perf", 1)]);
    assert!(rows(&run).iter().all(|row| row.verdict == Verdict::Met && row.ratios.len() == 9));
}

#[test]
fn a_pairing_of_a_rival_that_the_record_does_not_tell_of_is_kept() {
    let run = run_of(turns(&with_goal(Goal::Agree), &[1.0]));
    let all = rivals(&run);
    assert_eq!((all[0].name, all[0].rival, all[0].bouts.len()), ("perf", None, 1));
}

#[test]
fn rivals_and_rows_tell_of_the_same() {
    let run = run_of_plumb();
    let of_rivals: Vec<Compared> = rivals(&run)
        .into_iter()
        .flat_map(|beside| beside.bouts)
        .flat_map(|bout: Bout| bout.rows)
        .collect();
    let all = rows(&run);
    assert_eq!(of_rivals.len(), all.len());
    assert!(all.iter().all(|row| of_rivals.contains(row)));
    for (verdict, expected) in [
        (Verdict::Met, 2),
        (Verdict::Missed, 1),
        (Verdict::Undecided, 0),
        (Verdict::Explained, 1),
        (Verdict::NotJudged, 3),
        (Verdict::Absent, 1),
    ] {
        assert_eq!(count(&all, verdict), expected, "{verdict:?}");
    }
}

/// How often a verdict comes out, where the ratio is `truth` and a turn's scatters by `scatter`.
fn share(goal: Goal, truth: f64, scatter: f64, wanted: Verdict) -> f64 {
    const TRIALS: usize = 2000;
    let mut draw = Draw::new(9);
    let found = (0..TRIALS).filter(|_| {
        let ratios: Vec<f64> =
            (0..JUDGED_FROM).map(|_| truth * (1.0 + scatter * draw.normal())).collect();
        let ratio = super::median(&ratios);
        let interval = super::median_order(&ratios);
        super::verdict(goal, ratio, interval, ratios.len(), false) == wanted
    });
    found.count() as f64 / TRIALS as f64
}

#[test]
fn an_equal_is_rarely_missed_and_a_lesser_one_mostly() {
    let equal = [
        (Goal::AtLeast, 1.0),
        (Goal::AtMost, 1.0),
        (Goal::AtLeastNearly, 0.95),
        (Goal::Agree, 1.0),
    ];
    for (goal, truth) in equal {
        let missed = share(goal, truth, 0.01, Verdict::Missed);
        assert!(missed < 0.035, "{goal:?}: {missed}");
    }
    let lesser = [
        (Goal::AtLeast, 0.95),
        (Goal::AtMost, 1.05),
        (Goal::AtLeastNearly, 0.9),
        (Goal::Agree, 1.08),
    ];
    for (goal, truth) in lesser {
        let missed = share(goal, truth, 0.01, Verdict::Missed);
        assert!(missed > 0.95, "{goal:?}: {missed}");
    }
}

#[test]
fn what_scatters_is_not_met_by_chance() {
    let lesser = [
        (Goal::AtLeast, 0.9),
        (Goal::AtMost, 1.1),
        (Goal::AtLeastNearly, 0.85),
        (Goal::Agree, 0.85),
        (Goal::Agree, 1.15),
    ];
    for (goal, truth) in lesser {
        for scatter in [0.05, 0.1, 0.2, 0.4] {
            let met = share(goal, truth, scatter, Verdict::Met);
            assert!(met < 0.025, "{goal:?} at {truth}, scatter {scatter}: {met}");
        }
    }
    // What is equal is still met where turns scatter as they do on a shared machine.
    for goal in [Goal::AtLeast, Goal::AtMost, Goal::Agree] {
        let met = share(goal, 1.0, 0.03, Verdict::Met);
        assert!(met > 0.9, "{goal:?}: {met}");
    }
}

#[test]
fn what_disturbed_turns_is_told_where_it_is_notable() {
    let pairing = with_goal(Goal::Agree);
    let load = |steal_s, others_s| Some(Load { cpu_s: 4.0, steal_s, others_s });
    let told = |ours_load, theirs_load| {
        let mut events = vec![Event::Pairing(pairing.clone())];
        for n in 1..=2 {
            events.push(Event::Pair(Pair {
                ours_load,
                theirs_load,
                ..pair(&pairing, n, vec![1.0], vec![1.0])
            }));
        }
        rivals(&run_of(events))[0].bouts[0].disturbance()
    };
    assert_eq!(told(None, None), None);
    assert_eq!(told(load(Some(0.04), Some(0.2)), load(Some(0.0), Some(0.0))), None);
    let stolen = told(load(Some(0.01), None), load(Some(0.4), None));
    assert!(stolen.is_some_and(|told| told.contains("0.2 %") && told.contains("10.0 %")));
    let both = told(load(Some(1.0), Some(1.0)), load(None, Some(0.0))).expect("both");
    assert!(both.contains("25.0 %") && both.contains("? %") && both.contains("; "), "{both}");
    // A record of a stranger.
    assert_eq!(told(Some(Load::default()), load(None, None)), None);
}
