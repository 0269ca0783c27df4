//! Rings of pointers: memory whose every load gives the address of the next,
//! so that n loads take n latencies.
//!
//! Slots stand at a fixed distance; each holds the address of the next slot in its first word and,
//! in its second, where that slot is in words from the start of the memory, for a walk by array
//! index. Every ring is one cycle over all its slots.
//!
//! The random ring grows slot by slot by Sattolo's method inside out: slot i goes between a slot j
//! < i and the one after it. It is one whole cycle, each of the (n-1)! equally likely, after each
//! insertion, so it can be measured while it grows, and it shrinks the same way back. j is a
//! function of seed and i alone; the processor can therefore run many insertions at once.

use std::io;

use crate::answer::invalid;
use crate::arch;
use crate::memory::{Mapping, base_page_bytes};

/// The smallest slot: two words.
pub const LEAST_SLOT_BYTES: usize = 16;
const WORD_BYTES: usize = size_of::<u64>();

/// The way of a strided ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    Forward,
    Backward,
}

/// A ring in memory that it owns, and the place that the walk has reached.
#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    slot_bytes: usize,
    slots: usize,
    /// The slot that the next load reads.
    position: usize,
    /// Of the random ring; the others cannot grow.
    seed: Option<u64>,
}

impl Ring {
    /// A random ring of one slot; grow it with [`Ring::grow_to`]. Touch the mapping before. Errors:
    /// `slot_bytes` is not a multiple of 8 of at least 16, or the mapping has no room for one slot.
    pub fn new(mapping: Mapping, slot_bytes: usize, seed: u64) -> io::Result<Ring> {
        let mut ring = Ring::empty(mapping, slot_bytes, slot_bytes)?;
        ring.seed = Some(seed);
        ring.slots = 1;
        ring.link(0, 0);
        Ok(ring)
    }

    /// A ring through `footprint` bytes in address order, `stride` bytes apart. Errors: as
    /// [`Ring::new`], or a footprint of less than a stride or beyond the mapping.
    pub fn strided(
        mapping: Mapping,
        footprint: usize,
        stride: usize,
        direction: Direction,
    ) -> io::Result<Ring> {
        let ring = Ring::empty(mapping, stride, footprint)?;
        let slots = footprint / stride;
        Ok(match direction {
            Direction::Forward => ring.through(0..slots),
            Direction::Backward => ring.through((0..slots).rev()),
        })
    }

    /// A ring that visits base pages in random order, and all slots of a page, in random order too,
    /// before the next page: random for the caches and their prefetchers, kind to the TLB. Errors:
    /// as [`Ring::strided`], or a slot that does not divide the page.
    pub fn page_random(
        mapping: Mapping,
        footprint: usize,
        slot_bytes: usize,
        seed: u64,
    ) -> io::Result<Ring> {
        let ring = Ring::empty(mapping, slot_bytes, footprint)?;
        if !base_page_bytes().is_multiple_of(slot_bytes) {
            return Err(invalid(format!(
                "slots of {slot_bytes} bytes do not fill a page of {} bytes",
                base_page_bytes()
            )));
        }
        let slots = footprint / slot_bytes;
        let slots_per_page = base_page_bytes() / slot_bytes;
        let mut pages: Vec<usize> = (0..slots.div_ceil(slots_per_page)).collect();
        shuffle(&mut pages, seed, 0);
        let order = pages.into_iter().flat_map(|page| {
            let first = page * slots_per_page;
            let mut inside: Vec<usize> = (first..slots.min(first + slots_per_page)).collect();
            shuffle(&mut inside, seed, 1 + page as u64);
            inside
        });
        Ok(ring.through(order))
    }

    /// R0's walk against the prefetcher: from a slot of the first quarter to the same one of the
    /// last, of the second, of the third, then to the next of the first. (The report's text says
    /// so; its example with four slots goes 0, 3, 2, 1.) Errors: as [`Ring::strided`], or a number
    /// of slots that is no multiple of 4.
    pub fn four_quarter(mapping: Mapping, footprint: usize, stride: usize) -> io::Result<Ring> {
        let ring = Ring::empty(mapping, stride, footprint)?;
        let slots = footprint / stride;
        if !slots.is_multiple_of(4) {
            return Err(invalid(format!("{slots} slots are not four quarters")));
        }
        let quarter = slots / 4;
        let order =
            (0..quarter).flat_map(|slot| [0, 3, 1, 2].map(|number| number * quarter + slot));
        Ok(ring.through(order))
    }

