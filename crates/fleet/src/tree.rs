//! The tree over which reports reach rank 0: each node has at most [`DEGREE`] children, so that a
//! message passes O(log N) nodes and rank 0 has few connections.

use record::order::Gather;
use std::collections::{BTreeMap, BTreeSet};

/// Children of a node.
pub const DEGREE: u32 = 16;

/// The parent of a rank; none for rank 0.
pub fn parent(rank: u32) -> Option<u32> {
    rank.checked_sub(1).map(|below| below / DEGREE)
}

/// The ancestors of a rank, its parent first and rank 0 last.
pub fn ancestors(rank: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(parent(rank), |rank| parent(*rank))
}

/// The children of a rank, in a sweep that has them all.
pub fn children(rank: u32) -> impl Iterator<Item = u32> {
    let first = rank.saturating_mul(DEGREE).saturating_add(1);
    first..=first.saturating_add(DEGREE - 1)
}

/// Whether a rank has children in a sweep of this size.
pub fn has_children(rank: u32, size: u32) -> bool {
    u64::from(rank) * u64::from(DEGREE) + 1 < u64::from(size)
}

/// Connections between a rank of a complete tree and rank 0.
pub fn depth(rank: u32) -> u32 {
    ancestors(rank).count() as u32
}

/// Over which connection each node below this one is reached: learnt from what comes up. `Link`
/// names a connection.
#[derive(Debug, Default)]
pub struct Routes<Link> {
    by_rank: BTreeMap<u32, Link>,
}

impl<Link: Copy + Ord> Routes<Link> {
    /// None is known.
    pub fn new() -> Self {
        Routes { by_rank: BTreeMap::new() }
    }

    /// Something of a node came over a connection.
    pub fn learn(&mut self, rank: u32, link: Link) {
        self.by_rank.insert(rank, link);
    }

    /// The way to a node.
    pub fn to(&self, rank: u32) -> Option<Link> {
        self.by_rank.get(&rank).copied()
    }

    /// A connection has ended: nothing is reached over it.
    pub fn forget(&mut self, link: Link) {
        self.by_rank.retain(|_, by| *by != link);
    }
}

/// All nodes whose way to rank 0 goes through one of the given nodes, by the parents that they have
/// now.
pub fn below(parents: &BTreeMap<u32, u32>, through: u32) -> BTreeSet<u32> {
    let passes = |rank: u32| {
        let mut at = rank;
        // A tree of that many nodes has no longer way.
        for _ in 0..=parents.len() {
            match parents.get(&at) {
                Some(parent) if *parent == through => return true,
                Some(parent) if *parent != 0 => at = *parent,
                _ => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|rank| passes(*rank)).gather()
}

#[cfg(test)]
mod tests {
    use super::{DEGREE, Routes, ancestors, below, depth, has_children, parent};
    use std::collections::BTreeMap;

    #[test]
    fn each_node_has_one_parent_and_few_children() {
        for size in [1_u32, 2, 17, 18, 300, 10_000] {
            let mut children: BTreeMap<u32, u32> = BTreeMap::new();
            for rank in 1..size {
                *children.entry(parent(rank).unwrap()).or_default() += 1;
            }
            assert!(children.values().all(|count| *count <= DEGREE));
            assert!((0..size).all(|rank| has_children(rank, size) == children.contains_key(&rank)));
        }
        assert_eq!(parent(0), None);
        assert_eq!(ancestors(300).collect::<Vec<_>>(), [18, 1, 0]);
        // 1 + 16 + 256 + 4096 nodes are at most 3 deep.
        assert_eq!((depth(272), depth(273), depth(9_999)), (2, 3, 4));
    }

    #[test]
    fn ways_are_learnt_and_forgotten() {
        let mut routes = Routes::new();
        routes.learn(5, 'a');
        routes.learn(90, 'a');
        routes.learn(7, 'b');
        assert_eq!((routes.to(90), routes.to(6)), (Some('a'), None));
        routes.learn(90, 'b');
        routes.forget('a');
        assert_eq!([5, 7, 90].map(|rank| routes.to(rank)), [None, Some('b'), Some('b')]);
    }

    #[test]
    fn what_is_below_a_node_follows_from_the_parents() {
        let parents = BTreeMap::from([(1, 0), (17, 1), (18, 1), (273, 17), (2, 0), (33, 2)]);
        assert_eq!(below(&parents, 1).into_iter().collect::<Vec<_>>(), [17, 18, 273]);
        assert_eq!(below(&parents, 33).len(), 0);
    }
}
