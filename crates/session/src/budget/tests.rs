use super::{Budget, Claim, CoreState, Rules};
use crate::fixtures::recorded_sites as sites;
use crate::params::Settings;
use crate::plan::{Work, default_budget, plan};
use crate::select::Selection;
use bench::experiment::{Preset, Site};
use catalogue::FAMILIES;
use stats::draw::Draw;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) fn rules(preset: Preset) -> Rules<'static> {
    Rules {
        looks: preset.looks(),
        asked_from: preset.asked_from(),
        ahead_until: preset.ahead_until(),
        goal: 0.02,
    }
}

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn claim(family: &'static str, stage: usize, stated: Duration) -> Claim<'static> {
    Claim { family, stage, least: 9, share: 1.0, stated, ..Claim::default() }
}

/// Plays a run whose rounds cost what `cost` says and whose intervals are as wide as `width` says,
/// by claim and number of rounds; how long it takes.
pub(super) fn play(
    claims: &mut [Claim<'_>],
    rules: Rules<'_>,
    budget: Duration,
    cost: impl Fn(usize) -> Duration,
    mut width: impl FnMut(usize, u32) -> Option<f64>,
) -> Duration {
    let mut elapsed = Duration::ZERO;
    let last = claims.iter().map(|claim| claim.stage).max().unwrap_or(0);
    for stage in (0..=last).map(Some).chain([None]) {
        loop {
            let left = budget.saturating_sub(elapsed);
            let turns = Budget::new(claims, rules, left).next(stage, CoreState::Unknown);
            if turns.is_empty() {
                break;
            }
            let apart = turns.iter().all(|turn| !claims[turn.claim].alone) || turns.len() == 1;
            assert!(apart, "what must be alone is not interleaved: {turns:?}");
            while elapsed < budget && turns.iter().any(|t| claims[t.claim].rounds < t.target) {
                for turn in &turns {
                    let claim = &mut claims[turn.claim];
                    assert!(!claim.ended);
                    if elapsed < budget && claim.rounds < turn.target {
                        elapsed += cost(turn.claim) + claim.preparation;
                        claim.preparation = Duration::ZERO;
                        claim.observed = Some(cost(turn.claim));
                        claim.rounds += 1;
                    }
                }
            }
            for turn in &turns {
                let claim = &mut claims[turn.claim];
                claim.width = width(turn.claim, claim.rounds);
                let enough = rules.enough(claim.rounds, claim.width).is_some();
                claim.ended = claim.once || enough && claim.rounds >= claim.least;
            }
        }
    }
    elapsed
}

/// Half widths that fall as intervals do, from a tenth of the goal to ten goals.
fn by_luck(seed: u64) -> impl FnMut(usize, u32) -> Option<f64> {
    move |at, rounds| {
        let mut draw = Draw::new(seed ^ (at as u64) << 8 ^ u64::from(rounds) << 32);
        let scale = 0.002 * 100.0_f64.powf(draw.uniform());
        (rounds >= 6).then(|| scale / f64::from(rounds).sqrt())
    }
}

fn fewest_and_most(claims: &[Claim<'_>]) -> (u32, u32) {
    let rounds = || claims.iter().filter(|claim| !claim.once).map(|claim| claim.rounds);
    (rounds().min().unwrap_or(0), rounds().max().unwrap_or(0))
}

/// Five stages of six series, a second a round.
fn stages() -> Vec<Claim<'static>> {
    let families = ["clock", "cpu", "os", "memory", "fs"];
    let of = |(stage, family): (usize, &&'static str)| {
        (0..6).map(move |_| claim(family, stage, SECOND)).collect::<Vec<_>>()
    };
    families.iter().enumerate().flat_map(of).collect()
}

#[test]
fn every_series_has_its_first_look_whatever_was_stated() {
    for factor in [0.3, 1.0, 3.0] {
        let mut claims = stages();
        let cost = SECOND.mul_f64(factor);
        let budget = cost * 30 * 7;
        let took = play(&mut claims, rules(Preset::Standard), budget, |_| cost, by_luck(1));
        let (fewest, most) = fewest_and_most(&claims);
        assert!(fewest >= 6 && most >= 9, "{factor}: {fewest} to {most}");
        assert!(took <= budget + cost, "{factor}: {took:?}");
    }
}

#[test]
fn too_short_a_budget_gives_all_fewer_rounds_alike() {
    // Of 30 series at a second each, for so many rounds.
    for (factor, rounds) in [(1.0, 4), (3.0, 4), (3.0, 2), (1.0, 1)] {
        let mut claims = stages();
        let cost = SECOND.mul_f64(factor);
        let budget = cost * 30 * rounds + cost * 10;
        play(&mut claims, rules(Preset::Standard), budget, |_| cost, by_luck(1));
        let (fewest, most) = fewest_and_most(&claims);
        assert!(fewest >= rounds && most <= rounds + 1, "{factor}: {fewest} to {most}");
    }
}

#[test]
fn key_figures_have_their_first_looks_where_time_is_short() {
    // Ten of 30 series have key figures; time for so many rounds of all, and what each then has.
    for (rounds, with_keys, others) in [(7, 6, 6), (5, 6, 4), (3, 6, 1), (2, 4, 1), (1, 1, 1)] {
        let mut claims = stages();
        claims.iter_mut().skip(2).step_by(3).for_each(|claim| claim.has_keys = true);
        play(&mut claims, rules(Preset::Standard), SECOND * 30 * rounds, |_| SECOND, by_luck(1));
        for (at, claim) in claims.iter().enumerate() {
            let least = if claim.has_keys { with_keys } else { others };
            assert!(claim.rounds >= least, "{rounds}, {at}: {claim:?}");
        }
    }
}

#[test]
fn a_hog_starves_none() {
    let mut claims = stages();
    let hog = |at| if at == 15 { SECOND * 50 } else { SECOND };
    play(&mut claims, rules(Preset::Standard), SECOND * 200, hog, by_luck(1));
    for (at, claim) in claims.iter().enumerate() {
        // Two stages have their first look before it is met, and its own rounds soon do not fit any
        // more.
        let least = [6, 6, 4, 4, 4][claim.stage];
        let least = if at == 15 { 1 } else { least };
        assert!(claim.rounds >= least && claim.rounds <= 6, "{at}: {}", claim.rounds);
    }
}

#[test]
fn what_is_measured_one_time_or_alone_keeps_its_rules() {
    let mut claims = stages();
    claims[3].once = true;
    claims[8].once = true;
    claims[8].alone = true;
    claims[9].alone = true;
    play(&mut claims, rules(Preset::Quick), SECOND * 1000, |_| SECOND, by_luck(2));
    assert_eq!((claims[3].rounds, claims[8].rounds), (1, 1));
    assert_eq!(claims[9].rounds, 9);
}

#[test]
fn the_widest_go_on_after_the_least_rounds_of_what_the_quick_preset_has_too() {
    let width = |at: usize, rounds: u32| (rounds >= 6).then_some(0.03 + 0.01 * at as f64);
    // Series with cases of the quick preset, the narrowest; the budget; series up to which some
    // rounds are had, and those from there on.
    for (ahead, budget, (border, below, beyond)) in [
        // 30 series to nine rounds, and 15 looks more.
        (0, 30 * 9 + 15 * 3, (15, 9, 12)),
        // Too short for nine of all: the widest have them.
        (0, 30 * 6 + 15 * 3, (15, 6, 9)),
        // 30 series to nine rounds, and ten two looks more.
        (10, 30 * 9 + 10 * 6, (10, 15, 9)),
        // Too short for nine of all: those ten have them.
        (10, 30 * 6 + 10 * 3, (10, 9, 6)),
    ] {
        let mut claims = stages();
        claims[..ahead].iter_mut().for_each(|claim| claim.least = 15);
        play(&mut claims, rules(Preset::Standard), SECOND * budget, |_| SECOND, width);
        for (at, claim) in claims.iter().enumerate() {
            let rounds = if at < border { below } else { beyond };
            assert_eq!(claim.rounds, rounds, "{ahead}, {budget}: {at}");
        }
    }
}

#[test]
fn what_was_measured_before_a_run_was_continued_counts() {
    let mut claims = stages();
    for (at, claim) in claims.iter_mut().enumerate() {
        claim.rounds = at as u32 % 11;
        claim.ended = rules(Preset::Quick).enough(claim.rounds, None).is_some();
    }
    play(&mut claims, rules(Preset::Quick), SECOND * 1000, |_| SECOND, by_luck(3));
    for (at, claim) in claims.iter().enumerate() {
        assert!(claim.ended && claim.rounds == (at as u32 % 11).max(9), "{at}: {claim:?}");
    }
}

/// The rounds of every series that is repeated in rounds, by its label, where they cost `factor`
/// times what is stated of them.
fn rounds(site: &Site, preset: Preset, factor: f64, seed: u64) -> BTreeMap<String, u32> {
    let (selection, settings) = (Selection::default(), Settings::default());
    let budget = default_budget(preset);
    let planned = plan(FAMILIES, &selection, &settings, preset, budget, site).expect("a plan");
    let least = preset.asked_from();
    let claim = |work| Claim { least, ..Work::claim(work) };
    let mut claims: Vec<Claim<'_>> = planned.work.iter().map(claim).collect();
    let cost = |at: usize| planned.work[at].cost.mul_f64(factor);
    play(&mut claims, rules(preset), budget, cost, by_luck(seed));
    let all = planned.work.iter().zip(claims);
    let of = all.filter(|(work, _)| !work.once());
    of.map(|(work, claim)| (work.series.label(), claim.rounds)).collect()
}

#[test]
fn a_larger_preset_never_has_fewer_rounds() {
    let presets = [Preset::Quick, Preset::Standard, Preset::Thorough];
    let sites = presets.map(sites);
    for (at, (host, _)) in sites[0].iter().enumerate() {
        // Observed rounds take 0.3 to 0.8 of what is stated of them.
        for (factor, seed) in [(0.5, 1), (0.5, 2), (0.7, 3), (0.7, 4)] {
            let of = |preset: usize| rounds(&sites[preset][at].1, presets[preset], factor, seed);
            let all = [of(0), of(1), of(2)];
            for pair in all.windows(2) {
                for (label, smaller) in &pair[0] {
                    let larger = pair[1].get(label).copied();
                    let told = format!("{host}: {label}: {smaller}, {larger:?}");
                    assert!(larger.is_none_or(|larger| larger >= *smaller), "{told}");
                }
            }
        }
    }
}

/// On a machine that others load, where rounds take a fifth longer than is stated (they take 0.3 to 0.8
/// of it elsewhere), a standard run still has the interval of each key figure.
#[test]
fn no_key_figure_of_a_standard_run_lacks_its_interval() {
    let with_keys: Vec<&str> = FAMILIES
        .iter()
        .flat_map(|family| family.experiments)
        .map(|experiment| experiment.card())
        .filter(|card| !card.keys.is_empty())
        .map(|card| card.id)
        .collect();
    assert!(with_keys.contains(&"memory.latency"));
    for (preset, slowest) in
        [(Preset::Quick, 1.0), (Preset::Standard, 1.2), (Preset::Thorough, 1.2)]
    {
        for (host, site) in sites(preset) {
            for (factor, seed) in [(0.5, 5), (slowest, 6)] {
                for (label, rounds) in rounds(&site, preset, factor, seed) {
                    let id = label.split('/').next().unwrap_or_default();
                    let is_key = with_keys.contains(&id);
                    assert!(!is_key || rounds >= 6, "{host} {preset:?} {factor}: {label} {rounds}");
                }
            }
        }
    }
}

#[test]
fn rounds_of_a_core_alone_come_first_among_equals_and_one_at_a_time() {
    let of = |least, lacks_alone| Claim {
        rounds: 6,
        least,
        lacks_alone,
        observed: Some(SECOND),
        ..claim("os", 0, SECOND)
    };
    let claims = [of(15, false), of(9, true), of(9, false)];
    let budget = |left: u32| Budget::new(&claims, rules(Preset::Standard), SECOND * left);
    let targets = |left| {
        let turns = budget(left).next(None, CoreState::Unknown);
        turns.iter().map(|turn| (turn.claim, turn.target)).collect::<Vec<_>>()
    };
    assert_eq!(targets(2), [(1, 7)]);
    assert_eq!(targets(4), [(1, 7), (0, 9)]);
    assert_eq!(targets(7), [(1, 7), (0, 9), (2, 9)]);
}

#[test]
fn a_core_that_is_alone_is_used_and_one_that_is_shared_is_left_to_what_needs_none() {
    let of = |rounds, is_probed, lacks_alone| Claim {
        rounds,
        is_probed,
        lacks_alone,
        observed: Some(SECOND),
        ..claim("os", 0, SECOND)
    };
    let claims = [of(6, false, false), of(7, true, false), of(8, true, true), of(9, false, false)];
    let next = |core| {
        let budget = Budget::new(&claims, rules(Preset::Standard), 9 * SECOND);
        budget.next(None, core).iter().map(|turn| (turn.claim, turn.target)).collect::<Vec<_>>()
    };
    for (core, turns) in [
        (CoreState::Unknown, vec![(0, 9)]),
        (CoreState::Alone, vec![(2, 9)]),
        (CoreState::Shared, vec![(0, 9)]),
    ] {
        assert_eq!(next(core), turns, "{core:?}");
    }
    // Nobody waits for ever: what needs a core is next where nothing else wants time.
    let claims = [of(7, true, false), of(7, true, true)];
    let budget = Budget::new(&claims, rules(Preset::Standard), 9 * SECOND);
    let turns = budget.next(None, CoreState::Shared);
    assert_eq!(turns.iter().map(|turn| turn.claim).collect::<Vec<_>>(), [1, 0]);
}
