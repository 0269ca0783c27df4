//! What a sweep does, and when: computed by each node from the same options, so that no node needs to
//! be asked. Pure.

use crate::file::{FLEET_FORMAT, Header, LISTING, Purpose};
use crate::hosts::List;
use crate::matchings::{Edge, all_steps, bisection, gatherings, matchings, steps_for, turns};

#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Preset and selectors of what a node measures by itself.
    pub preset: String,
    pub selectors: Vec<String>,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Rests,
    /// It measures with this far end, as the end of this number there.
    Near(u32, u16),
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
        let size = list.size();
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

    /// Time that a sweep takes from its start, in seconds.
    pub fn duration_s(&self, slots: usize) -> f64 {
        self.alone_s + slots as f64 * self.slot_s
    }

    /// Begin and end of the window of a slot's selector, in seconds since the sweep's start.
    pub fn window_s(&self, slot: u32, window: usize, windows: usize) -> (f64, f64) {
        let begin = self.slot_begin_s(slot) + MEETING * self.slot_s;
        let length = ((1.0 - MEETING) * self.slot_s - ENDING_S).max(0.0) / windows.max(1) as f64;
        let begin = begin + window as f64 * length;
        (begin, begin + length)
    }

    /// The header of a node's file, but for what only the node knows.
    pub fn header(&self, list: &List, rank: u32, started: String, again: bool) -> Header {
        Header {
            format: FLEET_FORMAT,
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            sweep: self.identity(list, &started, again),
            again,
            rank,
            size: list.size(),
            host: list.hosts[rank as usize].clone(),
            hosts: if rank < LISTING { list.hosts.clone() } else { Vec::new() },
            started,
            seed: self.seed,
            preset: self.preset.clone(),
            selectors: self.selectors.clone(),
            pair_selectors: self.pair_selectors.clone(),
            alone_s: self.alone_s,
            slot_s: self.slot_s,
            ..Header::default()
        }
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
    use super::Purpose::{Bisection, Incast, Matching, Outcast, Suspect};
    use super::{Part, Recipe};
    use crate::drawn::recipe;
    use crate::hosts::List;

    #[test]
    fn every_node_has_a_part_that_fits_its_partner_s() {
        let list = List::parse("n[1-9]").unwrap();
        let recipe = Recipe { loads: [None; 3], ..recipe(7) };
        let slots = recipe.slots(&list);
        assert!(slots[..8].iter().all(|slot| slot.purpose == Matching));
        let loads: Vec<_> = slots[8..].iter().map(|slot| slot.purpose).collect();
        assert_eq!(loads, [Bisection, Bisection, Incast, Incast, Outcast, Outcast]);
        for slot in &slots {
            let parts: Vec<Part> = (0..9).map(|rank| slot.part(rank)).collect();
            for (rank, part) in (0..).zip(&parts) {
                let fits = match part {
                    Part::Rests => slot.pairs.iter().all(|pair| ![pair.0, pair.1].contains(&rank)),
                    Part::Near(far, place) => {
                        let Part::Far(nears) = &parts[*far as usize] else {
                            panic!("{far}: no far end")
                        };
                        nears[usize::from(*place)] == rank
                    }
                    Part::Far(nears) => nears.iter().all(
                        |near| matches!(parts[*near as usize], Part::Near(far, _) if far == rank),
                    ),
                };
                assert!(fits, "{rank}: {part:?} in {slot:?}");
            }
        }
        assert_eq!(slots[10].selectors(&recipe), ["net.bandwidth:far=peer"]);
        assert_eq!(slots[0].selectors(&recipe).len(), 2);
        assert_eq!(recipe.duration_s(2), 124.0);
        assert_eq!(recipe.window_s(2, 0, 2), (127.0, 131.25));
        assert_eq!(recipe.window_s(2, 1, 2), (131.25, 135.5));
    }

    #[test]
    fn pairs_of_a_list_are_the_slots() {
        let list = List::parse("n[1-4]\nn1 > n2\nn3 > n4\nn2 > n3\n").unwrap();
        let slots = recipe(7).slots(&list);
        let pairs: Vec<_> = slots.iter().map(|slot| slot.pairs.clone()).collect();
        assert_eq!(pairs, [vec![(0, 1), (2, 3)], vec![(1, 2)]]);
        assert!(slots.iter().all(|slot| slot.purpose == Suspect));
    }

    #[test]
    fn another_sweep_has_another_identity() {
        let (list, fewer) = ["n[1-9]", "n[1-8]"].map(|list| List::parse(list).unwrap()).into();
        let base = recipe(7).identity(&list, "", false);
        assert_eq!(base, recipe(7).identity(&list, "", false));
        for another in [
            recipe(7).identity(&fewer, "", false),
            recipe(7).identity(&list, "2026-11-30T00:00:00Z", false),
            recipe(7).identity(&list, "", true),
            recipe(8).identity(&list, "", false),
        ] {
            assert_ne!(base, another);
        }
    }
}
