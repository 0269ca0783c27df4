//! Laws of making processes: a share for the process itself, and a share for each page of the
//! parent's memory whose table entry a fork copies and an exit drops.
//!
//! Work is counted in core cycles of Linux 5.x and 6.x. The middles come from one virtual machine
//! (nested page tables, a small dynamically linked parent of a few dozen areas), the widths are
//! meant to cover bare machines and older kernels; PREDICTIONS of the reports gave 40 to 150 µs and
//! a page-table copy for a fork, with a factor of two either way.

use super::Work as Kernel;
use super::learnt::corrected_by_threads;
use super::work::nested;
use crate::cpu::{clocked, is_guest};
use crate::{Facts, Law, range, scaled, sum};
use bench::experiment::{Known, Site};
use bench::symbols;
use record::event::{Condition, Range};

symbols! {
    /// A call that makes a process.
    pub enum Call {
        Fork = "fork",
        Clone3 = "clone3",
        Vfork = "vfork",
        ForkCalls = "fork_calls",
        ForkExecStatic = "fork_exec_static",
        ForkExecDynamic = "fork_exec_dynamic",
        PosixSpawnStatic = "posix_spawn_static",
        PosixSpawnDynamic = "posix_spawn_dynamic",
        Sh = "sh",
    }
}

/// What one creation should take, in ns from the call on.
#[derive(Clone, Debug, PartialEq)]
pub struct Creation {
    /// Until the call returns.
    pub returned: Law,
    /// Until the child's first instruction; `None` if the child cannot report it.
    pub first: Option<Law>,
    /// Until the child has been waited for.
    pub reaped: Law,
}

impl Creation {
    /// One of a sequence, in ns: the mean has the work that the kernel puts off beyond the reaping.
    pub fn in_sequence(&self) -> Law {
        let Range { low, likely, high } = self.reaped.range;
        let mean = self.reaped.clone().with_range(range(low, 1.1 * likely, 1.3 * high));
        mean.and("up to 30 % for deferred freeing")
    }
}

/// Cycles until the return, from there to the first instruction, and until the reaping.
struct Work {
    returned: Range,
    first: Option<Range>,
    reaped: Range,
    /// Whether the parent's page tables are copied.
    copies: bool,
    what: &'static str,
}

/// A fork by itself: task, descriptors, address space, the program's own pages.
const FORK: Range = range(50e3, 105e3, 220e3);
const FORK_REAPED: Range = range(120e3, 255e3, 520e3);
/// From the return into the wait, the switch to the child, and the pages of its stack and of the C
/// library's that it writes before its first act, each a fault.
const TO_CHILD: Range = range(20e3, 60e3, 130e3);
/// The same of a child that no C library has made: it writes to fewer pages.
const TO_BARE_CHILD: Range = range(10e3, 32e3, 90e3);
/// What a program adds to a fork: the old memory dropped, a file mapped; for a dynamic one also the
/// interpreter and the libraries, mapped, faulted in and relocated.
const EXEC_STATIC: Range = range(50e3, 110e3, 240e3);
const EXEC_DYNAMIC: Range = range(600e3, 1500e3, 3600e3);

fn work(call: Call) -> Work {
    let forked =
        |reaped, what| Work { returned: FORK, first: Some(TO_CHILD), reaped, copies: true, what };
    let spawned = |reaped, what| Work {
        returned: range(60e3, 130e3, 280e3),
        first: None,
        reaped,
        copies: false,
        what,
    };
    match call {
        Call::Fork => forked(
            FORK_REAPED,
            "a task and an address space created and freed, two context switches",
        ),
        Call::Clone3 => Work {
            first: Some(TO_BARE_CHILD),
            ..forked(
                FORK_REAPED,
                "a task and an address space created and freed, two context switches, no C library",
            )
        },
        Call::ForkCalls => {
            forked(sum(FORK_REAPED, range(3e3, 60e3, 400e3)), "a fork, ten calls and a new session")
        }
        Call::ForkExecStatic => {
            forked(sum(FORK_REAPED, EXEC_STATIC), "a fork and the exec of a one-page program")
        }
        Call::ForkExecDynamic => forked(
            sum(FORK_REAPED, EXEC_DYNAMIC),
            "a fork and the exec of a program with its interpreter and C library, mapped and \
             relocated",
        ),
        Call::Vfork => Work {
            returned: range(12e3, 26e3, 60e3),
            first: Some(range(-25e3, -7e3, -1e3)),
            reaped: range(18e3, 38e3, 85e3),
            copies: false,
            what: "a task on the parent's memory; the parent stops until the task exits",
        },
        Call::PosixSpawnStatic => spawned(
            range(105e3, 220e3, 450e3),
            "a task on the parent's memory and the exec of a one-page program",
        ),
        Call::PosixSpawnDynamic => spawned(
            range(600e3, 1450e3, 3600e3),
            "a task on the parent's memory and the exec of a program with its interpreter and C \
             library, mapped and relocated",
        ),
        Call::Sh => spawned(
            range(700e3, 1600e3, 5000e3),
            "a task on the parent's memory, the exec of the shell, its libraries relocated and one \
             line parsed",
        ),
    }
}

