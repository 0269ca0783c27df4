//! Tests of `quartet`.

use super::{
    Batch, Goal, OPERATIONS_MAX, QUARTETS_MAX, Timer, Turns, abba, grown, is_over, samples,
};
use crate::measure::clock::Clock;
use crate::measure::width::{Reading, Watch};
use anyhow::Result;

const GOAL: Goal = Goal {
    batch_ns: 2e3,
    least_ns: 1e3,
    case_ns: 1e6,
    quartets_min: 6,
    quartets_max: QUARTETS_MAX,
};

fn timer(goal: Goal) -> Timer {
    Timer { clock: Clock::Monotonic, goal, probe: None }
}

fn search(goal: Goal, body: &mut impl FnMut(u64) -> Result<()>) -> Result<Batch> {
    let timer = timer(goal);
    timer.search(&mut |n| timer.timed(n, body))
}

#[test]
fn a_search_for_a_body_without_time_ends_at_its_cap() {
    let goal = Goal { batch_ns: 1e18, least_ns: 1e18, case_ns: 1e18, ..GOAL };
    let mut calls = 0;
    let batch = search(goal, &mut |_| {
        calls += 1;
        Ok(())
    })
    .expect("ends");
    assert!(batch.capped);
    assert_eq!(batch.operations, OPERATIONS_MAX);
    assert!(calls <= 60, "{calls}");
}

#[test]
fn a_search_stops_where_the_case_has_no_more_time() {
    let goal = Goal { batch_ns: 1e18, least_ns: 1e18, case_ns: 0.0, ..GOAL };
    let mut calls = 0;
    let batch = search(goal, &mut |_| {
        calls += 1;
        std::hint::black_box(metal::kernel::chain_multiply(10_000));
        Ok(())
    })
    .expect("ends");
    assert!(batch.capped);
    assert_eq!(calls, 1);
    assert_eq!(batch.operations, 1);
}

#[test]
fn a_found_batch_was_long_enough_twice() {
    let mut asked = Vec::new();
    let mut body = |n| {
        asked.push(n);
        std::hint::black_box(metal::kernel::chain_multiply(n));
        Ok(())
    };
    let goal = Goal { case_ns: 1e9, ..GOAL };
    let batch = search(goal, &mut body).expect("ends");
    assert!(!batch.capped && batch.batch_ns >= goal.batch_ns, "{batch:?}");
    assert_eq!(asked.first(), Some(&1));
    assert_eq!(asked[asked.len() - 2..], [batch.operations; 2]);
    assert!(asked.is_sorted());
}

#[test]
fn the_next_n_follows_the_length_within_its_limits() {
    for (operations, batch_ns, next) in [
        (1, 0.0, 10),
        (100, 1000.0, 220),
        (100, 1990.0, 111),
        (1, 1999.0, 2),
        (OPERATIONS_MAX / 2, 0.0, OPERATIONS_MAX),
    ] {
        assert_eq!(grown(operations, batch_ns, 2000.0), next, "{operations}");
    }
}

#[test]
fn a_case_ends_by_time_and_by_count() {
    for (attempts, kept, with_next_ns, over) in [
        (6, 6, 0.9e6, false),
        (6, 6, 1.1e6, true),
        (5, 5, 9e9, false),
        (20, 0, 1.1e6, true),
        (QUARTETS_MAX, QUARTETS_MAX, 0.1e6, true),
    ] {
        let found = is_over(&GOAL, attempts, kept, with_next_ns);
        assert_eq!(found, over, "{attempts} {kept} {with_next_ns}");
    }
}

#[test]
fn samples_are_half_the_difference_per_operation_of_any_sign() {
    let quartets = [(300.0, 500.0), (400.0, 600.0), (210.0, 200.0)];
    assert_eq!(samples(&quartets, 10), [10.0, 10.0, -0.5]);
}

#[test]
fn batches_come_as_n_2n_2n_n() {
    let mut asked = Vec::new();
    let mut body = |n| {
        asked.push(n);
        Ok(n as f64)
    };
    assert_eq!(abba(7, &mut Watch::new(None), &mut body).expect("runs"), (14.0, 28.0));
    assert_eq!(asked, [7, 14, 14, 7]);
}

#[test]
fn turns_that_fail_their_check_are_counted_and_leave_no_value() {
    let timer = timer(Goal { case_ns: 0.0, ..GOAL });
    let take = |from: u32| {
        let mut count = 0;
        let mut turn = |_: &mut Watch| {
            count += 1;
            Ok((count >= from).then_some(count))
        };
        timer.repeat(&mut turn).expect("runs")
    };
    let some = take(4);
    assert_eq!((some.kept.as_slice(), some.refused), (&[4, 5, 6][..], 3));
    assert!(some.note().is_some() && some.readings.is_empty());
    let none = take(100);
    assert_eq!(none.refused, 6);
    none.or_fail().expect_err("has none");
}

#[test]
fn turns_of_several_places_stand_one_after_another() {
    let reading = |n: u32| Reading { width: f64::from(n), cycle_ns: 0.3 };
    let place = |kept: &[u32]| Turns {
        kept: kept.to_vec(),
        readings: kept.iter().map(|n| reading(*n)).collect(),
        refused: 1,
        wanted: 2,
    };
    let mut both = Turns::joined([place(&[1, 2]), place(&[]), place(&[3])]);
    assert_eq!((both.refused, both.wanted), (3, 6));
    both.skip(1);
    assert_eq!((both.kept.as_slice(), &*both.readings), (&[2, 3][..], &[2, 3].map(reading)[..]));
    assert_eq!(both.map(|n| n * 2).kept, [4, 6]);
}

#[test]
fn the_first_error_of_a_turn_ends_everything() {
    let mut calls = 0;
    let mut turn = |_: &mut Watch| -> Result<Option<()>> {
        calls += 1;
        anyhow::ensure!(calls < 3, "third call");
        Ok(Some(()))
    };
    timer(GOAL).repeat(&mut turn).expect_err("third call");
    assert_eq!(calls, 3);
}
