use super::{Tick, periodic, tick, tick_by_length};
use crate::draw::Draw;

const MS: f64 = 1e6;
const CANDIDATES: [f64; 4] = [10.0 * MS, 4.0 * MS, 10.0 / 3.0 * MS, 1.0 * MS];

/// A tick of a period for so long, each late by up to `late_ns`, some missing.
fn ticks(draw: &mut Draw, period_ns: f64, for_ns: f64, late_ns: f64, missing: f64) -> Vec<f64> {
    let mut at = draw.uniform() * period_ns + 1e12;
    let end = at + for_ns;
    let mut starts = Vec::new();
    while at < end {
        if !draw.chance(missing) {
            starts.push(at + draw.uniform() * late_ns);
        }
        at += period_ns;
    }
    starts
}

fn random(draw: &mut Draw, per_s: f64, for_ns: f64) -> Vec<f64> {
    let (mut at, mut starts) = (1e12, Vec::new());
    loop {
        at += -draw.uniform().ln() * 1e9 / per_s;
        if at > 1e12 + for_ns {
            return starts;
        }
        starts.push(at);
    }
}

fn sorted(lists: &[&[f64]]) -> Vec<f64> {
    let mut starts = lists.concat();
    starts.sort_by(f64::total_cmp);
    starts
}

#[track_caller]
fn is_period(found: Option<Tick>, period_ns: f64, ppm: f64) -> Tick {
    let found = found.expect("there is a tick");
    let off = (found.period_ns / period_ns - 1.0) * 1e6;
    assert!(off.abs() < ppm, "{period_ns}: {found:?}, {off} ppm");
    found
}

#[test]
fn ticks_of_every_rate_are_found_and_not_their_parts() {
    let mut draw = Draw::new(1);
    for candidate in CANDIDATES {
        for ppm in [-450.0, 0.0, 80.0] {
            for (missing, late_ns) in [(0.0, 500.0), (0.3, 3_000.0), (0.05, 30_000.0)] {
                let period = candidate * (1.0 + ppm * 1e-6);
                let starts = ticks(&mut draw, period, 600.0 * MS, late_ns, missing);
                let found = is_period(tick(&starts, &CANDIDATES), period, 100.0);
                assert!(found.resultant > 0.9, "{found:?}");
                assert!(found.occupied > 0.6 * (1.0 - missing), "{found:?}");
                let on = starts.iter().filter(|start| found.is_on(**start)).count();
                assert!(on as f64 > 0.9 * starts.len() as f64, "{on}: {found:?}");
            }
        }
    }
}

#[test]
fn a_long_time_fits_the_period_to_less_than_a_part_in_ten_million() {
    let mut draw = Draw::new(2);
    let period = 4.0 * MS * (1.0 + 37.3e-6);
    let starts = ticks(&mut draw, period, 100_000.0 * MS, 2_000.0, 0.02);
    let found = is_period(tick(&starts, &CANDIDATES), period, 0.1);
    assert!(found.on_grid as f64 > 0.95 * starts.len() as f64);
}

#[test]
fn random_events_have_no_period() {
    let mut draw = Draw::new(3);
    let mut claims = 0;
    for per_s in [5.0, 30.0, 100.0, 300.0, 2_000.0] {
        for _ in 0..12 {
            let starts = random(&mut draw, per_s, 500.0 * MS);
            claims += usize::from(tick(&starts, &CANDIDATES).is_some());
            let lengths: Vec<f64> = starts.iter().map(|_| 1e3 * draw.normal().exp()).collect();
            claims += usize::from(periodic(&starts, &lengths).is_some());
        }
    }
    assert_eq!(claims, 0);
}

#[test]
fn bursts_have_no_period() {
    let mut draw = Draw::new(4);
    for _ in 0..20 {
        let mut starts = Vec::new();
        for begin in random(&mut draw, 20.0, 1_000.0 * MS) {
            starts.extend((0..12).map(|at| begin + f64::from(at) * 2e4 * draw.uniform()));
        }
        starts.sort_by(f64::total_cmp);
        assert_eq!(tick(&starts, &CANDIDATES), None);
        assert_eq!(periodic(&starts, &vec![2e3; starts.len()]), None);
    }
}