/// Cycles per page of the parent until the return, and until the child is reaped: a table entry
/// read, the page's own record found (a cache line per page), a reference and a mapping counted, an
/// entry written; then all of it undone. A huge page has a table of its own put by for its
/// splitting.
fn page_cycles(huge: bool) -> (Range, Range) {
    match huge {
        false => (range(35.0, 90.0, 180.0), range(90.0, 210.0, 430.0)),
        true => (range(150.0, 1500.0, 7000.0), range(300.0, 2800.0, 14e3)),
    }
}

/// Pages that so much memory has on this machine.
pub fn resident_pages(site: &Site, bytes: u64, huge: bool) -> u64 {
    let memory = &site.host.memory;
    let page = match huge {
        false => memory.page_bytes.unwrap_or(4096),
        true => memory.thp.page_bytes.unwrap_or(2 << 20),
    };
    bytes.div_ceil(page.max(1))
}

/// A creation by `call` in a parent with `bytes` of resident memory.
pub fn creation(facts: Facts, call: Call, bytes: u64, huge: bool) -> Creation {
    let work = work(call);
    let pages = resident_pages(facts.site, bytes, huge) as f64;
    let here = |cycles: Range| Kernel::on_pages(cycles).cycles(facts.site);
    let cycles_of = |own: Range, page: Range| {
        let (own, page) = (here(own), here(page));
        let own = Law::software(own, work.what);
        if !work.copies {
            return own.and("the parent's page tables are not copied");
        }
        let of_pages = format!("{pages:.0} pages at {:.0} to {:.0} cycles", page.low, page.high);
        own + Law::software(scaled(page, pages), of_pages)
    };
    let (copied, dropped) = page_cycles(huge);
    let returned = cycles_of(work.returned, copied);
    let first = work.first.map(|first| {
        let moment = before_or_after(returned.range, here(first));
        in_memory_management(facts, returned.clone().with_range(moment))
    });
    Creation {
        first,
        returned: in_memory_management(facts, returned),
        reaped: in_memory_management(facts, cycles_of(work.reaped, dropped)),
    }
}

/// The child's first instruction by the return: a positive distance lies after it, a negative one
/// before it (the parent of a vfork stands until the child has ended).
fn before_or_after(returned: Range, distance: Range) -> Range {
    if distance.likely > 0.0 {
        return sum(returned, distance);
    }
    // A share of the return, not a difference of two wide intervals.
    range(0.55 * returned.low, returned.likely + distance.likely, returned.high)
}

/// What a page of the parent adds until the return and until the child is reaped, in ns.
pub fn per_page(facts: Facts, call: Call, huge: bool) -> (Law, Law) {
    let (copied, dropped) = page_cycles(huge);
    let of = |cycles: Range| {
        if work(call).copies {
            let cycles = Kernel::on_pages(cycles).cycles(facts.site);
            let what = format!(
                "one page-table entry copied and one page counted, {:.0} to {:.0} cycles",
                cycles.low, cycles.high
            );
            return in_memory_management(facts, Law::software(cycles, what));
        }
        // A slope of noise over some thousand pages.
        let noise = if huge { 60.0 } else { 0.6 };
        Law::software(range(-noise, 0.0, noise), "the parent's page tables are not copied")
    };
    (of(copied), of(dropped))
}

/// A reaped fork over a thread made and joined: from the measured thread where there is one.
pub fn process_to_thread(facts: Facts, bytes: u64) -> Option<Law> {
    let Some(known) = facts.known else {
        return Some(Law::software(
            range(4.0, 9.0, 20.0),
            "a process needs an address space and page tables in addition to a task and a stack",
        ));
    };
    let thread = thread_ns(known)?;
    let fork = creation(facts, Call::Fork, bytes, false).reaped.times(1.0 / thread);
    Some(
        fork.and(format!(
            "creating and joining a thread took {thread:.0} ns (measured by os.thread)"
        )),
    )
}

/// The cheapest thread of os.thread through the C library on one CPU, in ns.
pub fn thread_ns(known: &Known) -> Option<f64> {
    known
        .figures("os.thread", "create_join")
        .filter(|(case, ns)| {
            let alone = case.int("alive").is_none() && case.int("count").is_none();
            let near = case.text("pair").is_none_or(|pair| pair == "same");
            alone && near && case.text("stack") != Some("bare") && *ns > 0.0
        })
        .map(|(_, ns)| ns)
        .min_by(f64::total_cmp)
}

/// Cycles of the kernel's memory management as ns. Before anything is measured, entry and clock are
/// all there is to go by.
fn in_memory_management(facts: Facts, cycles: Law) -> Law {
    let time = clocked(facts, cycles).unsourced().times(nested(facts.site));
    let usual = match is_guest(facts.site) {
        true => time
            .widened(1.0, 1.5, "a virtual machine walks two sets of page tables")
            .counting(Condition::NestedPaging),
        false => time.widened(1.25, 1.0, ""),
    };
    corrected_by_threads(facts, usual)
}
