//! What does it cost to make a process?
//!
//! ## Question
//!
//! How long until the call that makes a process returns, until the child runs, until its exit is
//! reaped; and how do these grow with the memory that the parent has in use?
//!
//! ## Method
//!
//! Each creation is an event of three figures, all from the moment just before the call: `return`,
//! when the call is back in the parent; `first_instruction`, when the child reads the counter as
//! its first act and leaves the reading in memory that both share; `reaped`, when the parent's wait
//! for the child's end returns. Parent and child run on one CPU and so read one counter. The child
//! then exits with status 42, and any other ending (127 where an exec failed) fails the case.
//!
//! `in_sequence` is the window's whole time over its processes: a mean, which has what the median of
//! `reaped` leaves out, such as ticks and the freeing of stacks, tasks and page tables. The kernel puts
//! that off until its readers have left (grace periods of RCU, a few ticks each) and then does it in
//! bursts. So processes are made for 10 ticks before the window, which lasts 12 or more (40 and 48 ms at
//! 250 Hz and above): as much is freed in it as processes are made. What one took before the window stands
//! with the samples as `lead_in_ns`. The setting `steady` makes both longer.
//!
//! On one CPU the child runs when the parent waits, so `first_instruction` has the parent's way
//! into the wait and one switch in it. Where the scheduler let the child run first, `return` has
//! the child's run in it: the share of such events stands with the samples as `child_first`. After
//! `vfork` the parent stands until the child exits, and after `posix_spawn` until the program's
//! memory stands: there `return` includes that by nature.
//!
//! The parent is the worker, with `resident` bytes of private memory beside its own few MiB: every
//! page is written once, after which the kernel's own account must show no huge page (for `base`)
//! or nothing else (for `huge`). Nobody writes to it again: what a parent pays afterwards for
//! copies on write is outside every window, except for the pages that the calls themselves write
//! (a few of the stack and of the C library's, which fork has in its figures in any program).
//! The first fork after the pages were written also protects each against writing and is dearer; it
//! stands with the samples as `first_fork_ns`, and all figures are of those after it.
//!
//! The programs that are executed are made at run time: a static one of one page whose three
//! instructions exit, and a dynamic one that exits as soon as its interpreter has mapped the C
//! library. They lie in a file in memory (memfd); where that may not be executed, in `--dir`,
//! else among the temporary files. The environment is empty. The samples say which file served.
//!
//! Children do not ask to die with their parent, which would be a call more in the window; each
//! exits by itself after its few instructions. They stay in the worker's process group, which the
//! session kills (but for `fork_calls`, whose children leave it, as stress-ng's do, and exit next).
//!
//! `return_per_page` and `reaped_per_page` are slopes over `resident`: least squares in which each
//! point counts by its relative error, so that a gibibyte does not drown the smaller sizes.
//! `process_to_thread` is the reaped fork at the least resident size over the cheapest thread that
//! os.thread made and joined through the C library on one CPU.
//!
//! ## Prediction
//!
//! A process costs a share of its own (task, address space with its few dozen areas, descriptors,
//! exit and two switches) and a share per page of the parent, for each of which fork writes a table
//! entry and counts a reference, and the exit undoes it. vfork and posix_spawn copy no tables. The
//! derived prediction scales the kernel's work by what os.syscall measured for mapping and
//! unmapping a page, which is work of the same kind.
//!
//! ## Parameters
//!
//! - `call`: `fork` of the C library; `clone3`, the bare call with a signal as its only argument;
//!   `vfork` (a clone that shares the memory and holds the parent, as vfork is made); `fork_calls`,
//!   a fork whose child makes the ten calls that a child of `stress-ng --fork` makes;
//!   `fork_exec_static`, `fork_exec_dynamic`, `posix_spawn_static`, `posix_spawn_dynamic` (which
//!   cannot be without a program); `sh`: posix_spawn of `/bin/sh -c 'exit 42'`, as system(3) does.
//! - `resident`: memory of the parent in use; auto takes 1 MiB, and more sizes for the calls that
//!   copy tables, up to 1 GiB for every call in thorough.
//! - `pages`: `base`, or `huge` (transparent huge pages), which auto takes for `fork` alone.
//!
//! - `areas`: areas of memory that the parent has at least, each of which a fork copies; how many
//!   it had stands with the samples.
//! - `steady`: time for which processes are made at least before those that are timed, and for which
//!   those are made at least. For a tool that makes processes for seconds.
//! - `written`: bytes that the parent writes before each process. After a fork each of their pages is
//!   a fault, since the child shared it. Only `in_sequence` contains the writing itself.
//!
//! ## Reading the result
//!
//! `in_sequence` of fork at 1 MiB is what stress-ng, lmbench's `lat_proc fork` and UnixBench's
//! `spawn` count as one operation; `fork_calls` with as many `areas` as stress-ng's parent has (some 170,
//! because it links dozens of libraries), and as much `written` (it clears 125 KiB before each process),
//! is its very operation. `first_instruction` less `return`
//! is the first run of a new child, which R2 took for a switch between processes. `clone3` less `fork` is the C library. `return_per_page` times the
//! resident pages is what a large server pays for each fork, and what vfork and posix_spawn save:
//! theirs must not grow with `resident`. `fork_exec_dynamic` less `fork_exec_static` is the dynamic
//! linker and the C library's mapping.
//!
//! ## Pitfalls
//!
//! A fork without the child's end is half its cost, which falls on whoever runs next. Cgroups,
//! security modules, audit and autogroups add to each creation. The child's store into the shared
//! page faults it in, less than a microsecond of `reaped`. A parent that writes between its forks
//! pays `first_fork_ns` each time and then a fault per page. With RLIMIT_NPROC (`ulimit -u`) or a
//! control group's pids.max reached, the case fails and says so.
//!
//! ## Sources
//!
//! R0, R1 and R2 "process creation"; lmbench `lat_proc`; stress-ng 0.15 `stress-fork.c`; A. Baumann
//! et al., "A fork() in the road" (HotOS 2019); fork(2), vfork(2), clone(2), posix_spawn(3),
//! execve(2), memfd_create(2); Linux `kernel/fork.c`, `mm/memory.c` (copy_page_range).

