use super::{Kill, Outcome, measured, run, sweep};
use crate::drawn::Drawn;
use crate::model;
use crate::read::Sweep;
use crate::recipe::Recipe;
use crate::sweep::{Loads, Pair, Purpose, Stage};
use std::collections::{BTreeMap, BTreeSet};

fn recipe(size: u32) -> Recipe {
    super::recipe(size, 5)
}

/// A sweep of two matchings, one across a cut and one gathering: many of these run.
fn short(size: u32) -> Recipe {
    let mut recipe = recipe(size);
    recipe.header.steps = 2;
    recipe.header.loads = Loads { bisection: 1, incast: 1, outcast: 0 };
    recipe
}

fn drawn() -> Drawn {
    let slow = BTreeMap::from([("7".to_owned(), 0.5)]);
    Drawn { seed: 3, figures: 1, slow, ..Drawn::default() }
}

fn whole(outcome: &Outcome) -> Sweep {
    sweep(&outcome.events).expect("a header")
}

/// What verdicts follow from, in an order of its own.
fn figures(sweep: &Sweep) -> Vec<String> {
    let mut all: Vec<String> = sweep.figures.iter().map(|figure| format!("{figure:?}")).collect();
    all.extend(sweep.pairs.iter().map(|pair| format!("{pair:?}")));
    all.sort();
    all
}

fn edges(sweep: &Sweep, besides: u32) -> BTreeSet<(u32, u32, u32)> {
    let others = |pair: &&Pair| pair.from != besides && pair.to != besides;
    sweep.pairs.iter().filter(others).map(|pair| (pair.step, pair.from, pair.to)).collect()
}

#[test]
fn a_sweep_measures_every_node_and_every_step() {
    for size in [1, 2, 3, 18, 40] {
        let recipe = recipe(size);
        let outcome = run(&recipe, &drawn(), &[], 1, None);
        assert!(outcome.is_over, "{size}");
        let sweep = whole(&outcome);
        assert_eq!(measured(&sweep).len(), size as usize);
        let steps = recipe.edges(&|_, _| true, &|_| String::new()).into_iter().zip(0..);
        let planned: BTreeSet<_> = steps
            .flat_map(|((purpose, edges), step)| {
                edges.into_iter().map(move |(from, to)| (step, purpose, from, to))
            })
            .collect();
        let measured = sweep.pairs.iter().filter(|pair| pair.purpose != Purpose::Suspect);
        let measured: BTreeSet<_> =
            measured.map(|pair| (pair.step, pair.purpose, pair.from, pair.to)).collect();
        assert_eq!(measured, planned, "{size}");
        assert!(sweep.absents.is_empty(), "{:?}", sweep.absents);
        assert!(sweep.end.is_some_and(|end| !end.interrupted));
    }
}

#[test]
fn rank_0_keeps_few_connections() {
    let mut large = short(600);
    large.header.steps = 1;
    let outcome = run(&large, &drawn(), &[], 1, None);
    assert!(outcome.is_over);
    assert_eq!(outcome.connections_at_end, crate::tree::DEGREE as usize);
}

#[test]
fn a_lost_node_costs_only_its_own_figures_at_every_message() {
    // 1 has children, 17 is one of them.
    let recipe = short(19);
    let drawn = drawn();
    let undisturbed = run(&recipe, &drawn, &[], 1, None);
    let all = whole(&undisturbed);
    for rank in [1, 5, 17] {
        for at in 0..undisturbed.messages {
            for before in [true, false] {
                let kill = Kill { rank, at, before };
                let outcome = run(&recipe, &drawn, &[], 1, Some(kill));
                assert!(outcome.is_over, "{kill:?}");
                let sweep = whole(&outcome);
                for other in (0..19).filter(|other| *other != rank) {
                    assert!(
                        measured(&sweep).contains(&other),
                        "{kill:?}: {other} is missing: {:?}",
                        sweep.absents
                    );
                }
                // Of the first four phases: what is suspected depends on who is left.
                let planned = recipe.header.steps;
                let (left, full) = (edges(&sweep, rank), edges(&all, rank));
                let missing: Vec<_> =
                    full.difference(&left).filter(|(step, ..)| *step < planned).collect();
                assert!(missing.is_empty(), "{kill:?}: {missing:?}");
                let lost: BTreeSet<u32> =
                    sweep.absents.iter().filter(|of| of.lost).map(|of| of.rank).collect();
                assert!(lost.is_empty() || lost == BTreeSet::from([rank]), "{kill:?}: {lost:?}");
            }
        }
    }
}

