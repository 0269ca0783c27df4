//! Which nodes meet in which step. Every function is pure: the same nodes and seed give the same
//! answer in whatever order the nodes are listed.
//!
//! A step is a list of pairs without a common node, so that all pairs of a step run at the same
//! time. Labels and the order of steps are random, so that a drift in time is not mistaken for a
//! distance between nodes.

use fastrand::Rng;
use record::order::InOrder;
use std::collections::HashSet;

/// The near end, which sends, and the far end.
pub type Edge = (u32, u32);

/// Whether two nodes may meet: not two pods of one host. Symmetric.
pub type MayPair<'a> = &'a dyn Fn(u32, u32) -> bool;

/// Share of the pairs that are measured once more with nothing else running.
pub const ISOLATED_SHARE: f64 = 0.05;
/// Fewest of them, where there are as many pairs: fewer give no median.
pub const ISOLATED_LEAST: usize = 3;
/// Nodes that send to one, or that one sends to, at the same time, if there are as many.
pub const SENDERS: u32 = 4;

/// Steps after which every node of `nodes` has met every other: one less than the nodes for an even
/// number, as many as the nodes for an odd one.
pub fn all_steps(nodes: u32) -> u32 {
    match nodes {
        0 | 1 => 0,
        even if even % 2 == 0 => even - 1,
        odd => odd,
    }
}

/// Steps of a sweep unless the user says otherwise: 2 ceil(log2 N), but never more than
/// [`all_steps`]. So many random matchings join all nodes closely enough to tell a slow node from a
/// slow link.
pub fn steps_for(nodes: u32) -> u32 {
    let bits = nodes.checked_sub(1).and_then(u32::checked_ilog2).map_or(0, |log| log + 1);
    all_steps(nodes).min(2 * bits)
}

/// `steps` random perfect matchings (one node rests in each for an odd number of nodes) in which no
/// pair meets twice, by the circle method with random labels and order; [`all_steps`] or more give
/// all pairs once. Where two nodes may not meet, partners are exchanged within the step; a node
/// that finds no partner rests. Each node is the near end in half of its pairs, give or take one.
pub fn matchings(ranks: &[u32], steps: u32, seed: u64, may_pair: MayPair) -> Vec<Vec<Edge>> {
    let mut rng = Rng::with_seed(seed);
    let labels = shuffled(ranks, &mut rng);
    let count = u32::try_from(labels.len()).unwrap_or(u32::MAX);
    let all = all_steps(count);
    let mut turns: Vec<u32> = (0..all).collect();
    rng.shuffle(&mut turns);
    turns.truncate(steps as usize);
    let is_all = turns.len() == all as usize;
    let mut met = HashSet::new();
    let mut found: Vec<Vec<Edge>> = Vec::new();
    for turn in turns {
        let mut step = circle(&labels, turn as usize);
        rng.shuffle(&mut step);
        if is_all {
            step.retain(|&(a, b)| may_pair(a, b));
        } else {
            let may_meet = |a, b| may_pair(a, b) && !met.contains(&ordered(a, b));
            step = exchanged(step, &may_meet);
            met.extend(step.iter().map(|&(a, b)| ordered(a, b)));
        }
        found.push(step);
    }
    oriented(found, &mut rng)
}

/// The pairs of some steps that are measured again with nothing else running: a random
/// [`ISOLATED_SHARE`], at least [`ISOLATED_LEAST`], and at most as many as there are steps, since
/// they run one after another and must not take longer than the steps.
pub fn isolated(steps: &[Vec<Edge>], seed: u64) -> Vec<Edge> {
    let mut pairs: Vec<Edge> = steps.iter().flatten().copied().collect();
    let share = (pairs.len() as f64 * ISOLATED_SHARE).ceil() as usize;
    Rng::with_seed(seed).shuffle(&mut pairs);
    pairs.truncate(share.min(steps.len()).max(ISOLATED_LEAST));
    pairs
}

