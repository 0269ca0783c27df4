//! A crew of threads that run one kernel, each over memory of its own, which goes from case to
//! case.

use super::sizes::MEMORY_LIMIT;
use crate::cpu::peak::load::{cpus_of, is_probed};
use crate::cpu::peak::width::{Chains, clock_at_width};
use crate::memory::arrays::Arrays;
use crate::memory::{locked, unlocked};
use anyhow::{Context, Result};
use bench::experiment::Fields as _;
use bench::measure::placed::{Placed, place_huge_or_base};
use bench::measure::{
    Bench, Clock, CoreClock, Declared, Had, REHEARSAL_NS, Values, best_window, together,
};
use host::format_cpus;
use laws::cpu::peak::CORES_HZ;
use laws::memory::Level;
use laws::memory::bandwidth::{Transfer, Width};
use metal::place::current_node;
use metal::stream::{Ahead, Kernel, Loop, Stream};
use record::case::{Case, Series};
use record::key::Value;
use record::quantity::render;
use record::unit::Unit;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Mutex;

/// Length of a step, in ns: long beside a clock read and the fence that ends it, short beside the
/// time between two interrupts.
const STEP_NS: f64 = 100e3;
/// Bytes of the first step that determines that length.
const FIRST_STEP: usize = 64 << 10;
const LINE_BYTES: u64 = 64;
/// Memory comes in pieces of this, where it comes in huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// The memory of a round's threads by their CPUs: taken when a case first needs so much of it.
pub(super) struct Arena {
    held: BTreeMap<usize, Placed>,
    /// Most bytes of all together.
    most_bytes: u64,
}

impl Arena {
    /// For a round of these cases; nothing is taken yet.
    pub(super) fn of(cases: &[Case]) -> Arena {
        let limits = cases.iter().filter_map(|case| case.int(MEMORY_LIMIT));
        Arena { held: BTreeMap::new(), most_bytes: limits.min().unwrap_or(u64::MAX) }
    }

    /// Gives back what is held for these CPUs where it is less than `bytes`, and what others hold
    /// where the new would be too much beside it. Whether there is memory to be taken.
    fn make_room(&mut self, cpus: &[usize], bytes: usize) -> bool {
        self.held.retain(|cpu, held| held.mapping.bytes() >= bytes || !cpus.contains(cpu));
        let missing = cpus.iter().filter(|cpu| !self.held.contains_key(cpu)).count() as u64;
        let new = missing.saturating_mul(bytes.next_multiple_of(HUGE_PAGE) as u64);
        let held: u64 = self.held.values().map(|held| held.mapping.bytes() as u64).sum();
        if new > 0 && held.saturating_add(new) > self.most_bytes {
            self.held.retain(|cpu, _| cpus.contains(cpu));
        }
        new > 0
    }

    /// A kernel's arrays for each CPU, made by a thread there.
    fn lay_out(
        &mut self,
        cpus: &[usize],
        kernel: Kernel,
        footprint: usize,
    ) -> Result<Vec<Mutex<Arrays>>> {
        let bytes = Stream::mapping_bytes(kernel, footprint) as u64;
        let held = cpus.iter().map(|cpu| self.held.remove(cpu)).collect();
        let arrays = together(cpus, held, |held: Option<Placed>| {
            let placed = held.map_or_else(|| place_huge_or_base(bytes, current_node()), Ok)?;
            Arrays::new(kernel, placed, footprint)
        })?;
        Ok(arrays.into_iter().map(Mutex::new).collect())
    }

    /// Verifies the CPUs' arrays, and holds their memory again.
    fn take_back(&mut self, cpus: &[usize], arrays: Vec<Mutex<Arrays>>) -> Result<()> {
        let things = cpus.iter().copied().zip(arrays.into_iter().map(unlocked)).collect();
        self.held.extend(together(cpus, things, |(cpu, arrays)| {
            arrays.verify().with_context(|| format!("memory of the thread on CPU {cpu}"))?;
            Ok((cpu, arrays.into_placed()))
        })?);
        Ok(())
    }
}

/// What a crew did with its memory.
pub(super) struct Moved {
    had: Had,
    of: Transfer,
    /// Core clocks summed over the cores, in Hz; none where one moved.
    cores_hz: Option<f64>,
    /// By which of the kernel's loops.
    by: Loop,
    /// Least share of a thread's memory in huge pages.
    huge_share: f64,
    /// Nodes that the memory is on.
    nodes: Vec<usize>,
    notes: Vec<String>,
}

