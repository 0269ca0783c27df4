use super::{STEPS_MOST, State, Which, judge, suspects};
use crate::drawn::{Drawn, Fault, Noise};
use crate::file::Line;
use crate::names::which_name;
use crate::read::{Fleet, from_lines};
use std::collections::BTreeSet;

/// What is accused or stays open, by name.
fn found(fleet: &Fleet, state: State) -> Vec<String> {
    let judgement = judge(fleet);
    let found = judgement.in_state(state).map(|verdict| which_name(fleet, verdict.which));
    found.collect::<BTreeSet<String>>().into_iter().collect()
}

fn drawn(size: usize, faults: Vec<Fault>) -> Drawn {
    Drawn::new(&Noise::plain(), size, faults, 11)
}

/// The ends of a pair of the first slot, and their names.
fn first_pair() -> ((usize, usize), [String; 2]) {
    let one = drawn(24, vec![]);
    let (from, to) = one.recipe.slots(&one.list)[0].pairs[0];
    ((from as usize, to as usize), [from, to].map(|node| format!("n{node:03}")))
}

/// What a job accuses, and nothing else stays open.
#[test]
fn a_job_accuses_what_is_bad_and_nothing_else() {
    let ((from, to), [near, far]) = first_pair();
    for (faults, accused) in [
        (vec![], vec![]),
        (vec![Fault::Figure(5, 0, 0.105)], vec!["n005".to_owned()]),
        (vec![Fault::Link(from, to, 2.0_f64.ln())], vec![format!("{near} → {far}")]),
        (vec![Fault::Node(7, 0.5)], vec!["n007".to_owned()]),
    ] {
        let (_, fleet) = drawn(24, faults).job(STEPS_MOST);
        assert_eq!(found(&fleet, State::Accused), accused);
        assert!(found(&fleet, State::Suspect).is_empty(), "{accused:?}");
        for link in judge(&fleet).in_state(State::Accused) {
            let is_link = matches!(link.which, Which::Link(..));
            assert!(!is_link || (1.8..2.2).contains(&link.factor) && link.steps == 3, "{link:?}");
        }
    }
}

#[test]
fn what_stands_out_once_is_a_suspect_with_three_healthy_peers() {
    let mut one = drawn(24, vec![Fault::Figure(5, 0, 0.3)]);
    let mut files = one.sweep();
    let fleet = from_lines(files.clone());
    assert_eq!(found(&fleet, State::Suspect), ["n005"]);
    let again = suspects(&fleet, &judge(&fleet));
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
    let ((from, to), [near, far]) = first_pair();
    let fault = Fault::Link(from, to, 2.0_f64.ln());
    let fleet = from_lines(drawn(24, vec![fault]).sweep());
    let again = suspects(&fleet, &judge(&fleet));
    let list = again.list(|key| key.experiment.clone());
    assert_eq!(list.matches(&format!("{near} > {far}\n")).count(), 1, "{list}");
    assert!(again.pairs.iter().filter(|pair| pair.0 == near).count() >= 4, "{list}");
    assert!(again.pairs.iter().filter(|pair| pair.1 == far).count() >= 4, "{list}");
}

#[test]
fn five_nodes_accuse_no_one_and_six_do() {
    for (size, expected) in [(5, vec![]), (6, vec!["n002".to_owned()])] {
        let fleet = from_lines(drawn(size, vec![Fault::Figure(2, 0, 0.7)]).sweep());
        assert_eq!(found(&fleet, State::Suspect), expected);
    }
}

#[test]
fn a_stratum_that_misses_its_prediction_is_named() {
    let mut files = drawn(8, vec![]).sweep();
    for line in files.iter_mut().flat_map(|(_, lines)| lines) {
        if let Line::Figure(figure) = line
            && figure.experiment == "cpu.peak"
        {
            figure.predicted = Some((1.5e9, 2e9));
        }
    }
    let judgement = judge(&from_lines(files));
    assert_eq!(judgement.below.len(), 1);
    assert!((1.4..1.6).contains(&judgement.below[0].factor));
}

/// Rounds that scatter hide a node that is 10 % slower, until all nodes have repeated them.
#[test]
fn what_scatters_is_named_and_measured_again_on_all_nodes() {
    let text = "hardware\thigher\talone\tmemory.bandwidth\t-0.06 -0.05 0.04 0.05 0.06\t-0.05 0.0 0.06\n\
                hardware\thigher\talone\tcpu.peak\t0.0 0.001 -0.001\n";
    let mut one = Drawn::new(&Noise::parse(text), 12, vec![Fault::Figure(3, 0, 0.12)], 3);
    let fleet = from_lines(one.sweep());
    let judgement = judge(&fleet);
    let hidden = judgement.seen.iter().filter(|seen| seen.hides());
    let hidden: Vec<&str> =
        hidden.map(|seen| fleet.figures[seen.subject.figure].key.experiment.as_str()).collect();
    assert_eq!(hidden, ["memory.bandwidth"]);
    let again = suspects(&fleet, &judgement);
    assert_eq!((again.hosts().len(), again.figures.len()), (12, 1));
    let (_, fleet) =
        Drawn::new(&Noise::parse(text), 12, vec![Fault::Figure(3, 0, 0.12)], 3).job(STEPS_MOST);
    assert_eq!(found(&fleet, State::Accused), ["n003"]);
    assert!(judge(&fleet).seen.iter().all(|seen| !seen.hides()));
}
