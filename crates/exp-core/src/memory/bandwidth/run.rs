//! A crew of threads that run one kernel, each over memory of its own.
//!
//! A member's memory is mapped, placed and first touched on its own CPU, once a round; it goes from
//! case to case through an [`Arena`].

use super::super::locked;
use super::MEMORY_LIMIT;
use crate::cpu::peak::load::is_probed;
use crate::cpu::peak::width::{Chains, clock_at_width};
use anyhow::{Context, Result, ensure};
use bench::experiment::Fields as _;
use bench::measure::placed::{Placed, place_huge_or_base, verify_node};
use bench::measure::{
    Bench, Clock, CoreClock, Declared, Had, REHEARSAL_NS, Shared, Stretch, WrongResult, best_window,
};
use host::parse_cpus;
use laws::memory::Level;
use laws::memory::bandwidth::{Transfer, Width};
use metal::memory::Mapping;
use metal::place::current_node;
use metal::stream::{Ahead, Kernel, Loop, Stream};
use record::case::{Case, Series};
use record::key::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard};

/// Length of a step, in ns: long beside a clock read and the fence that ends it, short beside the
/// time between two interrupts.
const STEP_NS: f64 = 100e3;
/// Bytes of the first step from which that length is told.
const FIRST_STEP: usize = 64 << 10;
const LINE_BYTES: u64 = 64;
/// Memory comes in pieces of this, where it comes in huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// The memory of a round's threads, by their CPUs: taken when a case first needs so much of it.
pub(super) struct Arena {
    places: BTreeMap<usize, Place>,
    /// Most bytes of all places together.
    most_bytes: u64,
}

/// The memory of one CPU's thread.
#[derive(Default)]
struct Place {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    placed: Option<Placed>,
    /// What the last run left: none before, and while one is under way.
    right: Option<bool>,
    /// Pages that were no longer on their node after it.
    misplaced: Option<anyhow::Error>,
}

impl Held {
    fn bytes(&self) -> u64 {
        let placed = self.placed.as_ref();
        placed.map_or(0, |placed| placed.mapping.bytes() as u64)
    }
}

impl Arena {
    /// Room for the CPUs of all these cases; nothing is taken yet.
    pub(super) fn of(cases: &[&Case]) -> Arena {
        let on = cases.iter().flat_map(|case| cpus(case));
        let limits = cases.iter().filter_map(|case| case.int(MEMORY_LIMIT));
        Arena {
            places: on.map(|cpu| (cpu, Place::default())).collect(),
            most_bytes: limits.min().unwrap_or(u64::MAX),
        }
    }

    fn place(&self, cpu: usize) -> Result<&Place> {
        self.places.get(&cpu).with_context(|| format!("no memory was planned for CPU {cpu}"))
    }

    /// Gives back what is held by these CPUs where it is less than `bytes`, and where the new would
    /// be too much beside it, what others hold. Whether there is memory to be taken.
    fn make_room(&self, cpus: &[usize], bytes: usize) -> Result<bool> {
        let (mut missing, whole) = (0, bytes.next_multiple_of(HUGE_PAGE) as u64);
        for cpu in cpus {
            let mut held = self.place(*cpu)?.held();
            if held.bytes() < bytes as u64 {
                held.placed = None;
                missing += whole;
            }
        }
        let held: u64 = self.places.values().map(|place| place.held().bytes()).sum();
        if missing > 0 && held.saturating_add(missing) > self.most_bytes {
            let others = self.places.iter().filter(|(cpu, _)| !cpus.contains(cpu));
            others.for_each(|(_, place)| place.held().placed = None);
        }
        Ok(missing > 0)
    }
}

impl Place {
    /// A member that panicked left nothing half done: it had taken the memory out.
    fn held(&self) -> MutexGuard<'_, Held> {
        locked(&self.held)
    }

    /// The memory, made by the calling thread where none is held.
    fn take(&self, bytes: usize) -> Result<Placed> {
        let mut held = self.held();
        held.right = None;
        held.misplaced = None;
        match held.placed.take() {
            Some(placed) => Ok(placed),
            None => place_huge_or_base(bytes as u64, current_node()),
        }
    }
}

/// A member's arrays; given back with what was found in them when it ends.
struct Member<'arena> {
    stream: Option<Stream>,
    place: &'arena Place,
    huge_share: f64,
    node: usize,
    notes: Vec<String>,
}

impl<'arena> Member<'arena> {
    fn new(place: &'arena Place, kernel: Kernel, footprint: usize) -> Result<Self> {
        let Placed { mapping, huge_share, node, notes } =
            place.take(Stream::mapping_bytes(kernel, footprint))?;
        let stream = Stream::new(kernel, Ahead::No, mapping, footprint)?;
        Ok(Member { stream: Some(stream), place, huge_share, node, notes })
    }

