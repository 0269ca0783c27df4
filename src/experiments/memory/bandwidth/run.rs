//! A crew of threads that run one kernel, each over memory of its own.
//!
//! A member's memory is mapped, placed and first touched on its own CPU, once a round; it goes from
//! case to case through an [`Arena`].

use super::super::place::{Placed, place_huge_or_base, verify_node};
use super::cases::Point;
use crate::experiments::cpu::peak::load::{attempts, cpu_time_ns, member_hz};
use crate::host::parse_cpus;
use crate::measure::{Bench, Clock, Shared, WrongResult};
use anyhow::{Context, Result, ensure};
use metal::memory::Mapping;
use metal::place::current_node;
use metal::stream::{Access, Ahead, Kernel, Op, Stores, Stream, Width};
use record::case::Case;
use record::key::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Length of a step, in ns: long beside a clock read, short beside the time between two interrupts.
const STEP_NS: f64 = 30e3;
/// Bytes of the first step from which that length is told.
const FIRST_STEP: usize = 64 << 10;
/// Attempts at a window, in a rehearsal and else.
const ATTEMPTS: [usize; 2] = [10, 3];
/// Share of their lives that threads are on their CPUs; an attempt with less is made again.
const HAD_SHARE: f64 = 0.93;
/// Share of the window asked for in which all threads should have worked.
const OVERLAP_SHARE: f64 = 0.9;
/// Least window of several threads in a rehearsal, which has to work on busy machines too.
const REHEARSAL_NS: f64 = 5e6;

/// The memory of a round's threads, by their CPUs.
pub(super) struct Arena {
    places: BTreeMap<usize, Place>,
}

/// The memory of one CPU's thread.
struct Place {
    /// What the largest case needs.
    bytes: usize,
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

impl Arena {
    /// Room for all these cases; nothing is touched yet.
    ///
    /// # Errors
    /// A case that was not resolved.
    pub(super) fn of(cases: &[Case]) -> Result<Arena> {
        let mut places: BTreeMap<usize, Place> = BTreeMap::new();
        for case in cases {
            let kernel = kernel(case)?;
            let needed = Stream::mapping_bytes(kernel, footprint(case)?);
            for cpu in cpus(case) {
                let place = places.entry(cpu).or_insert_with(|| Place {
                    bytes: 0,
                    held: Mutex::default(),
                });
                place.bytes = place.bytes.max(needed);
            }
        }
        Ok(Arena { places })
    }