mod apparatus;
mod derive;

use anyhow::Result;
use apparatus::Parent;
use bench::experiment::{
    Card, DerivedValue, Domain, Experiment, Known, Offer, Param, Params, Preset, Role, Site, Skip,
    ViewCard, unknown,
};
use bench::measure::Bench;
use laws::Estimate;
use laws::os::process::{self as law, Creation};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Process = Process;

/// `os.process`.
pub struct Process;

const MIB: u64 = 1 << 20;
/// First kernel with clone3(2).
const CLONE3_SINCE: (u64, u64) = (5, 3);
/// Events of a case at least.
const LEAST_EVENTS: usize = 10;
/// Ticks for which processes are made before those that are timed, and for which those are made at least:
/// what processes leave is freed in full some nine ticks later, in bursts six ticks apart
/// (docs/notes/2026-11-23-calls.md). Kernels with a faster tick wait for more of them: none counts as
/// shorter than `TICK_NS`, which also stands where the kernel does not say.
const LEAD_IN_TICKS: u64 = 10;
const WINDOW_TICKS: u64 = 12;
const TICK_NS: u64 = 4_000_000;
/// For stated costs: a creation by itself, and what a page of the parent adds to it, in ns.
const CREATION_NS: u64 = 1_000_000;
const PAGE_NS: u64 = 120;
/// Start and end of a worker, and the first touch of its memory per byte, in ns.
const WORKER_NS: u64 = 40_000_000;
const TOUCH_NS_PER_KIB: u64 = 400;

