use super::*;
use bench::experiment::AnyExperiment as _;
use bench::experiment::fixtures::{calibrated, on_a_thread, recorded, rehearsal};
use bench::measure::Turns;
use record::case::Order;
use record::event::Raw;
use record::key::CaseId;
use session::fixtures::{check, ids, params, smoke};

#[test]
fn dozens_of_cpus_are_no_sample() {
    let mut few = recorded("epyc-7763-2s");
    few.cpus.truncate(64);
    let offer = check(&EXPERIMENT, &few, Preset::Thorough);
    let cells = offer.series.iter().find(|series| series.name == MATRIX);
    assert_eq!(cells.expect("a matrix").cases.len(), 64 * 63);
    let cost = offer.series.iter().map(|series| EXPERIMENT.round_cost(&few, series));
    assert!(cost.sum::<Duration>() < Duration::from_secs(60));
}

#[test]
fn what_cannot_be_is_a_skip_with_its_reason() {
    let site = recorded("vm-granite-rapids");
    let offer = |site: &Site, set: &[(&str, &str)]| {
        EXPERIMENT.series(site, &params(&CARD, Preset::Standard, set))
    };
    let found = offer(&site, &[("pair", "same,remote"), ("from", "0"), ("to", "7")]);
    let found = found.expect("an offer of nothing");
    assert!(found.series.is_empty());
    let reasons: Vec<&str> = found.skipped.iter().map(|(_, skip)| skip.reason.as_str()).collect();
    assert!(reasons[0].contains("itself"), "{reasons:?}");
    assert!(reasons[1].contains("remote"), "{reasons:?}");
    assert!(reasons[4].contains("CPU 7"), "{reasons:?}");
    let one = offer(&site, &[("from", "1")]).expect("an offer");
    assert!(ids(&one).contains(&CaseId::new().with("from", 1_u64).with("to", 0_u64).to_string()));
}

#[test]
fn it_measures_and_the_turns_add_up() {
    if metal::place::allowed().expect("CPUs").len() < 2 {
        return skips::test("one-cpu");
    }
    let samples = smoke(&EXPERIMENT);
    assert_eq!(samples.len(), 2);
    for samples in samples {
        let Raw::Quartets { k, n, two_n, voids } = &samples.raw else {
            panic!("{:?}", samples.raw);
        };
        assert!(*k >= 2 && k % 2 == 0 && !n.is_empty() && n.len() == two_n.len());
        // A busy machine voids some; each line had a quartet.
        assert!(n.len() + *voids as usize >= LINES as usize, "{}", n.len());
        assert!(samples.at.contains_key("instruction"));
    }
}

fn play(game: Game, cpu: usize) -> Result<game::Played> {
    on_a_thread(|| {
        let series = Series::new(CARD.id, Order::Fixed, Vec::new());
        game.play(&Bench::new(rehearsal(series, vec![cpu], calibrated(cpu)))?)
    })
}

#[test]
fn a_party_that_cannot_come_ends_the_game_with_its_reason() {
    let cpu = metal::place::allowed().expect("CPUs")[0];
    for (cpus, reason) in
        [([cpu, 100_000], "100000"), ([100_000, cpu], "100000"), ([cpu, cpu], "itself")]
    {
        let game = Game { cpus, home: Home::Second, lines: 2, case_ns: 1e5 };
        let error = play(game, cpu).expect_err("no such game");
        assert!(format!("{error:#}").contains(reason), "{error:#}");
    }
}

#[test]
fn every_line_is_timed_and_pages_of_either_home_count() {
    let allowed = metal::place::allowed().expect("CPUs");
    let [first, second, ..] = allowed[..] else { return skips::test("one-cpu") };
    for home in [Home::First, Home::Second] {
        let game = Game { cpus: [second, first], home, lines: 3, case_ns: 3e5 };
        let played = play(game, first).expect("two CPUs");
        let quartets = Turns::joined(played.lines);
        assert!(quartets.kept.len() >= 3);
        assert!(quartets.kept.iter().all(|(n, two_n)| *n > 0.0 && *two_n > 0.0));
    }
}
