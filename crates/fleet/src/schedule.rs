//! What a sweep does, and when: computed by each node from the same options, so that no node needs to
//! be asked. Pure.

use crate::file::Purpose;
use crate::hosts::List;
use crate::matchings::{Edge, all_steps, bisection, gatherings, matchings, steps_for, turns};

/// What is asked of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Preset and selectors of what a node measures by itself.
    pub preset: String,
    pub selectors: Vec<String>,
    /// Selectors of the pairs.
    pub pair_selectors: Vec<String>,
    pub seed: u64,
    /// Matchings; 2 log2(N) where none are given.
    pub steps: Option<u32>,
    /// Times of each: bisection, incast, outcast; the usual number where none is given.
    pub loads: [Option<u32>; 3],
    /// Time for what a node measures by itself, and the length of a slot, in seconds.
    pub alone_s: f64,
    pub slot_s: f64,
}

/// Pairs that are measured at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    pub purpose: Purpose,
    /// The near and the far end of each pair.
    pub pairs: Vec<Edge>,
}

/// What a node does in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Rests,
    /// It measures with this far end, as the end of this number there.
    Near(u32, u16),
    /// These measure with it.
    Far(Vec<u32>),
}

/// Steps of each kind of load unless the user says otherwise.
const LOADS: u32 = 2;
/// With fewer nodes a cut has one pair, as a matching has.
const LOADS_LEAST: u32 = 4;
/// The partners meet in this part of a slot; the rest is for measuring.
pub const MEETING: f64 = 0.25;
/// A slot ends so much earlier for a measurement, in seconds, because its programs must end.
pub const ENDING_S: f64 = 0.5;
/// The experiment that loads a path.
const RATES: &str = "net.bandwidth";

impl Slot {
    /// What a node does.
    pub fn part(&self, rank: u32) -> Part {
        let nears: Vec<u32> =
            self.pairs.iter().filter(|pair| pair.1 == rank).map(|pair| pair.0).collect();
        if !nears.is_empty() {
            return Part::Far(nears);
        }
        let Some((_, far)) = self.pairs.iter().find(|pair| pair.0 == rank) else {
            return Part::Rests;
        };
        let beside = self.pairs.iter().filter(|pair| pair.1 == *far);
        let place = beside.take_while(|pair| pair.0 != rank).count();
        Part::Near(*far, u16::try_from(place).unwrap_or(u16::MAX))
    }

    /// What its pairs measure, each in a window of its own that begins at the same time for all. Loads
    /// measure the rate alone.
    pub fn selectors<'recipe>(&self, recipe: &'recipe Recipe) -> Vec<&'recipe str> {
        let all = recipe.pair_selectors.iter().map(String::as_str);
        let is_load = !matches!(self.purpose, Purpose::Matching | Purpose::Suspect);
        all.filter(|selector| !is_load || selector.starts_with(RATES)).collect()
    }
}

impl Recipe {
    /// The slots of a sweep over a list, in their order. A list with pairs has those alone.
    pub fn slots(&self, list: &List) -> Vec<Slot> {
        let slots = |purpose: Purpose, steps: Vec<Vec<Edge>>| {
            steps.into_iter().map(move |pairs| Slot { purpose, pairs })
        };
        if !list.pairs.is_empty() {
            return slots(Purpose::Suspect, turns(&list.pairs)).collect();
        }
        let size = u32::try_from(list.hosts.len()).unwrap_or(u32::MAX);
        let steps = self.steps.map_or_else(|| steps_for(size), |steps| steps.min(all_steps(size)));
        let usual = if size < LOADS_LEAST || steps == 0 { 0 } else { LOADS };
        let [across, gathered, spread] = self.loads.map(|asked| asked.unwrap_or(usual));
        let seed = |more| self.seed.wrapping_add(more);
        slots(Purpose::Matching, matchings(size, steps, self.seed))
            .chain(slots(Purpose::Bisection, bisection(size, across, seed(1))))
            .chain(slots(Purpose::Incast, gatherings(size, gathered, seed(2))))
            .chain(slots(Purpose::Outcast, gatherings(size, spread, seed(3))))
            .collect()
    }

    /// Begin of a slot, in seconds since the sweep's start.
    pub fn slot_begin_s(&self, slot: u32) -> f64 {
        self.alone_s + f64::from(slot) * self.slot_s
    }