/// `times` matchings across a cut: between nodes of different groups, such as racks, or between two
/// random halves where `group` gives every node the same. The side that sends alternates. Nodes of
/// a group that is larger than all others together rest in part.
pub fn bisection(
    ranks: &[u32],
    group: &dyn Fn(u32) -> String,
    times: u32,
    seed: u64,
    may_pair: MayPair,
) -> Vec<Vec<Edge>> {
    let mut rng = Rng::with_seed(seed);
    let is_cut = ranks.windows(2).any(|pair| group(pair[0]) != group(pair[1]));
    let mut across = |time: u32| {
        let mut order = shuffled(ranks, &mut rng);
        if is_cut {
            order.sort_by_cached_key(|rank| group(*rank));
        }
        let half = order.len() / 2;
        let (one, other) = order.split_at(half);
        let pairs = one.iter().copied().zip(other.iter().copied()).collect();
        let may_meet = |a, b| may_pair(a, b) && !(is_cut && group(a) == group(b));
        let pairs = exchanged(pairs, &may_meet);
        let turned = |(a, b)| if time.is_multiple_of(2) { (a, b) } else { (b, a) };
        pairs.into_iter().map(turned).collect()
    };
    (0..times).map(&mut across).collect()
}

/// `turns` gatherings of up to `nears` random nodes with one root as their far end, which is another
/// node each time while there are enough. All pairs of a gathering run at the same time.
pub fn gatherings(
    ranks: &[u32],
    nears: u32,
    turns: u32,
    seed: u64,
    may_pair: MayPair,
) -> Vec<Vec<Edge>> {
    let mut rng = Rng::with_seed(seed);
    let roots = shuffled(ranks, &mut rng);
    let mut gathering = |root: u32| -> Vec<Edge> {
        let others = shuffled(ranks, &mut rng).into_iter();
        let may_send = |near: &u32| *near != root && may_pair(*near, root);
        others.filter(may_send).take(nears as usize).map(|near| (near, root)).collect()
    };
    let turns = roots.iter().cycle().take(if roots.is_empty() { 0 } else { turns as usize });
    turns.map(|root| gathering(*root)).filter(|pairs| !pairs.is_empty()).collect()
}

/// For each pair the numbers of its turns, from 0, as many as its count asks for. A pair takes the
/// first turns that have fewer than `beside` pairs and neither of its two ends. The list is empty
/// where `most` turns do not suffice for the pair.
pub fn turns(pairs: &[(Edge, u32)], beside: usize, most: u32) -> Vec<Vec<u32>> {
    let mut busy: Vec<HashSet<u32>> = vec![HashSet::new(); most as usize];
    let mut of_pair = |((a, b), times): &(Edge, u32)| -> Vec<u32> {
        let fits =
            |turn: &HashSet<u32>| turn.len() < 2 * beside && !turn.contains(a) && !turn.contains(b);
        let free = (0..most).filter(|turn| fits(&busy[*turn as usize]));
        let found: Vec<u32> = free.take(*times as usize).collect();
        if found.len() < *times as usize {
            return Vec::new();
        }
        found.iter().for_each(|turn| busy[*turn as usize].extend([*a, *b]));
        found
    };
    pairs.iter().map(&mut of_pair).collect()
}

/// Distinct nodes in a random order that does not depend on the order they came in.
fn shuffled(ranks: &[u32], rng: &mut Rng) -> Vec<u32> {
    let mut ranks = ranks.to_vec();
    ranks.sort_unstable();
    ranks.dedup();
    rng.shuffle(&mut ranks);
    ranks
}

fn ordered(a: u32, b: u32) -> Edge {
    (a.min(b), a.max(b))
}

/// One turn of the circle: a node stands in the middle (none for an odd number) and meets the
/// one at `turn`; the others meet across that axis.
fn circle(labels: &[u32], turn: usize) -> Vec<Edge> {
    let seats = labels.len().div_ceil(2) * 2;
    let Some(around) = seats.checked_sub(1) else { return Vec::new() };
    let place = |at: usize| labels[at % around];
    let mut pairs: Vec<Edge> =
        (1..seats / 2).map(|away| (place(turn + away), place(turn + around - away))).collect();
    if let Some(middle) = labels.get(around) {
        pairs.push((place(turn), *middle));
    }
    pairs
}

/// A step in which every pair may meet: a pair that may not exchanges partners with another one; if
/// none fits, it is left out.
fn exchanged(mut step: Vec<Edge>, may_meet: &dyn Fn(u32, u32) -> bool) -> Vec<Edge> {
    for at in 0..step.len() {
        let (a, b) = step[at];
        if may_meet(a, b) {
            continue;
        }
        // The pairs ahead may be bad as well: both ends are mended at once.
        let fits = |&(c, d): &Edge| {
            let both = [((a, c), (b, d)), ((a, d), (b, c))];
            both.into_iter()
                .find(|(one, other)| may_meet(one.0, one.1) && may_meet(other.0, other.1))
        };
        let others = (1..step.len()).map(|away| (at + away) % step.len());
        let mended = others.filter(|other| *other != at);
        let mended = mended.map(|other| (other, fits(&step[other])));
        if let Some((other, (one, two))) = mended.into_iter().find_map(|(o, f)| Some((o, f?))) {
            (step[at], step[other]) = (one, two);
        }
    }
    step.retain(|&(a, b)| may_meet(a, b));
    step
}