#[test]
fn few_events_are_not_a_period() {
    let four: Vec<f64> = (0..4).map(|at| 4.0 * MS * f64::from(at)).collect();
    assert_eq!(tick(&four, &CANDIDATES), None);
    assert_eq!(tick(&[], &CANDIDATES), None);
    assert_eq!(periodic(&[], &[]), None);
    // Eight ticks exactly in their places are.
    let eight: Vec<f64> = (0..8).map(|at| 4.0 * MS * f64::from(at)).collect();
    assert!(tick(&eight, &CANDIDATES).is_some());
}

#[test]
fn a_tick_is_found_among_thousands_of_others() {
    let mut draw = Draw::new(5);
    for per_s in [300.0, 5_000.0] {
        let own = ticks(&mut draw, 4.0 * MS, 1_000.0 * MS, 1_000.0, 0.0);
        let starts = sorted(&[&own, &random(&mut draw, per_s, 1_000.0 * MS)]);
        let found = is_period(tick(&starts, &CANDIDATES), 4.0 * MS, 30.0);
        let on = own.iter().filter(|start| found.is_on(**start)).count();
        assert!(on > 240, "{on}: {found:?}");
    }
}

#[test]
fn a_tick_of_a_short_window_is_found_among_many_shorter_gaps() {
    let mut draw = Draw::new(9);
    let own = ticks(&mut draw, 4.0 * MS, 60.0 * MS, 1_000.0, 0.0);
    let starts = sorted(&[&own, &random(&mut draw, 15_000.0, 60.0 * MS)]);
    let mut lengths: Vec<f64> = starts
        .iter()
        .map(|at| if own.contains(at) { 3e3 } else { 500.0 })
        .map(|length: f64| length * draw.normal().mul_add(0.2, 1.0).abs())
        .collect();
    let found = tick_by_length(&starts, &lengths, &CANDIDATES);
    is_period(found, 4.0 * MS, 300.0);
    // Lengths that say nothing do not help, and do not invent one either.
    fastrand::Rng::with_seed(9).shuffle(&mut lengths);
    assert_eq!(tick_by_length(&starts, &lengths, &CANDIDATES), None);
    assert_eq!(tick_by_length(&[], &[], &CANDIDATES), None);
}

#[test]
fn others_who_come_regularly_are_no_tick() {
    let mut draw = Draw::new(6);
    // Without a tick; their parts and multiples are common periods.
    for period in [2.0, 5.0, 6.0, 7.0, 12.0, 20.0, 7.2137, 100.0] {
        let starts = ticks(&mut draw, period * MS, 3_000.0 * MS, 2_000.0, 0.0);
        assert_eq!(tick(&starts, &CANDIDATES), None, "{period} ms");
        let found = periodic(&starts, &vec![2e5; starts.len()]).unwrap();
        assert!((found.period_ns / MS / period - 1.0).abs() < 1e-3, "{found:?}");
    }
}

#[test]
fn another_period_is_found_beside_the_tick() {
    let mut draw = Draw::new(7);
    for (for_ms, late_ns) in [(150.0, 5_000.0), (1_000.0, 50_000.0)] {
        for _ in 0..10 {
            let own = ticks(&mut draw, 4.0 * MS, for_ms * MS, 1_000.0, 0.0);
            let other = ticks(&mut draw, 7.0 * MS, for_ms * MS, late_ns, 0.0);
            let few = random(&mut draw, 60.0, for_ms * MS);
            let starts = sorted(&[&own, &other, &few]);
            let tick = is_period(tick(&starts, &CANDIDATES), 4.0 * MS, 200.0);
            let rest: Vec<f64> = starts.into_iter().filter(|at| !tick.is_on(*at)).collect();
            let length = |at: &f64| if other.contains(at) { 2e5 } else { 3e3 };
            let lengths: Vec<f64> = rest.iter().map(length).collect();
            let found = periodic(&rest, &lengths).expect("7 ms");
            assert!((found.period_ns / MS / 7.0 - 1.0).abs() < 0.01, "{found:?}");
            assert_eq!(found.length_ns, 2e5);
            assert!(found.members.len() as f64 > 0.6 * for_ms / 7.0, "{found:?}");
            assert!(found.p < 1e-3);
        }
    }
}