/// Runs a resolved case's threads for one shared window, and verifies what they left in memory.
/// Errors: no memory, a kernel that is not available, or threads that never ran at the same time;
/// at once where memory holds other values than the kernel must have left.
pub(super) fn run(
    bench: &mut Bench,
    arena: &mut Arena,
    series: &Series,
    case: &Case,
    window_ns: f64,
) -> Result<Moved> {
    let of = Transfer::decode(case)?;
    let kernel = of.kernel();
    let footprint = case.int("footprint").context("the case was not resolved")?;
    let footprint = usize::try_from(footprint)?;
    let cpus = cpus_of(case);
    if arena.make_room(&cpus, Stream::mapping_bytes(kernel, footprint)) {
        let total = |case: &Case| case.int("footprint_total");
        let as_large = series.cases.iter().filter(|one| total(one) >= total(case));
        bench.declare(Declared::Memory(&as_large.collect::<Vec<_>>()));
    }
    let rehearsal = bench.order().rehearsal;
    let window_ns = match rehearsal && cpus.len() > 1 {
        true => window_ns.max(REHEARSAL_NS),
        false => window_ns,
    };
    let clock = bench.order().clock();
    let crew = bench.crew(&cpus, window_ns)?.watched(is_probed(case));
    let ways = loops(&of, kernel);
    let is_cache = !of.level.is_memory();
    // The arithmetic whose chain measures the core clock under the case's instructions.
    let bytes = case.int("instruction_bytes").filter(|_| is_cache);
    let wide = bytes.and_then(|bytes| of.at_width(bytes));
    let had = best_window(rehearsal, false, || {
        let members = arena.lay_out(&cpus, kernel, footprint)?;
        let shared = crew.run_ways(ways.len(), |index: usize| {
            let mut arrays = locked(&members[index]);
            if is_cache {
                arrays.stream.pass();
            }
            let bytes = step_bytes(&mut arrays.stream, clock);
            let arrays = Rc::new(RefCell::new(arrays));
            let worker = Rc::clone(&arrays);
            let ways = &ways;
            let step = move |way: usize| {
                let by: Loop = ways[way];
                let mut worker = worker.borrow_mut();
                worker.stream.set_loop(by);
                Ok(worker.stream.step(bytes))
            };
            let chains = wide.and_then(|wide| Chains::of(wide, case.int("chain_cycles")));
            let probe = move |core: &mut CoreClock| {
                let work = || {
                    arrays.borrow_mut().stream.step(bytes);
                };
                clock_at_width(core, clock, work, chains.as_ref())
            };
            Ok((step, probe))
        });
        let verified = arena.take_back(&cpus, members);
        let shared = shared?;
        verified?;
        Ok(shared)
    })?;
    let by = ways[had.shared.way];
    Ok(settle(bench, &arena.held, case, (of, by), had))
}