/// The same pairs, each turned so that every node is the near end in half of its pairs, give or
/// take one: trails that use each pair once, from nodes with an odd number of pairs first, have this
/// property (Hierholzer 1873).
fn oriented(mut steps: Vec<Vec<Edge>>, rng: &mut Rng) -> Vec<Vec<Edge>> {
    let nodes = steps.iter().flatten().map(|&(a, b)| a.max(b) as usize + 1).max().unwrap_or(0);
    let mut pairs: Vec<Vec<(usize, usize)>> = vec![Vec::new(); nodes];
    for (step, edges) in steps.iter().enumerate() {
        for (at, &(a, b)) in edges.iter().enumerate() {
            pairs[a as usize].push((step, at));
            pairs[b as usize].push((step, at));
        }
    }
    let mut starts: Vec<usize> = (0..nodes).collect();
    rng.shuffle(&mut starts);
    starts.order_by_key(|node| pairs[*node].len().is_multiple_of(2));
    let mut done: Vec<Vec<bool>> = steps.iter().map(|step| vec![false; step.len()]).collect();
    for start in starts {
        let is_turned = rng.bool();
        let mut node = start;
        while let Some((step, at)) = pairs[node].pop() {
            if std::mem::replace(&mut done[step][at], true) {
                continue;
            }
            let (a, b) = steps[step][at];
            let next = if a as usize == node { b } else { a };
            let here = u32::try_from(node).unwrap_or(u32::MAX);
            steps[step][at] = if is_turned { (next, here) } else { (here, next) };
            node = next as usize;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn any(_: u32, _: u32) -> bool {
        true
    }

    /// How often each node is near and far.
    fn ends(steps: &[Vec<Edge>]) -> BTreeMap<u32, (i64, i64)> {
        let mut ends = BTreeMap::new();
        for &(near, far) in steps.iter().flatten() {
            ends.entry(near).or_insert((0, 0)).0 += 1;
            ends.entry(far).or_insert((0, 0)).1 += 1;
        }
        ends
    }

    fn is_matching(step: &[Edge]) -> bool {
        let nodes: HashSet<u32> = step.iter().flat_map(|&(a, b)| [a, b]).collect();
        nodes.len() == 2 * step.len()
    }

    #[test]
    fn as_many_steps_as_the_formula_says() {
        let steps: Vec<u32> = [0, 1, 2, 3, 4, 5, 8, 9, 10, 64, 1000, 10_000].map(steps_for).into();
        assert_eq!(steps, [0, 0, 1, 3, 3, 5, 6, 8, 8, 12, 20, 28]);
        assert_eq!([2, 3, 10, 11].map(all_steps), [1, 3, 9, 11]);
    }

    #[test]
    fn a_thousand_nodes_meet_twenty_partners_each() {
        let ranks: Vec<u32> = (0..1000).collect();
        let steps = matchings(&ranks, steps_for(1000), 7, &any);
        assert_eq!(steps.len(), 20);
        assert!(steps.iter().all(|step| step.len() == 500 && is_matching(step)));
        assert!(ends(&steps).values().all(|ends| *ends == (10, 10)));
    }

    #[test]
    fn pods_of_one_host_do_not_meet_and_still_have_partners() {
        let ranks: Vec<u32> = (0..64).collect();
        let may_pair = |a: u32, b: u32| a / 4 != b / 4;
        let steps = matchings(&ranks, steps_for(64), 3, &may_pair);
        assert!(steps.iter().flatten().all(|&(a, b)| may_pair(a, b)));
        assert!(steps.iter().all(|step| step.len() == 32), "none rests");
        // Two hosts with two pods each: two steps are all there is.
        let may_pair = |a: u32, b: u32| a / 2 != b / 2;
        let steps = matchings(&[0, 1, 2, 3], 3, 3, &may_pair);
        assert_eq!(steps.iter().map(Vec::len).sum::<usize>(), 4);
        // All on one host: nothing can be measured.
        assert!(matchings(&[0, 1, 2], 3, 3, &|_, _| false).iter().all(Vec::is_empty));
    }

    #[test]
    fn isolated_pairs_are_pairs_of_the_steps() {
        let ranks: Vec<u32> = (0..100).collect();
        let steps = matchings(&ranks, 14, 1, &any);
        let again = isolated(&steps, 5);
        // 5 % would be 35, longer than the 14 steps.
        assert_eq!(again.len(), 14);
        assert!(again.iter().all(|pair| steps.iter().flatten().any(|other| other == pair)));
        let few = matchings(&[0, 1, 2, 3], 3, 1, &any);
        assert_eq!(isolated(&few, 5).len(), ISOLATED_LEAST);
        assert!(isolated(&[], 5).is_empty());
    }

    #[test]
    fn a_cut_is_crossed_in_both_directions() {
        let ranks: Vec<u32> = (0..12).collect();
        let rack = |rank: u32| format!("r{}", rank % 3);
        let steps = bisection(&ranks, &rack, 4, 9, &any);
        assert!(steps.iter().all(|step| step.len() == 6 && is_matching(step)));
        assert!(steps.iter().flatten().all(|&(a, b)| a % 3 != b % 3));
        let halves = bisection(&ranks, &|_| String::new(), 10, 9, &any);
        assert!(halves.iter().all(|step| step.len() == 6 && is_matching(step)));
        assert_ne!(halves[0], halves[1]);
        // One of four is in another rack: one pair crosses.
        let lone = |rank: u32| (rank == 2).to_string();
        let steps = bisection(&[0, 1, 2, 3], &lone, 2, 9, &any);
        assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        assert_eq!((steps[0][0].1, steps[1][0].0), (2, 2), "each side sends once");
    }

    #[test]
    fn roots_of_gatherings_rotate() {
        let ranks: Vec<u32> = (0..6).collect();
        let turns = gatherings(&ranks, 3, 6, 2, &|a, b| a / 2 != b / 2);
        let roots: HashSet<u32> = turns.iter().map(|turn| turn[0].1).collect();
        assert_eq!(roots.len(), 6);
        for turn in &turns {
            assert!(turn.len() == 3 && turn.iter().all(|pair| pair.1 == turn[0].1));
            assert!(turn.iter().all(|&(near, root)| near / 2 != root / 2));
        }
        assert!(gatherings(&[], 3, 6, 2, &any).is_empty());
        assert!(gatherings(&[4], 3, 6, 2, &any).is_empty());
    }

    #[test]
    fn pairs_of_a_turn_share_no_node_and_the_worst_comes_first() {
        let pairs = [((0, 1), 3), ((1, 2), 1), ((3, 4), 2), ((5, 6), 1), ((7, 8), 4)];
        let one = turns(&pairs, 1, 6);
        assert_eq!(one, [vec![0, 1, 2], vec![3], vec![4, 5], vec![], vec![]]);
        let two = turns(&pairs, 2, 4);
        assert_eq!(two, [vec![0, 1, 2], vec![3], vec![0, 1], vec![2], vec![]]);
    }

    proptest! {
        #[test]
        fn partners_differ_and_ends_alternate(nodes in 0_u32..60, steps in 0_u32..70, seed in 0_u64..u64::MAX) {
            let ranks: Vec<u32> = (0..nodes).map(|rank| rank * 3).collect();
            let found = matchings(&ranks, steps, seed, &any);
            prop_assert_eq!(found.len(), steps.min(all_steps(nodes)) as usize);
            let pairs: HashSet<Edge> = found.iter().flatten().map(|&(a, b)| ordered(a, b)).collect();
            prop_assert_eq!(pairs.len(), found.iter().map(Vec::len).sum::<usize>());
            for step in &found {
                prop_assert!(is_matching(step));
                prop_assert_eq!(step.len(), nodes as usize / 2);
            }
            for (near, far) in ends(&found).values() {
                prop_assert!((near - far).abs() <= 1, "{near} {far}");
            }
        }

        #[test]
        fn the_order_of_ranks_changes_nothing(
            mut ranks in proptest::collection::vec(0_u32..99, 0..30),
            seed in 0_u64..u64::MAX,
        ) {
            let may_pair = |a: u32, b: u32| a % 5 != b % 5;
            let found = matchings(&ranks, 6, seed, &may_pair);
            ranks.reverse();
            prop_assert_eq!(matchings(&ranks, 6, seed, &may_pair), found);
        }
    }
}
