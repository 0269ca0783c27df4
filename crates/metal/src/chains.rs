//! Chains of dependent loads that do not wait for each other: how many misses a core has in flight.
//!
//! All slots of a footprint stand in one cycle in an order drawn uniformly. k chains enter it at
//! places that are evenly spaced along the cycle, so each walks k-th parts of it one after the
//! other, and comes to a line that another chain has loaded only after as many loads of all chains
//! together as there are slots: for the caches that is one chain that goes round once. (Rings of
//! their own would have each chain walk a part of the footprint, with a lone one in a small cache.)

use std::io;

use crate::answer::invalid;
use crate::arch;
use crate::memory::Mapping;
use crate::ring::{below, check_slot, mixed};

pub const MOST_CHAINS: usize = 32;

/// A cycle of slots in memory that it owns, and the places that its chains have reached.
#[derive(Debug)]
pub struct Chains {
    mapping: Mapping,
    slot_bytes: usize,
    /// Slots in the order of the cycle.
    order: Vec<u32>,
    count: usize,
    /// Loads of each chain since it entered.
    walked: u64,
    /// Address that each chain loads next.
    positions: [u64; MOST_CHAINS],
}

impl Chains {
    /// Links as many slots as `footprint` bytes hold, with one chain at work. Touch it before.
    /// Errors: `slot_bytes` is not a multiple of 8 of at least 16, there are fewer slots than
    /// [`MOST_CHAINS`] or 2^32 and more of them, or the mapping is too small.
    pub fn new(
        mapping: Mapping,
        footprint: usize,
        slot_bytes: usize,
        seed: u64,
    ) -> io::Result<Chains> {
        check_slot(slot_bytes)?;
        let slots = footprint / slot_bytes;
        let fits = slots >= MOST_CHAINS && footprint <= mapping.bytes();
        let count = u32::try_from(slots).ok().filter(|_| fits).ok_or_else(|| {
            invalid(format!(
                "{slots} slots of {slot_bytes} bytes in {} bytes are not {MOST_CHAINS} to 2^32",
                mapping.bytes()
            ))
        })?;
        let mut chains = Chains {
            mapping,
            slot_bytes,
            order: shuffled(count, seed),
            count: 0,
            walked: 0,
            positions: [0; MOST_CHAINS],
        };
        chains.link();
        chains.enter(1)?;
        Ok(chains)
    }

    /// Lets `count` chains begin anew, evenly spaced along the cycle. Errors: no chains, or more
    /// than [`MOST_CHAINS`].
    pub fn enter(&mut self, count: usize) -> io::Result<()> {
        if !(1..=MOST_CHAINS).contains(&count) {
            return Err(invalid(format!("{count} chains are not 1 to {MOST_CHAINS}")));
        }
        self.count = count;
        self.walked = 0;
        for chain in 0..count {
            self.positions[chain] = self.address(self.expected(chain));
        }
        Ok(())
    }

    /// `turns` loads of each chain, from where the last walk stopped.
    pub fn chase(&mut self, turns: u64) {
        // SAFETY: every slot leads to a slot of this mapping, which no other code can write to,
        // every chain is on one, and `at` has room for all chains.
        unsafe { arch::CHAINS[self.count - 1](turns, self.positions.as_mut_ptr()) }
        self.walked += turns;
    }

    /// Whether every chain stands where so many loads lead by the order that was drawn.
    pub fn is_right(&self) -> bool {
        (0..self.count).all(|chain| self.positions[chain] == self.address(self.expected(chain)))
    }

    pub fn slots(&self) -> usize {
        self.order.len()
    }

    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    fn link(&mut self) {
        let stride = self.slot_bytes / size_of::<u64>();
        let base = self.mapping.as_ptr() as u64;
        let words = self.mapping.words_mut();
        let following = self.order.iter().cycle().skip(1);
        for (slot, next) in self.order.iter().zip(following) {
            words[*slot as usize * stride] = base + u64::from(*next) * self.slot_bytes as u64;
        }
    }

    /// Place along the cycle where a chain must stand now.
    fn expected(&self, chain: usize) -> usize {
        let slots = self.order.len();
        let walked = (self.walked % slots as u64) as usize;
        (chain * slots / self.count + walked) % slots
    }

