use super::{Act, Admission, Clock, Rank0};
use crate::simulated::recipe;
use crate::sweep::{Event, Loads, Stage};
use crate::wire::{Addressed, Down, Hello, Message, Numbered, Order, Report};
use std::net::IpAddr;
use std::time::Duration;

fn rank0(size: u32) -> Rank0 {
    let mut recipe = recipe(size, 1);
    recipe.header.selectors = vec!["clock.read".to_owned()];
    recipe.header.steps = 1;
    recipe.header.loads = Loads::default();
    recipe.header.simulated = false;
    Rank0::new(recipe, 1, None)
}

fn hello(rank: u32, size: u32) -> Hello {
    let address = IpAddr::from([127, 0, 0, 1]);
    Hello { address, port: 7000, simulated: false, ..crate::simulated::hello(rank, size) }
}

fn join(rank0: &mut Rank0, rank: u32, size: u32) {
    assert_eq!(rank0.admit(&hello(rank, size)), Admission::In);
    joined(rank0, hello(rank, size), Clock::default());
}

/// Over a connection that has the number of the rank.
fn joined(rank0: &mut Rank0, hello: Hello, clock: Clock) {
    let link = (hello.rank > 0).then(|| u64::from(hello.rank));
    rank0.joined(link, hello, clock, Duration::from_secs(1));
}

fn acts(rank0: &mut Rank0) -> Vec<Act> {
    std::iter::from_fn(|| rank0.take()).collect()
}

/// The orders that nodes get, with the node and the order's number.
fn orders(acts: &[Act]) -> Vec<(u32, u64, &Order)> {
    let mut all = Vec::new();
    for act in acts {
        match act {
            Act::Start(id, order) => all.push((0, *id, order)),
            Act::Down(_, Down::Orders(addressed)) => {
                all.extend(addressed.iter().filter_map(
                    |Addressed { to, message }| match message {
                        Message::Order { id, order } => Some((*to, *id, order)),
                        Message::Written { .. } => None,
                    },
                ));
            }
            _ => {}
        }
    }
    all
}

