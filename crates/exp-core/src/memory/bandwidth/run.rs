//! A team of threads that run one kernel, each over memory of its own.

use crate::cpu::peak::load::{cpus_of, is_probed};
use crate::cpu::peak::width::{Chains, clock_at_width};
use crate::memory::arrays::{Arena, MemoryOf, step_bytes};
use crate::memory::locked;
use bench::measure::{BestWindow, best_window};
use bench::prelude::*;
use host::format_cpus;
use laws::cpu::peak::CORES_HZ;
use laws::memory::Level;
use laws::memory::transfer::{Transfer, Width};
use metal::stream::{Ahead, Kernel, Loop, Stream};
use std::cell::RefCell;
use std::rc::Rc;

/// Length of a step, in ns: long beside a clock read and the fence that ends it, short beside the
/// time between two interrupts.
const STEP_NS: f64 = 100e3;
const LINE_BYTES: u64 = 64;

/// What a team did.
pub(super) struct Moved {
    window: BestWindow,
    transfer: Transfer,
    by: Loop,
    memory: MemoryOf,
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
    let footprint = usize::try_from(case.int("footprint").context("the case was not resolved")?)?;
    let cpus = cpus_of(case);
    if arena.make_room(&cpus, Stream::mapping_bytes(kernel, footprint)) {
        let total = |case: &Case| case.int("footprint_total");
        let as_large = series.cases.iter().filter(|one| total(one) >= total(case));
        bench.declare(Declared::Memory(&as_large.collect::<Vec<_>>()));
    }
    let rehearsal = bench.order().rehearsal;
    let clock = bench.order().clock();
    let team = bench.team(&cpus, window_ns)?.watched(is_probed(case));
    let ways = loops(&of, kernel);
    let is_cache = !of.level.is_memory();
    // The arithmetic whose chain measures the core clock under the case's instructions.
    let bytes = case.int("instruction_bytes").filter(|_| is_cache);
    let wide = bytes.and_then(|bytes| of.at_width(bytes));
    let window = best_window(rehearsal, false, || {
        let members = arena.lay_out(&cpus, kernel, footprint)?;
        let shared = team.run_ways(ways.len(), |index: usize| {
            let mut arrays = locked(&members[index]);
            if is_cache {
                arrays.stream.pass();
            }
            let bytes = step_bytes(&mut arrays.stream, clock, STEP_NS);
            let arrays = Rc::new(RefCell::new(arrays));
            let worker = Rc::clone(&arrays);
            let ways = &ways;
            let step = move |way: usize| {
                let by: Loop = ways[way];
                let mut worker = worker.borrow_mut();
                worker.stream.set_loop(by);
                Ok(worker.stream.step(bytes))
            };
            let chains = wide.and_then(|wide| Chains::at_width(wide, case.int("chain_cycles")));
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
    let (by, memory) = (ways[window.shared.way], arena.memory_of(&cpus));
    Ok(Moved { window, transfer: of, by, memory })
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

impl Moved {
    /// Program bytes per second of all threads in the shared window.
    pub(super) fn rate(&self) -> f64 {
        self.window.shared.rate()
    }

    /// Core clocks summed over the cores, in Hz; none where one moved.
    fn cores_hz(&self, bench: &Bench, case: &Case) -> Option<f64> {
        let order = bench.order();
        let cores = case.int("cores").unwrap_or(1) as f64;
        let members = &self.window.shared.members;
        let count = members.len() as f64;
        let of_all = members.iter().map(|one| one.core_hz(count > cores, order.level_alone()));
        let sum: Option<f64> = of_all.sum();
        let rehearsed = order.rehearsal.then_some(order.calibration.core_hz * cores);
        sum.map(|sum| sum / count * cores).or(rehearsed)
    }

    /// Writes down what the team moved, and the quantities that its bound rests on.
    pub(super) fn write(self, bench: &mut Bench, case: &Case) -> Result<()> {
        let rate = self.rate();
        let cores_hz = self.cores_hz(bench, case);
        let per_cycle = || case.at.get("bytes_per_cycle")?.text()?.parse::<f64>().ok();
        let allowed = match case.int("peak") {
            Some(peak) => Some(peak as f64 / self.transfer.bus_ratio()),
            None => per_cycle().zip(cores_hz).map(|(bytes, hz)| bytes * hz),
        };
        // Between readings of the width probe, where those of the threads may be added up.
        let stretches =
            self.window.steady_rate().map_or(Vec::new(), |_| self.window.shared.stretches());
        let over = |unit: f64| {
            let stretches: Vec<_> = stretches.iter().map(|one| one.over(unit)).collect();
            Values::stretches(&stretches, rate / unit)
        };
        if let Some(allowed) = allowed {
            bench.record(case, "efficiency", over(allowed))?;
        }
        if let Some(ratio) = self.transfer.own_bus_ratio() {
            bench.record(case, "bus_bandwidth", over(ratio.recip()))?;
        }
        let samples = bench.record(case, "bandwidth", Values::stretches(&stretches, rate))?;
        let words = self.transfer.kernel().word_bytes(LINE_BYTES) as f64 / LINE_BYTES as f64;
        let overlap = self.window.shared.overlap;
        samples.set_quantities([
            (CORES_HZ, cores_hz),
            ("window_rate", Some(rate)),
            ("overlap", Some(overlap)),
            ("word_rate", (words < 1.0).then_some(rate * words)),
        ]);
        samples.at.put("overlap", render(overlap, Unit::Ratio));
        samples.at.put("huge_share", render(self.memory.huge_share, Unit::Ratio));
        samples.at.put("nodes", format_cpus(&self.memory.nodes));
        samples.at.put("prefetch", if self.by.ahead == Ahead::Yes { "yes" } else { "no" });
        samples.at.put("loop", format!("{:?}", self.by.width).to_lowercase());
        if case.at.contains_key("cut") {
            let times = case.at.get("times_last_cache").map(Value::to_string);
            samples.notes.push(format!(
                "the arrays are cut to {} times the last cache, which may hold part of them (see \
                 `limit`)",
                times.unwrap_or_default()
            ));
        }
        samples.notes.extend(self.window.shared.notes());
        samples.notes.extend(self.window.note());
        samples.notes.extend(self.memory.notes);
        Ok(())
    }
}