    fn address(&self, place: usize) -> u64 {
        self.mapping.as_ptr() as u64 + u64::from(self.order[place]) * self.slot_bytes as u64
    }
}

/// 0 to `count` in an order drawn uniformly, by Fisher and Yates' shuffle inside out.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    for (turn, last) in (1..order.len()).rev().enumerate() {
        order.swap(last, below(mixed(seed, turn as u64), last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::{Chains, MOST_CHAINS, shuffled};
    use crate::memory::{Mapping, Pages};
    use std::collections::BTreeSet;

    fn chains(slots: usize) -> Chains {
        let mut mapping = Mapping::new(slots * 64, Pages::Base).expect("memory");
        mapping.touch();
        Chains::new(mapping, slots * 64, 64, 7).expect("a cycle")
    }

    fn slot(chains: &Chains, chain: usize) -> u64 {
        (chains.positions[chain] - chains.mapping.as_ptr() as u64) / 64
    }

    #[test]
    fn all_chains_together_visit_every_slot_once_for_every_count() {
        // Divisible by every count up to 10, 12, 15, 16, 20, 21, 24, 28, 30 …; others leave a rest.
        let mut chains = chains(5040);
        for count in 1..=MOST_CHAINS {
            chains.enter(count).expect("a count");
            let mut seen = BTreeSet::new();
            let turns = chains.slots() / count;
            for _ in 0..turns {
                for chain in 0..count {
                    assert!(seen.insert(slot(&chains, chain)), "{count} chains: twice");
                }
                chains.chase(1);
            }
            assert_eq!(seen.len(), turns * count);
            assert!(chains.is_right(), "{count} chains");
        }
    }

    #[test]
    fn each_chain_goes_round_the_whole_cycle_and_back() {
        let mut chains = chains(257);
        for count in [1, 13, 14, 29, 30, MOST_CHAINS] {
            chains.enter(count).expect("a count");
            let begin: Vec<u64> = (0..count).map(|chain| slot(&chains, chain)).collect();
            let mut seen = vec![BTreeSet::new(); count];
            for _ in 0..chains.slots() {
                for (chain, seen) in seen.iter_mut().enumerate() {
                    seen.insert(slot(&chains, chain));
                }
                chains.chase(1);
            }
            assert!(seen.iter().all(|seen| seen.len() == 257), "{count} chains");
            let end: Vec<u64> = (0..count).map(|chain| slot(&chains, chain)).collect();
            assert_eq!(begin, end);
        }
    }

    #[test]
    fn many_turns_at_once_lead_where_single_ones_do() {
        let mut chains = chains(1000);
        for count in 1..=MOST_CHAINS {
            chains.enter(count).expect("a count");
            for turns in [0, 1, 2, 33, 12_345] {
                chains.chase(turns);
                assert!(chains.is_right(), "{count} chains, {turns} turns");
            }
            assert_eq!(chains.count, count);
        }
        // It must see a chain that is elsewhere.
        chains.positions[MOST_CHAINS - 1] = chains.positions[0];
        assert!(!chains.is_right());
    }

    #[test]
    fn what_cannot_be_linked_is_refused() {
        let mapping = || Mapping::new(1 << 16, Pages::Base).expect("memory");
        for (footprint, slot) in [(1 << 16, 8), (1 << 16, 20), (31 * 64, 64), (1 << 17, 64)] {
            Chains::new(mapping(), footprint, slot, 1).expect_err("refused");
        }
        let mut chains = Chains::new(mapping(), 32 * 64, 64, 1).expect("32 slots");
        chains.enter(0).expect_err("none");
        chains.enter(33).expect_err("too many");
        assert_eq!((chains.count, chains.slots()), (1, 32));
    }

    #[test]
    fn an_order_holds_every_slot_and_depends_on_the_seed() {
        let order = shuffled(1000, 3);
        let distinct: BTreeSet<u32> = order.iter().copied().collect();
        assert_eq!((distinct.len(), distinct.last()), (1000, Some(&999)));
        assert_eq!(order, shuffled(1000, 3));
        assert_ne!(order, shuffled(1000, 4));
    }
}