    fn place(&self, cpu: usize) -> Result<&Place> {
        self.places
            .get(&cpu)
            .with_context(|| format!("no memory was planned for CPU {cpu}"))
    }
}

impl Place {
    fn held(&self) -> MutexGuard<'_, Held> {
        // A member that panicked left nothing half done: it had taken the memory out.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory, made by the calling thread at the first time.
    fn take(&self) -> Result<Placed> {
        let mut held = self.held();
        held.right = None;
        held.misplaced = None;
        match held.placed.take() {
            Some(placed) => Ok(placed),
            None => place_huge_or_base(self.bytes as u64, current_node()),
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
        let Placed {
            mapping,
            huge_share,
            node,
            notes,
        } = place.take()?;
        let stream = Stream::new(kernel, Ahead::No, mapping, footprint)?;
        Ok(Member {
            stream: Some(stream),
            place,
            huge_share,
            node,
            notes,
        })
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
        held.placed = Some(Placed {
            mapping,
            huge_share: self.huge_share,
            node: self.node,
            notes,
        });
    }
}

/// What a crew moved.
pub(super) struct Moved {
    /// Program bytes per second of all threads in the shared window.
    pub(super) rate: f64,
    /// The same in the median step of each thread, added up.
    pub(super) steady_rate: Option<f64>,
    /// Bytes on the bus for each of the program.
    pub(super) bus_ratio: f64,
    /// Core clocks summed over the cores, in Hz; none where one moved.
    pub(super) cores_hz: Option<f64>,
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
    case: &Case,
    point: &Point,
    window_ns: f64,
) -> Result<Moved> {
    let kernel = kernel(case)?;
    let footprint = footprint(case)?;
    let cpus = cpus(case);
    ensure!(!cpus.is_empty(), "{} was not given CPUs", case.id);
    let rehearsal = bench.order().rehearsal;
    let window_ns = match rehearsal && cpus.len() > 1 {
        true => window_ns.max(REHEARSAL_NS),
        false => window_ns,
    };
    let clock = bench.clock();
    let crew = bench.crew(&cpus, window_ns)?;
    let is_cached = !point.is_memory();
    let assigned = &cpus;
    let enlist = |index: usize| {
        let mut member = Member::new(arena.place(assigned[index])?, kernel, footprint)?;
        if is_cached && let Some(stream) = &mut member.stream {
            stream.pass();
        }
        let bytes = member.step_bytes(clock);
        Ok(move || Ok(member.step(bytes)))
    };
    let wanted = if rehearsal { 0.0 } else { HAD_SHARE };
    let most = ATTEMPTS[usize::from(!rehearsal)];
    let (share, shared) = attempts(most, wanted, || {
        let (begin, before_ns) = (Instant::now(), cpu_time_ns());
        let shared = crew.run(enlist)?;
        verify(arena, assigned, kernel)?;
        let had_ns = cpu_time_ns().saturating_sub(before_ns) as f64;
        let life_ns = begin.elapsed().as_nanos() as f64 * assigned.len() as f64;
        Ok((had_ns / life_ns, shared))
    })?;
    let mut moved = settle(arena, assigned, &shared, case, kernel);
    if moved.cores_hz.is_none() && rehearsal {
        let cores = case.int("cores").unwrap_or(1) as f64;
        moved.cores_hz = Some(bench.calibration().core_hz * cores);
    }
    if share < HAD_SHARE && !rehearsal {
        moved.notes.push(format!(
            "the threads had their CPUs {:.0} % of the time only: others used them",
            100.0 * share
        ));
    }
    Ok(moved)
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

fn settle(arena: &Arena, cpus: &[usize], shared: &Shared, case: &Case, kernel: Kernel) -> Moved {
    let cores = case.int("cores").unwrap_or(1) as f64;
    let has_siblings = shared.members.len() as f64 > cores;
    let clocks = shared.members.iter();
    let clocks: Option<Vec<f64>> = clocks
        .map(|member| member_hz(member, has_siblings))
        .collect();
    let mut notes = Vec::new();
    if shared.overlap < OVERLAP_SHARE {
        notes.push(format!(
            "all threads worked together in {:.0} % of the window only",
            100.0 * shared.overlap
        ));
    }
    if shared.kernel_clock {
        notes.push(
            "timed by the kernel's clock: the counters of the CPUs are too far apart".to_owned(),
        );
    }
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
    const MIB: u64 = 1 << 20;
    let steady = shared.members.iter().map(|member| member.steady_rate);
    Moved {
        rate: shared.rate(),
        steady_rate: steady.sum(),
        bus_ratio: kernel.bus_bytes(6 * MIB) as f64 / (6 * MIB) as f64,
        cores_hz: clocks.map(|all| all.iter().sum::<f64>() / all.len() as f64 * cores),
        overlap: shared.overlap,
        huge_share,
        nodes,
        notes,
    }
}

/// The instrument's kernel of a case.
///
/// # Errors
/// The case names none.
pub(super) fn kernel(case: &Case) -> Result<Kernel> {
    let point = Point::of(&case.id).with_context(|| format!("there is no kernel {}", case.id))?;
    let transfer = point.transfer;
    let op = Op::ALL
        .into_iter()
        .find(|op| format!("{op:?}").to_lowercase() == transfer.op);
    let op = op.context("there is no such operation")?;
    let stores = match transfer.stores {
        "nontemporal" => Stores::NonTemporal,
        _ => Stores::Regular,
    };
    let access = match transfer.access {
        "first" => Access::First,
        "strided" => Access::Strided,
        _ => Access::Every,
    };
    let width = match transfer.width {
        "4" => Width::Word4,
        "8" => Width::Word8,
        "sse2" => Width::Sse2,
        "avx2" => Width::Avx2,
        "avx512" => Width::Avx512,
        "neon" => Width::Neon,
        _ => return Ok(Kernel::widest(op, stores)),
    };
    Ok(Kernel {
        op,
        stores,
        access,
        width,
    })
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
    use super::{Arena, kernel, verify};
    use crate::experiments::memory::bandwidth::cases::contradiction;
    use crate::experiments::tests::recorded;
    use crate::measure::WrongResult;
    use crate::predict::memory::bandwidth::{ACCESSES, OPS, STORES, Transfer, WIDTHS};
    use metal::stream::Kernel;
    use record::case::Case;
    use record::key::Value;
    use std::os::unix::fs::FileExt;

    fn resolved(transfer: Transfer, cpu: usize) -> Case {
        let mut case = Case::new(transfer.case("DRAM", &Value::from(1)));
        case.at
            .insert("cpus".to_owned(), Value::from(cpu.to_string()));
        case.at.insert("footprint".to_owned(), Value::Int(1 << 16));
        case
    }

    #[test]
    fn every_symbol_is_a_kernel_and_what_exists_is_what_the_instrument_has() {
        let site = recorded("vm-granite-rapids");
        for op in OPS {
            for stores in STORES {
                for access in ACCESSES {
                    for width in &WIDTHS[1..] {
                        let transfer = Transfer {
                            op,
                            stores,
                            access,
                            width,
                        };
                        let kernel = kernel(&resolved(transfer, 0)).expect("it has a kernel");
                        let exists = contradiction(&site, transfer).is_none();
                        // The processor at hand may lack what the recorded one has, never the
                        // other way round for what no x86-64 lacks.
                        if !exists || matches!(*width, "4" | "8" | "sse2") {
                            let is_here = cfg!(target_arch = "x86_64");
                            assert_eq!(
                                kernel.is_supported() && is_here,
                                exists && is_here,
                                "{kernel:?}"
                            );
                        }
                    }
                }
            }
        }
        let widest = kernel(&resolved(Transfer::widest("copy", "nontemporal"), 0));
        let widest: Kernel = widest.expect("a kernel");
        assert!(widest.is_supported());
    }

    #[test]
    fn the_bus_ratios_of_law_and_instrument_agree() {
        let site = recorded("vm-granite-rapids");
        for op in OPS {
            for stores in STORES {
                let transfer = Transfer::widest(op, stores);
                if contradiction(&site, transfer).is_none() {
                    let kernel = kernel(&resolved(transfer, 0)).expect("a kernel");
                    let ratio = kernel.bus_bytes(600) as f64 / 600.0;
                    assert!(
                        (ratio - transfer.bus_ratio()).abs() < 1e-12,
                        "{op} {stores}"
                    );
                }
            }
        }
    }

    #[test]
    fn memory_that_holds_other_values_is_a_wrong_result() {
        let cpu = metal::place::allowed().expect("CPUs")[0];
        let case = resolved(Transfer::widest("copy", "regular"), cpu);
        let of = kernel(&case).expect("a kernel");
        let arena = Arena::of(std::slice::from_ref(&case)).expect("it is resolved");
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
