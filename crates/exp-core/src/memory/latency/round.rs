//! One round: the rings of its walks in one memory.

use super::{ALWAYS_VERIFIED, WARM_LOADS};
use crate::memory::probe::MemoryProbe;
use bench::prelude::*;
use laws::memory::{Load, Pattern, Point};
use metal::memory::Mapping;
use metal::ring::{Direction, Ring};
use std::cell::RefCell;
use std::hint::black_box;

pub(super) struct Round {
    pub(super) huge_share: f64,
    /// Node of the measuring CPU and, verified, of the memory.
    pub(super) node: usize,
    pub(super) notes: Vec<String>,
    pub(super) slot: usize,
    pub(super) warm: u64,
    /// Beside larger footprints main memory is probed.
    pub(super) private: u64,
    /// The largest footprint whose ring is walked with a count.
    pub(super) verified: Option<u64>,
}

impl Round {
    /// The random ring, grown and shrunk from case to case.
    pub(super) fn ladder(
        &self,
        mapping: Mapping,
        walks: &[(&Case, Point)],
        bench: &mut Bench,
    ) -> Result<()> {
        let mut ring = Ring::new(mapping, self.slot, bench.order().seed)?;
        let cases = walks.iter().map(|(case, _)| *case);
        bench.each_of::<Point>(cases, |bench, case, point| {
            let slots = usize::try_from(point.footprint)? / self.slot;
            ensure!(slots >= 2, "{} hold no ring of slots of {} bytes", point.footprint, self.slot);
            if slots > ring.slots() {
                ring.grow_to(slots)?;
            } else {
                ring.shrink_to(slots)?;
            }
            self.time(&mut ring, case, &point, bench)
        });
        Ok(())
    }

    /// Walks in other orders, each linked anew in the same memory.
    pub(super) fn walks(
        &self,
        mut mapping: Mapping,
        walks: &[(&Case, Point)],
        bench: &mut Bench,
    ) -> Result<()> {
        let seed = bench.order().seed;
        for (case, point) in walks {
            let footprint = usize::try_from(point.footprint)?;
            let stride = match point.stride {
                Some(stride) => usize::try_from(stride)?,
                None => self.slot,
            };
            let mut ring = match point.pattern {
                Pattern::Random => bail!("the random ring has a series of its own"),
                Pattern::PageRandom => Ring::page_random(mapping, footprint, stride, seed),
                Pattern::Forward => Ring::strided(mapping, footprint, stride, Direction::Forward),
                Pattern::Backward => Ring::strided(mapping, footprint, stride, Direction::Backward),
                Pattern::FourQuarter => Ring::four_quarter(mapping, footprint, stride),
            }
            .with_context(|| format!("linking the walk of {}", case.id))?;
            self.time(&mut ring, case, point, bench)?;
            mapping = ring.into_mapping();
        }
        Ok(())
    }

    fn time(&self, ring: &mut Ring, case: &Case, point: &Point, bench: &mut Bench) -> Result<()> {
        if point.footprint <= ALWAYS_VERIFIED || self.verified == Some(point.footprint) {
            let visits = ring.visits();
            ensure!(
                visits == ring.slots(),
                "the walk of {} visits {visits} of {} slots",
                case.id,
                ring.slots()
            );
        }
        let warm = point.footprint <= self.warm;
        if warm {
            sweep(ring);
        }
        ring.chase_pointer(WARM_LOADS.min(ring.slots() as u64));
        let slots = ring.slots() as u64;
        let mut probe = MemoryProbe::new(bench.order().clock(), bench.order().seed ^ slots);
        let is_probed = point.footprint > self.private;
        let ring = RefCell::new(ring);
        let beside = || {
            if is_probed {
                probe.read(ring.borrow().mapping());
            }
        };
        let chase = match point.load {
            Load::Index => Ring::chase_index,
            Load::Pointer => Ring::chase_pointer,
            Load::Stored => Ring::chase_stored,
        };
        let samples = bench.time_beside(case, "latency", beside, |n| {
            chase(&mut ring.borrow_mut(), n);
            Ok(())
        })?;
        probe.write(samples);
        samples.notes.extend(self.notes.iter().cloned());
        let at = &mut samples.at;
        at.put("node", self.node as u64);
        at.put("slots", slots);
        at.put("huge_share", render(self.huge_share, Unit::Ratio));
        at.put("warmed", if warm { "yes" } else { "no" });
        Ok(())
    }
}

/// Loads every slot of a ring once, in the order of addresses.
fn sweep(ring: &Ring) {
    let words = &ring.mapping().words()[..ring.footprint() / 8];
    let sum = words
        .iter()
        .step_by(ring.slot_bytes() / 8)
        .fold(0_u64, |sum, word| sum.wrapping_add(*word));
    black_box(sum);
}
