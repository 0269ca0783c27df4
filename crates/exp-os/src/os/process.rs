//! What does it cost to create a process?
//!
//! ## Question
//!
//! How long does it take until the call that creates a process returns, until the child runs, and
//! until its exit is reaped? How do these grow with the parent's memory?
//!
//! ## Method
//!
//! Each creation is an event of three figures, all from the moment just before the call: `return`,
//! when the call is back in the parent; `first_instruction`, when the child reads the counter as
//! its first action and stores the reading in shared memory; `reaped`, when the parent's wait for
//! the child's end returns. Parent and child run on one CPU and so read one counter. The child
//! exits with status 42; any other ending fails the case.
//!
//! `in_sequence` is the window's whole time divided by its processes: a mean, which includes work
//! that the median of `reaped` omits, such as ticks and the freeing of stacks, tasks and page
//! tables. The kernel defers that freeing (RCU) and then does it in bursts. So processes are
//! created for 10 ticks before the window, which lasts 12 or more (40 and 48 ms at 250 Hz and
//! above). The samples record the time per process before the window as `lead_in_ns`.
//!
//! On one CPU the child runs when the parent waits, so `first_instruction` includes the parent's
//! entry into the wait and one switch. If the scheduler lets the child run first, `return` includes
//! the child's run: the samples record the share of such events as `child_first`. After `vfork` the
//! parent blocks until the child exits, after `posix_spawn` until the program's memory is set up.
//!
//! The parent is the worker, with `resident` bytes of private memory beside its own few MiB: every
//! page is written once, after which the kernel's own account must show no huge page (for `base`)
//! or nothing else (for `huge`). It is not written again, so a window contains only copy-on-write
//! faults of pages that the calls themselves write. The first fork after the pages were written
//! also write-protects each of them and is more expensive; the samples record it as
//! `first_fork_ns`, and no figure includes it.
//!
//! plumb generates the executed programs at run time: a static one of one page whose three
//! instructions exit, and a dynamic one that exits as soon as its interpreter has mapped the C
//! library. They are in a memory file (memfd); if that cannot be executed, in `--dir` or the
//! directory for temporary files. The environment is empty. The samples record which file was used.
//!
//! `return_per_page` and `reaped_per_page` are slopes over `resident`: least squares in which each
//! point counts by its relative error. `process_to_thread` is the reaped fork at the smallest
//! resident size over the cheapest thread that os.thread created and joined through the C library
//! on one CPU.
//!
//! ## Prediction
//!
//! A fixed part (task, address space with its few dozen areas, descriptors, exit and two switches)
//! and one per page of the parent, whose table entry a fork writes and the exit drops; vfork and
//! posix_spawn copy no tables. The figures of os.syscall, memory.fault and os.thread correct the sum,
//! and their scatter is what is left open.
//!
//! ## Reading the result
//!
//! `in_sequence` of fork at 1 MiB is what stress-ng, lmbench's `lat_proc fork` and UnixBench's
//! `spawn` count as one operation; `fork_calls` with as many `areas` as stress-ng's parent has
//! (some 170), and as much `written` (125 KiB before each process), is exactly its operation.
//! `first_instruction` less `return` is the first run of a new child. `clone3` less `fork` is the C
//! library. `return_per_page` times the resident pages is the cost of each fork for a large server,
//! which vfork and posix_spawn save. `fork_exec_dynamic` less `fork_exec_static` is the dynamic
//! linker and the C library's mapping.
//!
//! ## Pitfalls
//!
//! A fork without the child's exit shows half of its cost; the other half delays the next program
//! on the CPU. Cgroups, security modules, audit and autogroups add to each creation. A parent that
//! writes between its forks pays `first_fork_ns` each time and then a fault per page. With
//! RLIMIT_NPROC (`ulimit -u`) or a control group's pids.max reached, the case fails and says so.
//!
//! ## Sources
//!
//! [R0], [R1] and [R2]: "process creation"; [lmbench] `lat_proc`; [stress-ng] 0.15 `stress-fork.c`;
//! [fork-road]; [man] fork(2), vfork(2), clone(2), posix_spawn(3), execve(2), memfd_create(2);
//! [linux] kernel/fork.c, mm/memory.c (copy_page_range).

mod apparatus;
mod derive;
mod reports;

use apparatus::Parent;
use bench::prelude::*;
use laws::os::learnt;
use laws::os::process::{self as law, Call};

bench::experiment!(Process);

const MIB: u64 = 1 << 20;
/// First kernel with clone3(2).
const CLONE3_SINCE: (u64, u64) = (5, 3);
const LEAST_EVENTS: usize = 10;
/// Ticks for which processes are made before those that are timed, and for which those are made at
/// least: what processes leave is freed in full some nine ticks later, in bursts six ticks apart
/// (docs/notes/2026-11-23-calls.md). Kernels with a faster tick wait for more of them: none counts
/// as shorter than `TICK_NS`, which also stands where the kernel does not say.
const WINDOWS: [(&str, u64); 2] = [("lead_in", 10), ("window", 12)];
const TICK_NS: u64 = 4_000_000;
/// For stated costs: a creation by itself, and what a page of the parent adds to it, in ns.
const CREATION_NS: u64 = 1_000_000;
const PAGE_NS: u64 = 120;
/// Start and end of a worker, and the first touch of its memory per byte, in ns.
const WORKER_NS: u64 = 40_000_000;
const TOUCH_NS_PER_KIB: u64 = 400;