    /// Inserts slots until there are `slots`. Does nothing if there are as many already. Errors:
    /// not a random ring, or no room for so many slots.
    pub fn grow_to(&mut self, slots: usize) -> io::Result<()> {
        let seed = self.random_seed()?;
        if slots > self.room() {
            return Err(invalid(format!(
                "{slots} slots of {} bytes do not fit into {} bytes",
                self.slot_bytes,
                self.mapping.bytes()
            )));
        }
        for slot in self.slots..slots {
            let before = predecessor(seed, slot);
            self.copy_link(before, slot);
            self.link(before, slot);
        }
        self.slots = self.slots.max(slots);
        Ok(())
    }

    /// Takes the last slots out, each insertion undone, until there are `slots`. A walk that stood
    /// on one of them goes on after it. Errors: not a random ring, or `slots` is 0.
    pub fn shrink_to(&mut self, slots: usize) -> io::Result<()> {
        let seed = self.random_seed()?;
        if slots == 0 {
            return Err(invalid("a ring has at least one slot"));
        }
        for slot in (slots..self.slots).rev() {
            self.copy_link(slot, predecessor(seed, slot));
            if self.position == slot {
                self.position = self.next(slot);
            }
        }
        self.slots = self.slots.min(slots);
        Ok(())
    }

    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Number of slots that the memory has room for.
    pub fn room(&self) -> usize {
        self.mapping.bytes() / self.slot_bytes
    }

    /// Distance of slots in bytes.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Bytes from the first slot's start to the last one's end.
    pub fn footprint(&self) -> usize {
        self.slots * self.slot_bytes
    }

    /// The slot that the next load reads.
    pub fn position(&self) -> usize {
        self.position
    }

    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub fn into_mapping(self) -> Mapping {
        self.mapping
    }

    /// Walks once around and counts the slots before the walk is back where it began; a slot
    /// outside the ring, or one whose index and pointer disagree, ends the count. Each slot has one
    /// successor, so a walk that comes back has visited no slot twice.
    pub fn visits(&self) -> usize {
        let start = self.position;
        let mut slot = start;
        for visited in 0..self.slots {
            let Some(next) = self.checked_next(slot) else { return visited };
            slot = next;
            if slot == start {
                return visited + 1;
            }
        }
        // Not back after as many steps as there are slots: the walk is caught
        // in a cycle that it entered from outside.
        0
    }

    /// Whether the ring visits every slot exactly once.
    pub fn verify(&self) -> bool {
        self.visits() == self.slots
    }

    /// `n` dependent loads of the pointer, from where the last walk stopped.
    /// Returns the slot that is reached.
    pub fn chase_pointer(&mut self, n: u64) -> usize {
        let base = self.base();
        let from = base + (self.position * self.slot_bytes) as u64;
        // SAFETY: slots are linked to slots of this mapping only, and no other code can write to
        // it.
        let to = unsafe { arch::chase_pointer(n, from, 0) };
        self.position = (to - base) as usize / self.slot_bytes;
        self.position
    }

    /// As [`Ring::chase_pointer`], by index: each load's address is the start
    /// of the memory plus the index (in words) that the load before returned.
    pub fn chase_index(&mut self, n: u64) -> usize {
        self.chase_by_index(n, arch::chase_index)
    }

    /// As [`Ring::chase_index`], with each index stored to the stack and loaded from there, as code
    /// that was compiled without optimisation does.
    pub fn chase_stored(&mut self, n: u64) -> usize {
        self.chase_by_index(n, arch::chase_stored)
    }

    fn chase_by_index(
        &mut self,
        n: u64,
        chase: unsafe extern "C" fn(u64, u64, u64) -> u64,
    ) -> usize {
        let stride = self.slot_bytes / WORD_BYTES;
        let from = (self.position * stride) as u64;
        // SAFETY: indices lead to slots of this mapping only, and no other code can write to it.
        let to = unsafe { chase(n, from, self.base()) };
        self.position = to as usize / stride;
        self.position
    }