    fn set_loop(&mut self, by: Loop) {
        if let Some(stream) = &mut self.stream {
            stream.set_loop(by);
        }
    }

    fn step(&mut self, bytes: usize) -> u64 {
        let stream = self.stream.as_mut();
        stream.map_or(0, |stream| stream.step(bytes))
    }

    /// Bytes of a step of about [`STEP_NS`].
    fn step_bytes(&mut self, clock: Clock) -> usize {
        let mut bytes = FIRST_STEP;
        for _ in 0..3 {
            let start = clock.start();
            let moved = self.step(bytes);
            let took_ns = clock.between_ns(start, clock.end()).max(1.0);
            bytes = ((moved as f64 * STEP_NS / took_ns) as usize).clamp(4096, 1 << 28);
        }
        bytes
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        let right = stream.is_right();
        let mapping: Mapping = stream.into_mapping();
        let mut notes = std::mem::take(&mut self.notes);
        let misplaced = verify_node(&mapping, self.node, &mut notes).err();
        notes.dedup();
        let mut held = self.place.held();
        held.right = Some(right);
        held.misplaced = misplaced;
        held.placed = Some(Placed { mapping, huge_share: self.huge_share, node: self.node, notes });
    }
}

/// What a crew moved.
pub(super) struct Moved {
    /// Program bytes per second of all threads in the shared window.
    pub(super) rate: f64,
    /// The same between readings of the width probe; none where it was not read, or where those of
    /// the threads may not be added up.
    pub(super) stretches: Vec<Stretch>,
    /// Bytes on the bus for each of the program.
    pub(super) bus_ratio: f64,
    /// Core clocks summed over the cores, in Hz; none where one moved.
    pub(super) cores_hz: Option<f64>,
    /// By which of the kernel's loops.
    pub(super) by: Loop,
    /// Bytes of the words that were touched for each of the program.
    pub(super) word_share: f64,
    /// Share of the window asked for in which all worked.
    pub(super) overlap: f64,
    /// Least share of a thread's memory in huge pages.
    pub(super) huge_share: f64,
    /// Nodes that the memory is on.
    pub(super) nodes: BTreeSet<usize>,
    /// What a reader must know.
    pub(super) notes: Vec<String>,
}

/// Runs a resolved case's threads for one shared window, and verifies what they left in memory.
///
/// # Errors
/// No memory, a kernel that is not to be had, or threads that were never at work together; at once
/// where memory holds other values than the kernel must have left ([`WrongResult`]).
pub(super) fn run(
    bench: &mut Bench,
    arena: &Arena,
    series: &Series,
    case: &Case,
    window_ns: f64,
) -> Result<Moved> {
    let transfer = Transfer::decode(case)?;
    let kernel = transfer.kernel();
    let footprint = footprint(case)?;
    let cpus = cpus(case);
    ensure!(!cpus.is_empty(), "{} was not given CPUs", case.id);
    if arena.make_room(&cpus, Stream::mapping_bytes(kernel, footprint))? {
        bench.declare(Declared::Memory(&as_large(series, case)));
    }
    let rehearsal = bench.order().rehearsal;
    let window_ns = match rehearsal && cpus.len() > 1 {
        true => window_ns.max(REHEARSAL_NS),
        false => window_ns,
    };
    let clock = bench.order().clock();
    let crew = bench.crew(&cpus, window_ns)?.watched(is_probed(case));
    let is_memory = transfer.level.is_memory();
    let ways = loops(&transfer, kernel);
    let (assigned, chain_cycles) = (&cpus, case.int("chain_cycles"));
    let instruction_bytes = case.int("instruction_bytes").filter(|_| !is_memory);
    // The arithmetic whose chain tells the core clock under the case's instructions.
    let wide = instruction_bytes.and_then(|bytes| transfer.at_width(bytes));
    let enlist = |index: usize| {
        let mut member = Member::new(arena.place(assigned[index])?, kernel, footprint)?;
        if !is_memory && let Some(stream) = &mut member.stream {
            stream.pass();
        }
        let bytes = member.step_bytes(clock);
        let member = Rc::new(RefCell::new(member));
        let worker = Rc::clone(&member);
        let ways = &ways;
        let step = move |way: usize| {
            let by = ways[way];
            let mut worker = worker.borrow_mut();
            worker.set_loop(by);
            Ok(worker.step(bytes))
        };
        let chains = wide.and_then(|wide| Chains::of(wide, chain_cycles));
        let probe = move |core: &mut CoreClock| {
            let work = || {
                member.borrow_mut().step(bytes);
            };
            clock_at_width(core, clock, work, chains.as_ref())
        };
        Ok((step, probe))
    };
    let had = best_window(rehearsal, false, || {
        let shared = crew.run_ways(ways.len(), enlist)?;
        verify(arena, assigned, kernel)?;
        Ok(shared)
    })?;
    let clocks = clocks(&had.shared, case, bench.order().level_alone());
    let mut moved = settle(arena, &had, assigned, &transfer, ways[had.shared.way]);
    moved.cores_hz = clocks;
    if moved.cores_hz.is_none() && rehearsal {
        let cores = case.int("cores").unwrap_or(1) as f64;
        moved.cores_hz = Some(bench.order().calibration.core_hz * cores);
    }
    Ok(moved)
}