symbols! {
    /// Pages of the parent's memory.
    pub enum Kept { Base = "base", Huge = "huge" }
}
case! {
    /// A process made by a parent with so much memory.
    pub struct Creation {
        /// what makes the process: `fork` of the C library; `clone3`, the bare call; `vfork`, a clone
        /// that shares the memory and holds the parent; `fork_calls`, a fork whose child makes the
        /// ten calls of a child of `stress-ng --fork`; a program executed after a fork or by
        /// posix_spawn; `sh`: posix_spawn of `/bin/sh -c 'exit 42'`, as system(3) does
        call: Call,
        /// memory of the parent that is in use
        resident: u64 = Domain::bytes(64 << 10, 1 << 40),
        /// pages of that memory
        pages: Kept,
    }
}

static CARD: Card = Card {
    id: "os.process",
    title: "Making a process",
    metrics: metrics! {
        "return" => Ns Lower Os: "from the call that creates a process to its return in the parent";
        "first_instruction" => Ns Lower Os: "from the call to the child's first instruction";
        "reaped" => Ns Lower Os: "from the call until the child has exited and is waited for";
        "in_sequence" => Ns Lower Os:
            "one process created and reaped, from a sequence timed as a whole";
        "return_per_page" => derived Ns Lower Os:
            "time that a page of the parent's resident memory adds to the return";
        "reaped_per_page" => derived Ns Lower Os:
            "time that a page of the parent's resident memory adds until the child is reaped";
        "process_to_thread" => derived Ratio None Os:
            "a fork with its reaping, over creating and joining a thread";
    },
    params: params![Creation::PARAMS, reports::SETTINGS,],
    after: &["os.syscall", "memory.fault", "os.thread"],
    views: &[ViewCard::line("resident", "reaped").beside(&["return"]).log()],
    keys: &[
        KeyFigure::new("process,", "fork", "reaped", "call=fork,resident=1048576,pages=base"),
        KeyFigure::new(
            "process,",
            "exec",
            "reaped",
            "call=fork_exec_static,resident=1048576,pages=base",
        ),
    ],
    ..Card::PLAIN
};

impl Experiment for Process {
    type Case = Creation;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("process.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards =
        |_| Hazards { memory: Claim::OfRound, ..Hazards::NONE };
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let bytes = series.setting("bytes").unwrap_or(MIB);
        let creation_ns = CREATION_NS + law::resident_pages(site, bytes, false) * PAGE_NS;
        let least = LEAST_EVENTS as u64 + 2;
        let setting_ns = |name| series.setting(name).unwrap_or(0);
        let whole_ns = setting_ns("lead_in") + site.case_ns.max(setting_ns("window"));
        let case_ns = (whole_ns + 3_000_000).max(least * creation_ns);
        let touch_ns = bytes / 1024 * TOUCH_NS_PER_KIB;
        Duration::from_nanos(WORKER_NS + touch_ns + series.cases.len() as u64 * case_ns)
    };

    fn cases(_: &Site, preset: Preset) -> Vec<Creation> {
        let kinds: &[Kept] = match preset {
            Preset::Thorough => Kept::ALL,
            _ => &[Kept::Base],
        };
        let mut cases = Vec::new();
        for &pages in kinds {
            for &call in Call::ALL {
                let sizes = sizes(preset, call, pages).iter();
                cases.extend(sizes.map(|mib| Creation { call, resident: mib * MIB, pages }));
            }
        }
        cases
    }

    fn absent(site: &Site, case: &Creation, _: &Params) -> Option<Skip> {
        if case.resident > site.memory_bytes {
            return Some(
                Skip::because(format!(
                    "{} MiB may be touched here, the parent needs {}",
                    site.memory_bytes / MIB,
                    case.resident / MIB
                ))
                .needs("a machine or a control group with more memory"),
            );
        }
        let dynamic = matches!(case.call, Call::ForkExecDynamic | Call::PosixSpawnDynamic);
        if cfg!(target_feature = "crt-static") && dynamic {
            return Some(
                Skip::because("this plumb is statically linked and has no dynamic linker")
                    .needs("a dynamically linked plumb"),
            );
        }
        let numbers = site.host.kernel.numbers();
        match case {
            Creation { pages: Kept::Huge, .. } => no_huge_pages(site, case.resident),
            Creation { call: Call::Clone3, .. } if numbers.is_some_and(|is| is < CLONE3_SINCE) => {
                Some(Skip::because("this kernel has no clone3").needs("Linux 5.3"))
            }
            _ => None,
        }
    }