    fn empty(mapping: Mapping, slot_bytes: usize, footprint: usize) -> io::Result<Ring> {
        check_slot(slot_bytes)?;
        if footprint < slot_bytes || footprint > mapping.bytes() {
            return Err(invalid(format!(
                "{footprint} bytes are less than a slot of {slot_bytes} or more than the {} mapped",
                mapping.bytes()
            )));
        }
        Ok(Ring { mapping, slot_bytes, slots: 0, position: 0, seed: None })
    }

    /// Links the slots in this order, the last to the first.
    fn through(mut self, order: impl Iterator<Item = usize>) -> Ring {
        let mut order = order.peekable();
        let first = order.peek().copied().unwrap_or(0);
        let mut last = first;
        for slot in order {
            self.link(last, slot);
            last = slot;
            self.slots += 1;
        }
        self.link(last, first);
        self.position = first;
        self
    }

    fn random_seed(&self) -> io::Result<u64> {
        self.seed.ok_or_else(|| invalid("only the random ring grows and shrinks"))
    }

    fn base(&self) -> u64 {
        self.mapping.as_ptr() as u64
    }

    #[inline]
    fn link(&mut self, slot: usize, next: usize) {
        let stride = self.slot_bytes / WORD_BYTES;
        let pointer = self.base() + (next * self.slot_bytes) as u64;
        let words = &mut self.mapping.words_mut()[slot * stride..][..2];
        words[0] = pointer;
        words[1] = (next * stride) as u64;
    }

    /// Lets slot `to` lead where slot `from` leads.
    #[inline]
    fn copy_link(&mut self, from: usize, to: usize) {
        let stride = self.slot_bytes / WORD_BYTES;
        let words = self.mapping.words_mut();
        let [pointer, index] = [words[from * stride], words[from * stride + 1]];
        words[to * stride] = pointer;
        words[to * stride + 1] = index;
    }

    #[inline]
    fn next(&self, slot: usize) -> usize {
        let stride = self.slot_bytes / WORD_BYTES;
        self.mapping.words()[slot * stride + 1] as usize / stride
    }

    /// The slot after this one, if its pointer and index agree and lead to a slot of the ring.
    fn checked_next(&self, slot: usize) -> Option<usize> {
        let stride = self.slot_bytes / WORD_BYTES;
        let [pointer, index] = *self.mapping.words()[slot * stride..].first_chunk()?;
        let next = index as usize / stride;
        let agrees = index as usize == next * stride
            && pointer == self.base() + index * WORD_BYTES as u64
            && next < self.slots;
        agrees.then_some(next)
    }
}

pub(crate) fn check_slot(slot_bytes: usize) -> io::Result<()> {
    match slot_bytes >= LEAST_SLOT_BYTES && slot_bytes.is_multiple_of(WORD_BYTES) {
        true => Ok(()),
        false => Err(invalid(format!(
            "a slot of {slot_bytes} bytes is not a multiple of 8 of at least 16"
        ))),
    }
}

/// The slot that slot `slot` (at least 1) is inserted after: any before it, equally likely.
#[inline]
fn predecessor(seed: u64, slot: usize) -> usize {
    below(mixed(seed, slot as u64), slot)
}

/// Fisher and Yates' shuffle, by the stream `stream` of the seed.
fn shuffle(list: &mut [usize], seed: u64, stream: u64) {
    let seed = mixed(seed, stream);
    for last in (1..list.len()).rev() {
        list.swap(last, below(mixed(seed, last as u64), last + 1));
    }
}

/// The `counter`-th output of splitmix64 (Steele, Lea and Flood 2014) from
/// `seed`, by itself: no output needs the one before.
#[inline]
pub(crate) fn mixed(seed: u64, counter: u64) -> u64 {
    noise(seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(STEP)))
}

/// Increment of splitmix64: odd, so that 2^64 states differ.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of splitmix64: neighbours in, noise out.
#[inline]
pub(crate) fn noise(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Scales 64 random bits to 0..`bound`; the bias is below `bound` / 2^64.
#[inline]
pub(crate) fn below(random: u64, bound: usize) -> usize {
    ((u128::from(random) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests;