/// The loops that a case may be worked by, of which all try each before the window. In the first
/// cache nothing prefetches: there is nothing to wait for. In main memory the narrower vectors are
/// tried where no width was asked for: there the lines that a core waits for count, not its
/// instructions, and on Zen 4 the widest copy a fifth less than the narrowest
/// (docs/notes/2026-11-23-crosscheck-memory.md).
fn loops(of: &Transfer, kernel: Kernel) -> Vec<Loop> {
    let may_be = |by: &Loop| {
        let is_own = by.width == kernel.width;
        (by.ahead == Ahead::No || of.level != Level::L1)
            && (is_own || (of.width == Width::Vector && of.level.is_memory()))
    };
    kernel.loops().into_iter().filter(may_be).collect()
}

/// The cases of a series whose arrays take as much memory as this one's, or more.
fn as_large<'series>(series: &'series Series, case: &Case) -> Vec<&'series Case> {
    let total = |case: &Case| case.int("footprint_total");
    let cases = series.cases.iter();
    cases.filter(|one| total(one) >= total(case)).collect()
}

/// Demands that every thread's memory holds what the kernel must have left, where it must be.
fn verify(arena: &Arena, cpus: &[usize], kernel: Kernel) -> Result<()> {
    for cpu in cpus {
        let mut held = arena.place(*cpu)?.held();
        if held.right != Some(true) {
            let what = format!("{kernel:?} on CPU {cpu} left other values than it must");
            return Err(WrongResult(what).into());
        }
        if let Some(misplaced) = held.misplaced.take() {
            held.placed = None;
            return Err(misplaced.context(format!("memory of the thread on CPU {cpu}")));
        }
    }
    Ok(())
}

/// Cycles per second of all cores together, where every member's clock is known.
fn clocks(shared: &Shared, case: &Case, level: Option<f64>) -> Option<f64> {
    let cores = case.int("cores").unwrap_or(1) as f64;
    let has_siblings = shared.members.len() as f64 > cores;
    let members = shared.members.iter();
    let all: Option<Vec<f64>> = members.map(|member| member.core_hz(has_siblings, level)).collect();
    all.map(|all| all.iter().sum::<f64>() / all.len() as f64 * cores)
}

fn settle(arena: &Arena, had: &Had, cpus: &[usize], of: &Transfer, by: Loop) -> Moved {
    let shared = &had.shared;
    let mut notes = shared.notes();
    notes.extend(had.note());
    let (mut huge_share, mut nodes) = (1.0_f64, BTreeSet::new());
    for place in cpus.iter().filter_map(|cpu| arena.places.get(cpu)) {
        let held = place.held();
        if let Some(placed) = &held.placed {
            huge_share = huge_share.min(placed.huge_share);
            nodes.insert(placed.node);
            for note in &placed.notes {
                if !notes.contains(note) {
                    notes.push(note.clone());
                }
            }
        }
    }
    let words = of.kernel().word_bytes(LINE_BYTES) as f64;
    Moved {
        rate: shared.rate(),
        stretches: match had.steady_rate() {
            Some(_) => shared.stretches(),
            None => Vec::new(),
        },
        bus_ratio: of.bus_ratio(),
        word_share: words / LINE_BYTES as f64,
        cores_hz: None,
        by,
        overlap: shared.overlap,
        huge_share,
        nodes,
        notes,
    }
}

/// The CPUs that a case was resolved to.
fn cpus(case: &Case) -> Vec<usize> {
    parse_cpus(case.at.get("cpus").and_then(Value::text).unwrap_or(""))
}