#[test]
fn a_node_that_is_lost_in_a_turn_of_several_suspects_costs_only_its_own_pairs() {
    let recipe = recipe(101);
    let healthy = whole(&run(&recipe, &drawn(), &[], 1, None));
    // Three links of the first matching are bad, so that suspects share turns.
    let first = healthy.pairs.iter().filter(|pair| pair.step == 0).take(3);
    let links = first.map(|pair| (format!("{}-{}", pair.from, pair.to), 0.1)).collect();
    let drawn = Drawn { links, ..drawn() };
    let undisturbed = run(&recipe, &drawn, &[], 1, None);
    let all = whole(&undisturbed);
    let turns = |sweep: &Sweep| {
        let mut turns: BTreeMap<u32, BTreeSet<(u32, u32)>> = BTreeMap::new();
        for pair in sweep.pairs.iter().filter(|pair| pair.purpose == Purpose::Suspect) {
            turns.entry(pair.step).or_default().insert((pair.from, pair.to));
        }
        turns
    };
    let full = turns(&all);
    let (before, (turn, pairs)) = full
        .iter()
        .zip(full.iter().skip(1))
        .find(|((_, before), (_, pairs))| before.len() > 1 && pairs.len() > 1)
        .expect("turns of several pairs");
    let rank = pairs.iter().flat_map(|(from, to)| [*from, *to]).find(|rank| *rank > 0);
    let rank = rank.expect("a node that is not rank 0");
    let killed = |at| {
        let kill = Kill { rank, at, before: true };
        let outcome = run(&recipe, &drawn, &[], 1, Some(kill));
        assert!(outcome.is_over, "{kill:?}");
        whole(&outcome)
    };
    // Its last message of the turn, by halving.
    let (mut low, mut ended) = (0, undisturbed.messages);
    while low + 1 < ended {
        let at = u64::midpoint(low, ended);
        let is_there = turns(&killed(at)).get(turn) == Some(pairs);
        *(if is_there { &mut ended } else { &mut low }) = at;
    }
    let mut in_turn = 0;
    for at in ended.saturating_sub(40)..=ended {
        let sweep = killed(at);
        let left = turns(&sweep);
        assert!(sweep.absents.iter().all(|of| !of.lost || of.rank == rank), "{:?}", sweep.absents);
        // If the turn before is complete, the plan of this look was the same.
        if left.get(before.0) == Some(before.1) {
            let others = |of: &BTreeSet<(u32, u32)>| -> BTreeSet<(u32, u32)> {
                of.iter().copied().filter(|(from, to)| ![*from, *to].contains(&rank)).collect()
            };
            let found = left.get(turn).cloned().unwrap_or_default();
            assert_eq!(others(&found), others(pairs), "{rank} is lost at message {at}");
            in_turn += u32::from(found != *pairs);
        }
    }
    assert!(in_turn > 0, "the node was never lost before its turn ended");
}

#[test]
fn rank_0_can_die_at_every_message_and_the_verdicts_are_the_same() {
    let recipe = short(18);
    let drawn = drawn();
    let undisturbed = run(&recipe, &drawn, &[], 1, None);
    let all = whole(&undisturbed);
    let judged = model::judge(&all);
    assert!(!judged.verdicts.is_empty(), "node 7 is slow");
    for at in 0..undisturbed.messages {
        let died = run(&recipe, &drawn, &[], 1, Some(Kill { rank: 0, at, before: false }));
        if died.is_over {
            // There is nothing to go on with.
            continue;
        }
        let resumed = run(&recipe, &drawn, &died.events, 2, None);
        assert!(resumed.is_over, "{at}");
        let after = whole(&resumed);
        assert!(figures(&after) == figures(&all), "{at}: other figures");
        if at % 50 == 0 {
            assert_eq!(model::judge(&after).verdicts, judged.verdicts, "{at}");
        }
        assert!(after.absents.is_empty(), "{at}: {:?}", after.absents);
        // Nothing that was measured is measured again.
        let phases =
            after.phases.iter().filter(|phase| phase.phase == Stage::Gather && phase.ended);
        assert_eq!(phases.count(), 1, "{at}");
    }
}