/// What is to be said of a window and of the memory that it was worked in.
fn settle(
    bench: &Bench,
    held: &BTreeMap<usize, Placed>,
    case: &Case,
    (of, by): (Transfer, Loop),
    had: Had,
) -> Moved {
    let cpus = cpus_of(case);
    let placed = || cpus.iter().filter_map(|cpu| held.get(cpu));
    let mut nodes: Vec<usize> = placed().map(|placed| placed.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut notes = had.shared.notes();
    notes.extend(had.note());
    for note in placed().flat_map(|placed| &placed.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    // Cycles per second of all cores together, where every member's clock is known.
    let cores = case.int("cores").unwrap_or(1) as f64;
    let members = &had.shared.members;
    let has_siblings = members.len() as f64 > cores;
    let level = bench.order().level_alone();
    let sum: Option<f64> = members.iter().map(|member| member.core_hz(has_siblings, level)).sum();
    let rehearsed = bench.order().rehearsal.then_some(bench.order().calibration.core_hz * cores);
    let cores_hz = sum.map(|sum| sum / members.len() as f64 * cores).or(rehearsed);
    let huge_share = placed().map(|placed| placed.huge_share).fold(1.0, f64::min);
    Moved { had, of, cores_hz, by, huge_share, nodes, notes }
}

/// The candidate loops of a case; all threads try each before the window. In the first cache
/// nothing prefetches: there is nothing to wait for. In main memory the narrower vectors are tried
/// where no width was asked for: there the lines that a core waits for count, not its instructions,
/// and on Zen 4 the widest copy a fifth less than the narrowest
/// (docs/notes/2026-11-23-crosscheck-memory.md).
fn loops(of: &Transfer, kernel: Kernel) -> Vec<Loop> {
    let may_be = |by: &Loop| {
        let is_own = by.width == kernel.width;
        (by.ahead == Ahead::No || of.level != Level::L1)
            && (is_own || (of.width == Width::Vector && of.level.is_memory()))
    };
    kernel.loops().into_iter().filter(may_be).collect()
}

/// Bytes of a step of about [`STEP_NS`].
fn step_bytes(stream: &mut Stream, clock: Clock) -> usize {
    let mut bytes = FIRST_STEP;
    for _ in 0..3 {
        let start = clock.start();
        let moved = stream.step(bytes);
        let took_ns = clock.between_ns(start, clock.end()).max(1.0);
        bytes = ((moved as f64 * STEP_NS / took_ns) as usize).clamp(4096, 1 << 28);
    }
    bytes
}

impl Moved {
    /// Program bytes per second of all threads in the shared window.
    pub(super) fn rate(&self) -> f64 {
        self.had.shared.rate()
    }

    /// Writes down what the crew moved, and the quantities that its bound rests on.
    pub(super) fn write(self, bench: &mut Bench, case: &Case) -> Result<()> {
        let (rate, bus_ratio) = (self.rate(), self.of.bus_ratio());
        let allowed = match case.int("peak") {
            Some(peak) => Some(peak as f64 / bus_ratio),
            None => {
                let bytes = case.at.get("bytes_per_cycle").and_then(Value::text);
                let bytes: Option<f64> = bytes.and_then(|text| text.parse().ok());
                bytes.zip(self.cores_hz).map(|(bytes, hz)| bytes * hz)
            }
        };
        // Between readings of the width probe, where those of the threads may be added up.
        let stretches = self.had.steady_rate().map_or(Vec::new(), |_| self.had.shared.stretches());
        let over = |unit: f64| {
            let stretches: Vec<_> = stretches.iter().map(|one| one.over(unit)).collect();
            Values::stretches(&stretches, rate / unit)
        };
        if let Some(allowed) = allowed {
            bench.record(case, "efficiency", over(allowed))?;
        }
        if bus_ratio != 1.0 && self.of.level != Level::L1 {
            bench.record(case, "bus_bandwidth", over(bus_ratio.recip()))?;
        }
        let samples = bench.record(case, "bandwidth", Values::stretches(&stretches, rate))?;
        let words = self.of.kernel().word_bytes(LINE_BYTES) as f64 / LINE_BYTES as f64;
        let overlap = self.had.shared.overlap;
        for (name, value) in [
            (CORES_HZ, self.cores_hz),
            ("window_rate", Some(rate)),
            ("overlap", Some(overlap)),
            ("word_rate", (words < 1.0).then_some(rate * words)),
        ] {
            samples.quantities.extend(value.map(|value| (name.to_owned(), value)));
        }
        let prefetched = if self.by.ahead == Ahead::Yes { "yes" } else { "no" };
        for (name, text) in [
            ("overlap", render(overlap, Unit::Ratio)),
            ("huge_share", render(self.huge_share, Unit::Ratio)),
            ("nodes", format_cpus(&self.nodes)),
            ("prefetch", prefetched.to_owned()),
            ("loop", format!("{:?}", self.by.width).to_lowercase()),
        ] {
            samples.at.insert(name.to_owned(), Value::Text(text));
        }
        if case.at.contains_key("cut") {
            let times = case.at.get("times_last_cache").map(Value::to_string);
            samples.notes.push(format!(
                "the arrays are cut to {} times the last cache, which may hold part of them (see \
                 `limit`)",
                times.unwrap_or_default()
            ));
        }
        samples.notes.extend(self.notes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, MEMORY_LIMIT, Transfer};
    use bench::experiment::Fields as _;
    use laws::memory::Level;
    use laws::memory::bandwidth::{Op, Stores, Threads};
    use record::case::Case;
    use record::key::Value;

    #[test]
    fn memory_is_taken_as_cases_need_it_and_given_back_where_it_would_be_too_much() {
        const MIB: usize = 1 << 20;
        let of = Transfer::widest(Op::Read, Stores::Regular, Level::Memory, Threads::Number(1));
        let mut case = Case::new(of.id());
        case.at.insert(MEMORY_LIMIT.to_owned(), Value::Int(6 << 20));
        let mut arena = Arena::of(&[case]);
        let cpus = metal::place::allowed().expect("CPUs");
        let (first, second) = (cpus[0], cpus[cpus.len() - 1]);
        let mut take = |cpu: usize, bytes: usize| {
            let is_short = arena.make_room(&[cpu], bytes);
            let arrays = arena.lay_out(&[cpu], of.kernel(), bytes).expect("a few pages");
            arena.take_back(&[cpu], arrays).expect("they are right");
            (is_short, arena.held.len())
        };
        assert_eq!(take(first, 2 * MIB), (true, 1));
        assert_eq!(take(first, 2 * MIB), (false, 1));
        assert_eq!(take(first, 4096), (false, 1), "it is held");
        if first != second {
            assert_eq!(take(second, 3 * MIB), (true, 2));
            // More for the first than there may be beside the second.
            assert_eq!(take(first, 4 * MIB), (true, 1));
        }
    }
}