    /// Begin and end of the window of a slot's selector, in seconds since the sweep's start.
    pub fn window_s(&self, slot: u32, window: usize, windows: usize) -> (f64, f64) {
        let begin = self.slot_begin_s(slot) + MEETING * self.slot_s;
        let length = ((1.0 - MEETING) * self.slot_s - ENDING_S).max(0.0) / windows.max(1) as f64;
        let begin = begin + window as f64 * length;
        (begin, begin + length)
    }

    /// Identity of a sweep: what all its nodes know the same. `start` is empty where each node has its
    /// own.
    pub fn identity(&self, list: &List, start: &str, again: bool) -> String {
        let text = format!("{self:?} {:?} {:?} {start} {again}", list.hosts, list.pairs);
        // FNV-1a of 64 bits.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, Purpose, Recipe};
    use crate::hosts::List;
    use std::collections::BTreeMap;

    fn recipe() -> Recipe {
        Recipe {
            preset: "quick".to_owned(),
            selectors: Vec::new(),
            pair_selectors: vec![
                "net.rtt:far=peer".to_owned(),
                "net.bandwidth:far=peer".to_owned(),
            ],
            seed: 7,
            steps: None,
            loads: [None; 3],
            alone_s: 100.0,
            slot_s: 12.0,
        }
    }

    #[test]
    fn every_node_has_a_part_that_fits_its_partner_s() {
        let list = List::parse("n[1-9]").unwrap();
        let slots = recipe().slots(&list);
        let purposes: Vec<Purpose> = slots.iter().map(|slot| slot.purpose).collect();
        assert_eq!(purposes[..8], [Purpose::Matching; 8]);
        use Purpose::{Bisection, Incast, Outcast};
        assert_eq!(purposes[8..], [Bisection, Bisection, Incast, Incast, Outcast, Outcast]);
        for slot in &slots {
            let parts: BTreeMap<u32, Part> = (0..9).map(|rank| (rank, slot.part(rank))).collect();
            for (rank, part) in &parts {
                match part {
                    Part::Rests => {
                        assert!(slot.pairs.iter().all(|pair| pair.0 != *rank && pair.1 != *rank))
                    }
                    Part::Near(far, place) => {
                        let Part::Far(nears) = &parts[far] else { panic!("{far} is no far end") };
                        assert_eq!(nears[usize::from(*place)], *rank);
                    }
                    Part::Far(nears) => assert!(
                        nears
                            .iter()
                            .all(|near| matches!(parts[near], Part::Near(far, _) if far == *rank))
                    ),
                }
            }
        }
        let load = &slots[10];
        assert_eq!(load.selectors(&recipe()), ["net.bandwidth:far=peer"]);
        assert_eq!(slots[0].selectors(&recipe()).len(), 2);
    }

    #[test]
    fn pairs_of_a_list_are_the_slots() {
        let list = List::parse("n[1-4]\nn1 > n2\nn3 > n4\nn2 > n3\n").unwrap();
        let slots = recipe().slots(&list);
        let pairs: Vec<_> = slots.iter().map(|slot| slot.pairs.clone()).collect();
        assert_eq!(pairs, [vec![(0, 1), (2, 3)], vec![(1, 2)]]);
        assert!(slots.iter().all(|slot| slot.purpose == Purpose::Suspect));
    }

    #[test]
    fn windows_divide_what_the_meeting_leaves() {
        let recipe = recipe();
        assert_eq!(recipe.slot_begin_s(2), 124.0);
        assert_eq!(recipe.window_s(2, 0, 2), (127.0, 131.25));
        assert_eq!(recipe.window_s(2, 1, 2), (131.25, 135.5));
    }

    #[test]
    fn another_sweep_has_another_identity() {
        let list = List::parse("n[1-9]").unwrap();
        let fewer = List::parse("n[1-8]").unwrap();
        let base = recipe().identity(&list, "", false);
        assert_eq!(base, recipe().identity(&list, "", false));
        let other = Recipe { seed: 8, ..recipe() };
        for another in [
            recipe().identity(&fewer, "", false),
            recipe().identity(&list, "2026-11-30T00:00:00Z", false),
            recipe().identity(&list, "", true),
            other.identity(&list, "", false),
        ] {
            assert_ne!(base, another);
        }
    }
}