/// Bytes of one thread's arrays.
fn footprint(case: &Case) -> Result<usize> {
    let bytes = case.int("footprint");
    let bytes = bytes.with_context(|| format!("{} was not resolved", case.id))?;
    Ok(usize::try_from(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::{Arena, MEMORY_LIMIT, verify};
    use crate::memory::bandwidth::presets::contradiction;
    use bench::experiment::Fields;
    use bench::experiment::fixtures::recorded;
    use bench::measure::WrongResult;
    use laws::memory::Level;
    use laws::memory::bandwidth::{Access, Op, Stores, Threads, Transfer, Width};
    use record::case::Case;
    use record::key::Value;
    use std::os::unix::fs::FileExt;

    fn regular(op: Op) -> Transfer {
        Transfer::widest(op, Stores::Regular, Level::Memory, Threads::Number(1))
    }

    fn resolved(transfer: &Transfer, cpu: usize) -> Case {
        let mut case = Case::new(transfer.id());
        case.at.insert("cpus".to_owned(), Value::from(cpu.to_string()));
        case.at.insert("footprint".to_owned(), Value::Int(1 << 16));
        case
    }

    #[test]
    fn what_exists_is_what_the_instrument_has_and_their_bus_ratios_agree() {
        let site = recorded("vm-granite-rapids");
        let widths =
            [Width::Word(4), Width::Word(8), Width::Sse2, Width::Avx2, Width::Avx512, Width::Neon];
        for (op, stores) in Op::ALL.iter().flat_map(|op| Stores::ALL.iter().map(move |s| (*op, *s)))
        {
            let widest = Transfer { stores, ..regular(op) };
            if contradiction(&site, &widest).is_none() {
                let ratio = widest.kernel().bus_bytes(600) as f64 / 600.0;
                assert!((ratio - widest.bus_ratio()).abs() < 1e-12, "{widest:?}");
                assert!(widest.kernel().is_supported());
            }
            for (access, width) in Access::ALL.iter().flat_map(|a| widths.map(|width| (*a, width)))
            {
                let of = Transfer { access, width, ..widest.clone() };
                let exists = contradiction(&site, &of).is_none();
                // The processor at hand may lack what the recorded one has, never the other way
                // round for what no x86-64 lacks.
                let is_everywhere = matches!(width, Width::Word(_) | Width::Sse2);
                if cfg!(target_arch = "x86_64") && (!exists || is_everywhere) {
                    assert_eq!(of.kernel().is_supported(), exists, "{of:?}");
                }
            }
        }
    }

    #[test]
    fn memory_is_taken_as_cases_need_it_and_given_back_where_it_would_be_too_much() {
        let limited = |cpu: usize, limit: u64| {
            let mut case = resolved(&regular(Op::Read), cpu);
            case.at.insert(MEMORY_LIMIT.to_owned(), Value::Int(limit));
            case
        };
        const MIB: usize = 1 << 20;
        let cases = [limited(0, 6 << 20), limited(1, 6 << 20)];
        let arena = Arena::of(&cases.each_ref());
        let held = |cpu: usize| arena.place(cpu).expect("it was planned").held().bytes();
        let take = |cpu: usize, bytes: usize| {
            let is_short = arena.make_room(&[cpu], bytes).expect("it was planned");
            let place = arena.place(cpu).expect("it was planned");
            let placed = place.take(bytes).expect("a few pages");
            place.held().placed = Some(placed);
            is_short
        };
        assert!(take(0, 2 * MIB));
        assert!(!take(0, 2 * MIB) && !take(0, 4096), "it is held");
        assert!(take(1, 3 * MIB));
        assert_eq!((held(0), held(1) > 2 << 20), (2 << 20, true));
        // More for the first than there may be beside the second.
        assert!(take(0, 4 * MIB));
        assert_eq!(held(1), 0);
        assert!(held(0) == 4 << 20);
        assert!(arena.make_room(&[7], MIB).is_err());
    }

    #[test]
    fn memory_that_holds_other_values_is_a_wrong_result() {
        let cpu = metal::place::allowed().expect("CPUs")[0];
        let case = resolved(&regular(Op::Copy), cpu);
        let of = regular(Op::Copy).kernel();
        let arena = Arena::of(&[&case]);
        let place = arena.place(cpu).expect("it was planned");
        let spoilt = |spoil: bool| {
            let mut member = super::Member::new(place, of, 1 << 16).expect("64 KiB");
            member.step(1 << 16);
            let stream = member.stream.as_ref().expect("it has arrays");
            if spoil {
                // What no kernel of this process does: a byte changes behind its back.
                let memory = std::fs::File::options().write(true).open("/proc/self/mem");
                let at = stream.mapping().as_ptr() as u64 + 8192;
                let changed = stream.mapping().as_slice()[8192] ^ 1;
                memory
                    .expect("it is this process")
                    .write_all_at(&[changed], at)
                    .expect("it is mapped");
            }
            drop(member);
            verify(&arena, &[cpu], of)
        };
        spoilt(false).expect("a copy is a copy");
        let error = spoilt(true).expect_err("one byte differs");
        assert!(error.is::<WrongResult>(), "{error:#}");
    }
}