    /// A parent is one apparatus: a series per size and kind of pages.
    fn series(site: &Site, cases: Vec<Creation>, params: &Params) -> Result<Offer, Skip> {
        let windows = windows(site, params);
        let changed = params.settings(&CARD);
        Ok(Offer::sorted::<Self>(site, cases, params, |creation, case| {
            let (bytes, kind) = (creation.resident, creation.pages.text());
            let own = [("bytes", bytes.into()), ("kind", kind.into())];
            let own = own.into_iter().chain(windows.map(|(name, ns)| (name, ns.into())));
            let own = own.map(|(name, value)| (name.to_owned(), value));
            // What the parent was given or did beside.
            case.at.extend(changed.clone().into_iter().filter(|(_, value)| *value != 0.into()));
            (format!("{}KiB-{kind}", bytes / 1024), own.chain(changed.clone()).collect())
        }))
    }

    fn law(facts: Facts, case: &Creation, at: &Case, metric: &Metric) -> Option<Prediction> {
        if facts.known.is_some() && !learnt::is_known(facts) {
            // Without measured system calls, earlier figures add nothing.
            return None;
        }
        if reports::are_given(at) {
            return Some(unknown("unknown: no law covers the parent's areas or writes"));
        }
        let huge = case.pages == Kept::Huge;
        let moment = law::time(facts, case.call, case.resident, huge, &metric.name);
        let nobody = "unknown: the child is another program, which does not read the counter";
        Some(moment.map_or_else(|| unknown(nobody), |moment| moment.prediction()))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut parent = Parent::new(series, bench)?;
        bench.each_of::<Creation>(series, |bench, case, creation| {
            parent.measure(case, creation.call, bench)
        });
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        derive::derivable(series)
    }

    fn derived_law(facts: Facts, case: &CaseId, metric: &Metric) -> Option<Prediction> {
        if facts.known.is_some() && !learnt::is_known(facts) {
            return None;
        }
        if metric.name == "process_to_thread" {
            let ratio = law::process_to_thread(facts, case.int("resident")?)?;
            // The prior is a ratio as such; after the threads it is one fork over a measured time.
            let fork = facts.known.map_or(1.0, |_| facts.coefficient(CARD.id, case, "reaped"));
            return Some(ratio.times(fork).prediction());
        }
        let slope: derive::Slope =
            Fields::from_id(case).filter(|_| case.int("resident").is_none())?;
        let (returned, reaped) = law::per_page(facts, slope.call, slope.pages == Kept::Huge);
        let of = if metric.name == "return_per_page" { returned } else { reaped };
        Some(of.prediction())
    }

    fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        derive::derive(site, known, values)
    }
}

fn sizes(preset: Preset, call: Call, pages: Kept) -> &'static [u64] {
    match (preset, call) {
        // Huge pages beside base ones are there to be compared, which fork alone serves.
        (_, Call::Fork) if pages == Kept::Huge => &[16, 64, 256, 1024],
        _ if pages == Kept::Huge => &[],
        (Preset::Thorough, _) => &[1, 16, 64, 256, 1024],
        (Preset::Standard, Call::Fork) => &[1, 16, 64, 256],
        (Preset::Standard, Call::Clone3 | Call::ForkExecStatic) => &[1, 64],
        (Preset::Standard, Call::Vfork | Call::PosixSpawnStatic) => &[1, 256],
        (Preset::Standard, _) => &[1],
        (Preset::Quick, Call::Fork) => &[1, 64],
        (Preset::Rehearsal, Call::Fork) => &[1, 4],
        (_, Call::Vfork | Call::ForkExecStatic | Call::PosixSpawnStatic) => &[1],
        _ => &[],
    }
}

/// How long processes are made before those that are timed, and at least while they are, in ns.
fn windows(site: &Site, params: &Params) -> [(&'static str, u64); 2] {
    let steady_ns = reports::steady_ns(params);
    let hz = site.host.kernel.hz.filter(|hz| *hz > 0);
    let tick_ns = hz.map_or(0, |hz| 1_000_000_000 / u64::from(hz)).max(TICK_NS);
    WINDOWS.map(|(name, ticks)| (name, steady_ns.max(ticks * tick_ns)))
}

fn no_huge_pages(site: &Site, bytes: u64) -> Option<Skip> {
    let thp = &site.host.memory.thp;
    let (reason, way) = match (thp.enabled.as_deref(), thp.page_bytes) {
        (Some("never"), _) => (
            "transparent huge pages are switched off".to_owned(),
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        ),
        (None, _) => (
            "the kernel shows no transparent huge pages".to_owned(),
            "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        ),
        (_, Some(page)) if !bytes.is_multiple_of(page) => (
            format!("{} KiB are not a multiple of a huge page's {}", bytes / 1024, page / 1024),
            "a size in whole huge pages",
        ),
        _ => return None,
    };
    Some(Skip::because(reason).needs(way))
}

#[cfg(test)]
mod tests;