static CARD: Card = Card {
    id: "os.process",
    title: "Making a process",
    metrics: &[
        Metric::time(
            "return",
            "from the call that makes a process to its return in the parent",
            Kind::Os,
        ),
        Metric::time(
            "first_instruction",
            "from the call to the child's first instruction",
            Kind::Os,
        ),
        Metric::time(
            "reaped",
            "from the call until the child has exited and is waited for",
            Kind::Os,
        ),
        Metric::time(
            "in_sequence",
            "a process that is made and reaped, in a sequence of them timed as a whole",
            Kind::Os,
        ),
        Metric::derived(
            "return_per_page",
            "what a page of the parent's resident memory adds to the return",
            Unit::Ns,
            Better::Lower,
            Kind::Os,
        ),
        Metric::derived(
            "reaped_per_page",
            "what a page of the parent's resident memory adds until the child is reaped",
            Unit::Ns,
            Better::Lower,
            Kind::Os,
        ),
        Metric::derived(
            "process_to_thread",
            "a fork that is reaped, over a thread that is made and joined",
            Unit::Ratio,
            Better::None,
            Kind::Os,
        ),
    ],
    params: &[
        Param {
            name: "call",
            doc: "what makes the process, and what that does",
            domain: Domain::Symbols(&law::CALLS),
            defaults: [
                "fork,vfork,posix_spawn_static,fork_exec_static",
                "fork,clone3,vfork,fork_calls,fork_exec_static,fork_exec_dynamic,posix_spawn_static,posix_spawn_dynamic,sh",
                "fork,clone3,vfork,fork_calls,fork_exec_static,fork_exec_dynamic,posix_spawn_static,posix_spawn_dynamic,sh",
            ],
            role: Role::Case,
        },
        Param {
            name: "resident",
            doc: "memory of the parent that is in use; auto: 1 MiB, and more for calls that copy \
                  page tables",
            domain: Domain::Either(&["auto"], 64 << 10, 1 << 40, Unit::B),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        Param {
            name: "pages",
            doc: "pages of that memory",
            domain: Domain::Symbols(&["base", "huge"]),
            defaults: ["base", "base", "base,huge"],
            role: Role::Case,
        },
        Param {
            name: "areas",
            doc: "areas of memory (lines of /proc/self/maps) that the parent has at least; 0: its own",
            domain: Domain::Integer {
                low: 0,
                high: 30_000,
                unit: Unit::Count,
            },
            defaults: ["0"; 3],
            role: Role::Setting,
        },
        Param {
            name: "written",
            doc: "bytes that the parent writes before each process, beside its resident memory",
            domain: Domain::Integer {
                low: 0,
                high: 1 << 30,
                unit: Unit::B,
            },
            defaults: ["0"; 3],
            role: Role::Setting,
        },
        Param {
            name: "steady",
            doc: "time for which processes are made at least before those that are timed, and at least \
                  while they are",
            domain: Domain::Integer {
                low: 0,
                high: 60_000_000_000,
                unit: Unit::Ns,
            },
            defaults: ["0"; 3],
            role: Role::Setting,
        },
    ],
    after: &["os.syscall", "os.thread"],
    views: &[ViewCard::line("resident", "reaped")
        .beside(&["return"])
        .log()],
    ..Card::PLAIN
};

impl Experiment for Process {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("process.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        let changed = ["areas", "written", "steady"]
            .map(|name| (name, params.ints(name).first().copied().unwrap_or(0)));
        let windows = windows(site, params);
        for pages in params.texts("pages") {
            for call in params.texts("call") {
                for bytes in sizes(params, call, pages) {
                    let id = CaseId::new()
                        .with("call", call)
                        .with("resident", bytes)
                        .with("pages", pages);
                    match absent(site, call, bytes, pages) {
                        Some(skip) => offer.skipped.push((id, skip)),
                        None => add(&mut offer, id, bytes, pages, changed, windows),
                    }
                }
            }
        }
        Ok(offer)
    }

    fn derivable(&self, _site: &Site, series: &[Series]) -> Vec<CaseId> {
        derive::derivable(series)
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let bytes = series.setting("bytes").unwrap_or(MIB);
        let creation_ns = CREATION_NS + law::resident_pages(site, bytes, false) * PAGE_NS;
        let least = LEAST_EVENTS as u64 + 2;
        let setting_ns = |name| series.setting(name).unwrap_or(0);
        let whole_ns = setting_ns("lead_in") + site.case_ns.max(setting_ns("window"));
        let case_ns = (whole_ns + 3_000_000).max(least * creation_ns);
        let touch_ns = bytes / 1024 * TOUCH_NS_PER_KIB;
        Duration::from_nanos(WORKER_NS + touch_ns + series.cases.len() as u64 * case_ns)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        if known.is_some_and(|known| law::measured_mapping(known).is_none()) {
            // Without the measured mapping, earlier figures add nothing.
            return None;
        }
        if ["areas", "written"]
            .iter()
            .any(|name| case.at.contains_key(*name))
        {
            return Some(unknown(
                "unknown: the parent was given areas or writes, which no law takes into account",
            ));
        }
        let metric = metric.name.as_ref();
        let huge = case.text("pages") == Some("huge");
        let call = case.text("call").unwrap_or_default();
        let of = |moment: fn(&Creation) -> Option<Estimate>| {
            let bytes = case.int("resident").unwrap_or(MIB);
            let creation = law::creation(site, known, call, bytes, huge);
            Some(match creation {
                None => unknown(format!("unknown: no call `{call}`")),
                Some(creation) => moment(&creation).map_or_else(
                    || {
                        unknown(
                            "unknown: the child is another program from its first instruction on, \
                             and has nothing to tell it by",
                        )
                    },
                    Estimate::prediction,
                ),
            })
        };
        let sized = case.int("resident").is_some();
        match metric {
            "return" => of(|creation| Some(creation.returned.clone())),
            "first_instruction" => of(|creation| creation.first.clone()),
            "reaped" => of(|creation| Some(creation.reaped.clone())),
            "in_sequence" => of(|creation| Some(creation.in_sequence())),
            "process_to_thread" if sized => {
                let bytes = case.int("resident").unwrap_or(MIB);
                Some(law::process_to_thread(site, known, bytes)?.prediction())
            }
            "return_per_page" if !sized => {
                Some(law::per_page(site, known, call, huge)?.0.prediction())
            }
            "reaped_per_page" if !sized => {
                Some(law::per_page(site, known, call, huge)?.1.prediction())
            }
            _ => None,
        }
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        bench.takes_memory_for(&series.cases);
        let mut parent = Parent::new(series, bench)?;
        bench.each(series, |bench, case| {
            parent.measure(case, case.text("call").unwrap_or_default(), bench)
        });
        Ok(())
    }

    fn derive(&self, site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        derive::derive(site, known, values)
    }
}

/// The sizes of a call: those given, else what the preset has room for.
fn sizes(params: &Params, call: &str, pages: &str) -> Vec<u64> {
    if params.chosen("resident").is_some() {
        return params.ints("resident");
    }
    let mib: &[u64] = match (params.preset, call) {
        // Huge pages beside base ones are there to be compared, which fork alone serves.
        (_, "fork") if pages == "huge" => &[16, 64, 256, 1024],
        _ if pages == "huge" && params.texts("pages").contains(&"base") => &[],
        _ if pages == "huge" => &[64],
        (Preset::Thorough, _) => &[1, 16, 64, 256, 1024],
        (Preset::Standard, "fork") => &[1, 16, 64, 256],
        (Preset::Standard, "clone3" | "fork_exec_static") => &[1, 64],
        (Preset::Standard, "vfork" | "posix_spawn_static") => &[1, 256],
        (Preset::Quick, "fork") => &[1, 64],
        (Preset::Rehearsal, "fork") => &[1, 4],
        _ => &[1],
    };
    mib.iter().map(|size| size * MIB).collect()
}

/// How long processes are made before those that are timed, and at least while they are, in ns.
fn windows(site: &Site, params: &Params) -> [(&'static str, u64); 2] {
    let steady_ns = params.ints("steady").first().copied().unwrap_or(0);
    let hz = site.host.kernel.hz.filter(|hz| *hz > 0);
    let tick_ns = hz
        .map_or(0, |hz| 1_000_000_000 / u64::from(hz))
        .max(TICK_NS);
    [("lead_in", LEAD_IN_TICKS), ("window", WINDOW_TICKS)]
        .map(|(name, ticks)| (name, steady_ns.max(ticks * tick_ns)))
}

/// Adds a case to the series of its memory. `changed`: what the parent was given or did beside, by setting.
fn add(
    offer: &mut Offer,
    id: CaseId,
    bytes: u64,
    pages: &str,
    changed: [(&str, u64); 3],
    windows: [(&str, u64); 2],
) {
    let name = format!("{}KiB-{pages}", bytes / 1024);
    let at = offer.series.iter().position(|series| series.name == name);
    let at = at.unwrap_or_else(|| {
        offer.series.push(Series {
            experiment: CARD.id.to_owned(),
            name,
            order: Order::Shuffled,
            cases: Vec::new(),
            settings: [
                ("bytes".to_owned(), bytes.into()),
                ("kind".to_owned(), pages.into()),
            ]
            .into_iter()
            .chain(
                changed
                    .into_iter()
                    .chain(windows)
                    .map(|(name, value)| (name.to_owned(), value.into())),
            )
            .collect(),
        });
        offer.series.len() - 1
    });
    let mut case = Case::new(id);
    for (name, value) in changed.into_iter().filter(|(_, value)| *value > 0) {
        case.at.insert(name.to_owned(), value.into());
    }
    offer.series[at].cases.push(case);
}

/// Why a case cannot be measured here.
fn absent(site: &Site, call: &str, bytes: u64, pages: &str) -> Option<Skip> {
    let memory = &site.host.memory;
    if bytes > site.memory_bytes {
        return Some(
            Skip::because(format!(
                "{} MiB may be touched here, the parent needs {}",
                site.memory_bytes / MIB,
                bytes / MIB
            ))
            .needs("a machine or a control group with more memory"),
        );
    }
    if pages == "huge" {
        match (memory.thp.enabled.as_deref(), memory.thp.page_bytes) {
            (Some("never"), _) => {
                return Some(
                    Skip::because("transparent huge pages are switched off").needs(
                        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
                    ),
                );
            }
            (None, _) => {
                return Some(
                    Skip::because("the kernel shows no transparent huge pages")
                        .needs("a kernel with CONFIG_TRANSPARENT_HUGEPAGE"),
                );
            }
            (_, Some(page)) if !bytes.is_multiple_of(page) => {
                return Some(Skip::because(format!(
                    "a huge page has {} KiB here, of which {} KiB are no multiple",
                    page / 1024,
                    bytes / 1024
                )));
            }
            _ => {}
        }
    }
    if cfg!(target_feature = "crt-static") && call.ends_with("_dynamic") {
        return Some(
            Skip::because("this plumb is a static program and names no dynamic linker")
                .needs("a plumb that is linked dynamically"),
        );
    }
    let numbers = site.host.kernel.numbers();
    (call == "clone3" && numbers.is_some_and(|is| is < CLONE3_SINCE))
        .then(|| Skip::because("this kernel has no clone3").needs("Linux 5.3"))
}

#[cfg(test)]
mod tests;
