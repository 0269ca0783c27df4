//! Which nodes meet in which step. Every function is pure: each node computes the same from size and
//! seed.
//!
//! A step is a list of pairs without a common node, so that all pairs of a step run at the same
//! time. Labels and the order of steps are random, so that a drift in time is not mistaken for a
//! distance between nodes.

use fastrand::Rng;
use record::order::InOrder;
use std::collections::HashSet;

/// The near end, which sends, and the far end.
pub type Edge = (u32, u32);

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

/// `steps` random perfect matchings of the ranks below `size` (one node rests in each for an odd
/// number) in which no pair meets twice, by the circle method with random labels and order;
/// [`all_steps`] or more give all pairs once. Each node is the near end in half of its pairs, give or
/// take one.
pub fn matchings(size: u32, steps: u32, seed: u64) -> Vec<Vec<Edge>> {
    let mut rng = Rng::with_seed(seed);
    let labels = shuffled(size, &mut rng);
    let mut turns: Vec<u32> = (0..all_steps(size)).collect();
    rng.shuffle(&mut turns);
    turns.truncate(steps as usize);
    let mut step = |turn: u32| {
        let mut step = circle(&labels, turn as usize);
        rng.shuffle(&mut step);
        step
    };
    let found = turns.into_iter().map(&mut step).collect();
    oriented(found, &mut rng)
}

/// `times` matchings of two random halves; the half that sends alternates.
pub fn bisection(size: u32, times: u32, seed: u64) -> Vec<Vec<Edge>> {
    let mut rng = Rng::with_seed(seed);
    let mut across = |time: u32| {
        let order = shuffled(size, &mut rng);
        let (one, other) = order.split_at(order.len() / 2);
        let turned =
            |(a, b): (&u32, &u32)| if time.is_multiple_of(2) { (*a, *b) } else { (*b, *a) };
        one.iter().zip(other).map(turned).collect()
    };
    (0..times).map(&mut across).collect()
}

/// `times` gatherings of up to [`SENDERS`] random nodes with one root as their far end, which is another
/// node each time while there are enough.
pub fn gatherings(size: u32, times: u32, seed: u64) -> Vec<Vec<Edge>> {
    let mut rng = Rng::with_seed(seed);
    let roots = shuffled(size, &mut rng);
    let mut gathering = |root: u32| -> Vec<Edge> {
        let others = shuffled(size, &mut rng).into_iter().filter(|near| *near != root);
        others.take(SENDERS as usize).map(|near| (near, root)).collect()
    };
    let times = if size < 2 { 0 } else { times as usize };
    roots.iter().cycle().take(times).map(|root| gathering(*root)).collect()
}

/// Pairs in turns: each in the first one that has none of its ends.
pub fn turns(pairs: &[Edge]) -> Vec<Vec<Edge>> {
    let mut turns: Vec<(HashSet<u32>, Vec<Edge>)> = Vec::new();
    for &(near, far) in pairs {
        let is_free = |busy: &HashSet<u32>| !busy.contains(&near) && !busy.contains(&far);
        let at = turns.iter().position(|(busy, _)| is_free(busy)).unwrap_or(turns.len());
        if at == turns.len() {
            turns.push(Default::default());
        }
        turns[at].0.extend([near, far]);
        turns[at].1.push((near, far));
    }
    turns.into_iter().map(|(_, turn)| turn).collect()
}

fn shuffled(size: u32, rng: &mut Rng) -> Vec<u32> {
    let mut ranks: Vec<u32> = (0..size).collect();
    rng.shuffle(&mut ranks);
    ranks
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
    fn a_thousand_nodes_meet_twenty_partners_each() {
        let steps: Vec<u32> = [0, 1, 2, 3, 4, 5, 8, 9, 10, 64, 1000, 10_000].map(steps_for).into();
        assert_eq!(steps, [0, 0, 1, 3, 3, 5, 6, 8, 8, 12, 20, 28]);
        assert_eq!([2, 3, 10, 11].map(all_steps), [1, 3, 9, 11]);
        let steps = matchings(1000, steps_for(1000), 7);
        assert!(steps.len() == 20 && steps.iter().all(|step| step.len() == 500));
        assert!(ends(&steps).values().all(|ends| *ends == (10, 10)));
    }

    #[test]
    fn halves_and_roots_change() {
        let halves = bisection(12, 10, 9);
        assert!(halves.iter().all(|step| step.len() == 6 && is_matching(step)));
        assert_ne!(halves[0], halves[1]);
        let turns = gatherings(6, 6, 2);
        let roots: HashSet<u32> = turns.iter().map(|turn| turn[0].1).collect();
        let is_one =
            |turn: &Vec<Edge>| turn.len() == 4 && turn.iter().all(|pair| pair.1 == turn[0].1);
        assert!(roots.len() == 6 && turns.iter().all(is_one));
        assert!(gatherings(1, 6, 2).is_empty());
        let pairs = super::turns(&[(0, 1), (1, 2), (3, 4), (5, 6)]);
        assert_eq!(pairs, [vec![(0, 1), (3, 4), (5, 6)], vec![(1, 2)]]);
    }

    proptest! {
        #[test]
        fn partners_differ_and_ends_alternate(nodes in 0_u32..60, steps in 0_u32..70, seed in 0_u64..u64::MAX) {
            let found = matchings(nodes, steps, seed);
            prop_assert_eq!(found.len(), steps.min(all_steps(nodes)) as usize);
            let ordered = |&(a, b): &Edge| (a.min(b), a.max(b));
            let pairs: HashSet<Edge> = found.iter().flatten().map(ordered).collect();
            prop_assert_eq!(pairs.len(), found.iter().map(Vec::len).sum::<usize>());
            for step in &found {
                prop_assert!(is_matching(step));
                prop_assert_eq!(step.len(), nodes as usize / 2);
            }
            for (near, far) in ends(&found).values() {
                prop_assert!((near - far).abs() <= 1, "{near} {far}");
            }
            prop_assert_eq!(matchings(nodes, steps, seed), found);
        }
    }
}