fn said(acts: &[Act]) -> String {
    let lines = acts.iter().filter_map(|act| match act {
        Act::Say(line) => Some(line.as_str()),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn refused(rank0: &mut Rank0, hello: &Hello) -> String {
    match rank0.admit(hello) {
        Admission::Refused(why) => why,
        Admission::In => panic!("{hello:?} was let in"),
    }
}

/// Ranks that the record lists as lost in a phase.
fn lost(acts: &[Act], phase: Stage) -> Vec<u32> {
    let lost = acts.iter().filter_map(|act| match act {
        Act::Write(Event::Absent(absent)) if absent.lost && absent.phase == phase => {
            Some(absent.rank)
        }
        _ => None,
    });
    lost.collect()
}

#[test]
fn who_does_not_belong_to_the_sweep_gets_a_line_and_is_not_let_in() {
    let mut rank0 = rank0(4);
    join(&mut rank0, 0, 4);
    join(&mut rank0, 1, 4);
    let double = Hello { instance: 99, name: "double".to_owned(), ..hello(1, 4) };
    assert!(refused(&mut rank0, &double).contains("two nodes have rank 1: n1"));
    let older = Hello { plumb: "0.0.9".to_owned(), ..hello(2, 4) };
    assert!(refused(&mut rank0, &older).contains("has plumb 0.0.9, rank 0 has 0.1.0"));
    assert!(refused(&mut rank0, &hello(3, 5)).contains("the sweep has 4"));
    assert!(refused(&mut rank0, &hello(7, 4)).contains("the sweep has 4"));
    let drawn = Hello { simulated: true, ..hello(3, 4) };
    assert!(refused(&mut rank0, &drawn).contains("drawn"));
    let long = Hello { name: "n".repeat(10_000), ..hello(3, 4) };
    assert!(refused(&mut rank0, &long).contains("too long"));
    let all = acts(&mut rank0);
    assert_eq!(lost(&all, Stage::Meet), [2, 3]);
    assert!(said(&all).contains("rank 2 (n2 at 127.0.0.1) was not let in"), "{}", said(&all));
    // The right one still may come.
    join(&mut rank0, 2, 4);
}

#[test]
fn nodes_that_do_not_join_are_listed_and_the_sweep_goes_on() {
    let mut rank0 = rank0(5);
    join(&mut rank0, 0, 5);
    join(&mut rank0, 2, 5);
    rank0.tick(Duration::from_secs(59));
    assert!(lost(&acts(&mut rank0), Stage::Meet).is_empty());
    rank0.tick(Duration::from_secs(60));
    let all = acts(&mut rank0);
    assert_eq!(lost(&all, Stage::Meet), [1, 3, 4]);
    assert!(said(&all).contains("3 of 5 nodes did not join within 60 s: 1, 3-4"));
    let mut alone = orders(&all);
    alone.retain(|(.., order)| matches!(order, Order::Alone { .. }));
    assert_eq!(alone.iter().map(|(rank, ..)| *rank).collect::<Vec<_>>(), [0, 2]);
    assert!(refused(&mut rank0, &hello(3, 5)).contains("plumb fleet resume"));
}

#[test]
fn a_clock_that_is_hours_apart_gets_a_line_and_the_node_takes_part() {
    let mut rank0 = rank0(3);
    join(&mut rank0, 0, 3);
    let clock = Clock { offset_s: 7200.0, round_trip_s: 1e-3 };
    joined(&mut rank0, hello(1, 3), clock);
    let all = acts(&mut rank0);
    assert!(said(&all).contains("is 2h ahead of rank 0's"), "{}", said(&all));
    let node = all.iter().find_map(|act| match act {
        Act::Write(Event::Node(node)) if node.rank == 1 => Some(node.clock_offset_s),
        _ => None,
    });
    assert_eq!(node, Some(7200.0));
}

#[test]
fn a_node_goes_to_its_parent_and_to_the_next_ancestor_where_that_is_gone() {
    let mut rank0 = rank0(300);
    for rank in [0, 1, 18] {
        join(&mut rank0, rank, 300);
    }
    acts(&mut rank0);
    let placed = |rank0: &mut Rank0| {
        acts(rank0).into_iter().find_map(|act| match act {
            Act::Down(_, Down::Move { to, .. }) => Some(to),
            Act::Down(_, Down::Welcome { .. }) => Some(0),
            _ => None,
        })
    };
    rank0.attached(18, 1, Duration::from_secs(2));
    join(&mut rank0, 299, 300);
    assert_eq!(placed(&mut rank0), Some(18));
    // It comes back without having reached it, while nodes join: it stays.
    join(&mut rank0, 299, 300);
    assert_eq!(placed(&mut rank0), Some(1));
    join(&mut rank0, 299, 300);
    assert_eq!(placed(&mut rank0), Some(0));
    // Its parent joins later.
    join(&mut rank0, 34, 300);
    acts(&mut rank0);
    join(&mut rank0, 2, 300);
    assert_eq!(placed(&mut rank0), Some(0));
}

#[test]
fn a_node_that_does_not_answer_is_lost_and_its_late_report_is_not_counted() {
    let mut rank0 = rank0(2);
    join(&mut rank0, 0, 2);
    join(&mut rank0, 1, 2);
    let all = acts(&mut rank0);
    let is_alone =
        |(rank, _, order): &(u32, u64, &Order)| *rank == 1 && matches!(order, Order::Alone { .. });
    let (_, order, _) = orders(&all).into_iter().find(is_alone).expect("node 1 measures itself");
    rank0.tick(Duration::from_secs(99));
    assert!(lost(&acts(&mut rank0), Stage::Alone).is_empty());
    // The node's own time, and what an answer may take beyond it.
    rank0.tick(Duration::from_secs(102));
    assert_eq!(lost(&acts(&mut rank0), Stage::Alone), [0, 1]);
    let report = Report::Failed { order, why: "late".to_owned() };
    rank0.report(Numbered { from: 1, number: 1, report }, Duration::from_secs(103));
    let late = acts(&mut rank0);
    assert!(late.iter().all(|act| !matches!(act, Act::Write(_))), "{late:?}");
}