/// A host's tick of 1000 Hz, as an Emerald Rapids guest saw it, is the surest period of all; what
/// takes most time is another.
#[test]
fn of_two_periods_the_one_that_takes_most_time_is_found() {
    let mut draw = Draw::new(13);
    for (host_ns, expected_ms) in [(1e4, 7.2), (1e5, 1.0)] {
        let host = ticks(&mut draw, 1.0 * MS, 300.0 * MS, 2_000.0, 0.1);
        let other = ticks(&mut draw, 7.2 * MS, 300.0 * MS, 20_000.0, 0.0);
        let starts = sorted(&[&host, &other]);
        let length = |at: &f64| if other.contains(at) { 2e5 } else { host_ns };
        let lengths: Vec<f64> = starts.iter().map(length).collect();
        let found = periodic(&starts, &lengths).expect("a period");
        assert!((found.period_ns / MS / expected_ms - 1.0).abs() < 0.01, "{found:?}");
    }
}

#[test]
fn another_period_is_no_tick_where_the_tick_is_hard_to_see() {
    let mut draw = Draw::new(10);
    for _ in 0..3 {
        let own = ticks(&mut draw, 4.0 * MS, 300.0 * MS, 500_000.0, 0.2);
        let other = ticks(&mut draw, 7.0 * MS, 300.0 * MS, 2_000.0, 0.0);
        let starts = sorted(&[&own, &other, &random(&mut draw, 3_000.0, 300.0 * MS)]);
        let length = |at: &f64| match (other.contains(at), own.contains(at)) {
            (true, _) => 2e5,
            (_, true) => 2e4,
            _ => 1e3,
        };
        let lengths: Vec<f64> = starts.iter().map(length).collect();
        if let Some(tick) = tick_by_length(&starts, &lengths, &CANDIDATES) {
            let on = own.iter().filter(|start| tick.is_on(**start)).count();
            assert!(on * 4 > own.len(), "{on} of {}: {tick:?}", own.len());
        }
        let found = periodic(&starts, &lengths).expect("7 ms");
        assert!((found.period_ns / MS / 7.0 - 1.0).abs() < 0.01, "{found:?}");
    }
}

#[test]
fn a_sleeper_that_drifts_is_found_among_many_short_gaps() {
    let mut draw = Draw::new(8);
    let (mut at, mut sleeper) = (1e12, Vec::new());
    while at < 1e12 + 1_000.0 * MS {
        sleeper.push(at);
        at += 7.0 * MS + 2e5 + 6e4 * draw.uniform();
    }
    let starts = sorted(&[&sleeper, &random(&mut draw, 2_000.0, 1_000.0 * MS)]);
    let length = |at: &f64| if sleeper.contains(at) { 2e5 } else { 3e3 };
    let lengths: Vec<f64> = starts.iter().map(length).collect();
    let found = periodic(&starts, &lengths).expect("7.2 ms");
    assert!((found.period_ns / MS / 7.23 - 1.0).abs() < 0.005, "{found:?}");
    assert_eq!(found.length_ns, 2e5);
}

/// What a hypervisor does comes neither at random nor regularly: now and then for a while about as
/// often.
#[test]
fn gaps_that_come_a_little_regularly_for_a_while_have_no_period() {
    let mut draw = Draw::new(11);
    let mut claims = Vec::new();
    for run in 0..60 {
        // Stretches of tens of ms, each with a rhythm of its own that is kept to a few percent.
        let (mut at, end) = (1e12, 1e12 + 350.0 * MS);
        let mut starts = Vec::new();
        while at < end {
            let every = MS * (1.0 + 4.0 * draw.uniform());
            for _ in 0..40 {
                at += every * (1.0 + 0.01 * draw.normal());
                if draw.uniform() < 0.8 {
                    starts.push(at);
                }
            }
        }
        starts.retain(|at| *at < end);
        if let Some(found) = periodic(&starts, &vec![2e3; starts.len()]) {
            claims.push((run, found.period_ns, found.p));
        }
    }
    assert!(claims.is_empty(), "{claims:?}");
}

/// Two gaps of every tick are as far apart each time, which is no period.
#[test]
fn places_in_a_longer_period_are_no_period() {
    let mut draw = Draw::new(12);
    for apart in [3.83, 2.6, 1.1] {
        let first = ticks(&mut draw, 4.0 * MS, 350.0 * MS, 2_000.0, 0.35);
        let second: Vec<f64> = first.iter().map(|at| at + apart * MS).collect();
        let starts = sorted(&[&first, &second]);
        let found = periodic(&starts, &vec![600.0; starts.len()]).expect("4 ms");
        assert!((found.period_ns / MS / 4.0 - 1.0).abs() < 0.01, "{found:?}");
    }
}
