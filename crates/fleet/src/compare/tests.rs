use super::{Compared, Comparison, Side, compare};
use crate::fixture::Fleet;
use crate::read::Sweep;
use analysis::compare::Direction;

fn sweep(fleet: &Fleet) -> Sweep {
    Sweep::from_events(fleet.events()).expect("a sweep")
}

fn later(fleet: &Fleet) -> Fleet {
    Fleet { noise: fleet.noise + 1, id: "2026-11-27T21-00-rank0", ..fleet.clone() }
}

fn found<'one>(comparison: &'one Comparison) -> Vec<&'one Compared> {
    comparison.figures.iter().filter(|one| one.finding.is_some()).collect()
}

fn apart(comparison: &Comparison) -> Vec<(String, String)> {
    let of = |one: &Compared| {
        let id = one.key.experiment.clone();
        one.apart().into_iter().map(|node| (id.clone(), node.name.clone())).collect::<Vec<_>>()
    };
    comparison.figures.iter().flat_map(of).collect()
}

#[test]
fn an_unchanged_fleet_is_quiet() {
    let base = Fleet::planted();
    let (base, new) = (sweep(&base), sweep(&later(&base)));
    let comparison = compare(&base, &new);
    assert!(!comparison.has_finding(), "{:?} {:?}", found(&comparison), apart(&comparison));
    assert!(comparison.tested().count() > 30);
    assert!(comparison.around.is_empty(), "{:?}", comparison.around);
}

#[test]
fn what_all_nodes_have_in_common_is_found() {
    let base = Fleet::healthy(24);
    let new = Fleet { changed: vec![("os.syscall", 0.93)], kernel: "6.18.1", ..later(&base) };
    let (base, new) = (sweep(&base), sweep(&new));
    let comparison = compare(&base, &new);
    let all = found(&comparison);
    assert_eq!(all.len(), 4, "two figures in two strata: {all:?}");
    for one in all {
        assert_eq!((one.key.experiment.as_str(), one.side), ("os.syscall", Side::Alone));
        assert_eq!(one.finding, Some(Direction::Worse));
        let (low, high) = one.ci.unwrap();
        assert!(low < 1.0 / 0.93 && 1.0 / 0.93 < high, "{low} to {high}");
        assert!(one.least_seen.unwrap() < 0.075);
    }
    assert_eq!(apart(&comparison), []);
    let [kernel] = comparison.around.as_slice() else { panic!("{:?}", comparison.around) };
    assert_eq!((kernel.name.as_str(), kernel.nodes), ("kernel", Some(24)));
}

#[test]
fn a_node_that_went_another_way_is_named_and_moves_no_one_else() {
    let base = Fleet::healthy(24);
    let new = Fleet { slow: vec![(9, "memory.bandwidth", 0.8)], ..later(&base) };
    let (base, new) = (sweep(&base), sweep(&new));
    let comparison = compare(&base, &new);
    assert!(found(&comparison).is_empty());
    let expected = ("memory.bandwidth".to_owned(), "node-09".to_owned());
    assert_eq!(apart(&comparison), [expected.clone(), expected]);
}

#[test]
fn nodes_are_paired_by_name() {
    let base = Fleet::healthy(24);
    let mut new = later(&base);
    new.names = [(0, "spare-00"), (2, "node-03")].into();
    let (base, new) = (sweep(&base), sweep(&new));
    let comparison = compare(&base, &new);
    // A name that two nodes have is no name.
    assert_eq!(comparison.nodes.len(), 21);
    assert_eq!(comparison.only.0, ["node-00", "node-02", "node-03"]);
    assert_eq!(comparison.only.1, ["spare-00"]);
}

#[test]
fn what_is_missing_is_listed() {
    let base = Fleet::healthy(24);
    let (base, mut new) = (sweep(&base), sweep(&later(&base)));
    new.figures.retain(|figure| figure.key.experiment != "fs.read");
    let comparison = compare(&base, &new);
    let missing: Vec<(String, usize)> =
        comparison.missing.iter().map(|(key, nodes)| (key.experiment.clone(), *nodes)).collect();
    assert_eq!(missing, [("fs.read".to_owned(), 24)]);
    // Nothing in common: nothing is tested.
    new.nodes.clear();
    assert!(compare(&base, &new).figures.is_empty());
}
