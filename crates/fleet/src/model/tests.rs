use super::{State, Which, judge, suspects};
use crate::drawn::{Drawn, Fault, Noise};
use crate::read::{Fleet, from_lines};

/// A sweep with its steps of suspects, as a job script makes them.
fn measured(drawn: &mut Drawn) -> Fleet {
    let mut files = drawn.sweep();
    for _ in 0..super::STEPS_MOST {
        let fleet = from_lines(files.clone());
        let again = suspects(&fleet, &judge(&fleet));
        if again.hosts().is_empty() {
            break;
        }
        files.extend(drawn.again(&again));
    }
    from_lines(files)
}

/// What is accused or stays open, by name.
fn found(fleet: &Fleet, state: State) -> Vec<String> {
    let judgement = judge(fleet);
    let mut names: Vec<String> = judgement
        .in_state(state)
        .map(|verdict| crate::names::which_name(fleet, verdict.which))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn drawn(size: usize, faults: Vec<Fault>) -> Drawn {
    let mut drawn = Drawn::new(&Noise::plain(), size, Fault::None, 11);
    drawn.faults = faults;
    drawn
}

#[test]
fn a_healthy_fleet_accuses_no_node() {
    let fleet = measured(&mut drawn(24, vec![]));
    assert!(found(&fleet, State::Accused).is_empty() && found(&fleet, State::Suspect).is_empty());
}

#[test]
fn a_slow_node_and_a_slow_link_are_accused_and_nothing_else() {
    let faults = vec![Fault::Figure(5, 0, 0.105)];
    let fleet = measured(&mut drawn(24, faults));
    assert_eq!(found(&fleet, State::Accused), ["n005"]);
    let mut one = drawn(24, vec![]);
    let (from, to) = one.recipe.slots(&one.list)[0].pairs[0];
    one.faults = vec![Fault::Link(from as usize, to as usize, 2.0_f64.ln())];
    let fleet = measured(&mut one);
    assert_eq!(found(&fleet, State::Accused), [format!("n{from:03} → n{to:03}")]);
    let judgement = judge(&fleet);
    let link = judgement.in_state(State::Accused).next().unwrap();
    assert!((1.8..2.2).contains(&link.factor) && link.steps == 3, "{link:?}");
}

#[test]
fn one_bad_node_is_the_only_one_accused() {
    let fleet = measured(&mut drawn(24, vec![Fault::Node(7, 0.5)]));
    assert_eq!(found(&fleet, State::Accused), ["n007"]);
    assert!(found(&fleet, State::Suspect).is_empty());
}

#[test]
fn what_stands_out_once_is_a_suspect_with_three_healthy_peers() {
    let mut one = drawn(24, vec![Fault::Figure(5, 0, 0.3)]);
    let mut files = one.sweep();
    let fleet = from_lines(files.clone());
    let judgement = judge(&fleet);
    assert_eq!(found(&fleet, State::Suspect), ["n005"]);
    let again = suspects(&fleet, &judgement);
    assert_eq!(again.suspects, ["n005"]);
    assert_eq!((again.peers.len(), again.pairs.len()), (3, 0));
    // It is well when it is measured again.
    one.faults.clear();
    files.extend(one.again(&again));
    let fleet = from_lines(files);
    assert_eq!(found(&fleet, State::Cleared), ["n005"]);
    assert!(suspects(&fleet, &judge(&fleet)).hosts().is_empty());
}

#[test]
fn a_link_is_measured_again_with_other_partners_of_both_ends() {
    let mut one = drawn(24, vec![]);
    let (from, to) = one.recipe.slots(&one.list)[0].pairs[0];
    one.faults = vec![Fault::Link(from as usize, to as usize, 2.0_f64.ln())];
    let fleet = from_lines(one.sweep());
    let again = suspects(&fleet, &judge(&fleet));
    let name = |node: u32| format!("n{node:03}");
    let pair = |pair: &&(String, String)| pair.0 == name(from) && pair.1 == name(to);
    assert_eq!(again.pairs.iter().filter(pair).count(), 1);
    assert!(again.pairs.iter().filter(|pair| pair.0 == name(from)).count() >= 4);
    assert!(again.pairs.iter().filter(|pair| pair.1 == name(to)).count() >= 4);
    assert!(again.list(|key| key.experiment.clone()).contains(&format!(
        "{} > {}\n",
        name(from),
        name(to)
    )));
}

#[test]
fn five_nodes_accuse_no_one_and_six_do() {
    for (size, expected) in [(5, vec![]), (6, vec!["n002".to_owned()])] {
        let mut one = drawn(size, vec![Fault::Figure(2, 0, 0.7)]);
        let fleet = from_lines(one.sweep());
        assert_eq!(found(&fleet, State::Suspect), expected);
    }
}

#[test]
fn a_stratum_that_misses_its_prediction_is_named() {
    let mut files = drawn(8, vec![]).sweep();
    for line in files.iter_mut().flat_map(|(_, lines)| lines) {
        if let Some(figure) = line.figure.as_mut().filter(|figure| figure.experiment == "cpu.peak")
        {
            figure.predicted = Some((1.5e9, 2e9));
        }
    }
    let fleet = from_lines(files);
    let judgement = judge(&fleet);
    assert_eq!(judgement.below.len(), 1);
    assert!((1.4..1.6).contains(&judgement.below[0].factor));
    assert!(judgement.verdicts.iter().all(|verdict| !matches!(verdict.which, Which::Link(..))));
}

#[test]
fn noise_that_hides_a_tenth_is_named() {
    let text = "hardware\thigher\talone\tmemory.bandwidth\t-0.2 0.0 0.1 0.2\t0.3 0.2\t-0.3 -0.1\n\
                hardware\thigher\talone\tcpu.peak\t0.0 0.001 -0.001\n";
    let mut one = Drawn::new(&Noise::parse(text), 24, Fault::None, 3);
    let fleet = from_lines(one.sweep());
    let judgement = judge(&fleet);
    let hidden = judgement.seen.iter().filter(|seen| seen.hides());
    let hidden: Vec<&str> =
        hidden.map(|seen| fleet.figures[seen.subject.figure].key.experiment.as_str()).collect();
    assert_eq!(hidden, ["memory.bandwidth"]);
}
