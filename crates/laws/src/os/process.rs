//! Laws of making processes: a share for the process itself, and a share for each page of the
//! parent's memory whose table entry a fork copies and an exit drops.

use super::work::nested;
use crate::cpu::{clocked, is_guest};
use crate::rows::Section;
use crate::{Facts, Law, range};
use bench::experiment::{Known, Site};
use bench::symbols;
use record::event::Condition;

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

impl Call {
    /// Whether the child runs plumb's own code at first, which tells when it begins.
    fn is_reported(self) -> bool {
        use Call::{PosixSpawnDynamic, PosixSpawnStatic, Sh};
        !matches!(self, PosixSpawnStatic | PosixSpawnDynamic | Sh)
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

/// From a call in a parent with `bytes` of resident memory to a moment, the name of a metric of
/// os.process, in ns; none where the child cannot report it.
pub fn time(facts: Facts, call: Call, bytes: u64, huge: bool, moment: &str) -> Option<Law> {
    let pages = resident_pages(facts.site, bytes, huge) as f64;
    let sum = |moment: &str| of_pages(facts, &format!("{}.{moment}", call.text()), pages, huge);
    match moment {
        "first_instruction" if !call.is_reported() => None,
        // The mean has the work that the kernel puts off beyond the reaping.
        "in_sequence" => {
            Some(sum("reaped").ends(1.0, 1.1, 1.3).and("up to 30 % for deferred freeing"))
        }
        moment => Some(sum(moment)),
    }
}

fn of_pages(facts: Facts, sum: &str, pages: f64, huge: bool) -> Law {
    let count = |name: &str| if (name == "huge") == huge { pages } else { 0.0 };
    let time = |_: &str| super::entry(facts);
    Section { facts, name: "os.process", count: &count, time: &time }.law(&[sum])
}

/// What a page of the parent adds until the return and until the child is reaped, in ns.
pub fn per_page(facts: Facts, call: Call, huge: bool) -> (Law, Law) {
    let is_copied = call.is_reported() && call != Call::Vfork;
    let moment = |sum: &str| match is_copied {
        true => of_pages(facts, sum, 1.0, huge),
        false => {
            // A slope of noise over some thousand pages.
            let noise = if huge { 60.0 } else { 0.6 };
            Law::software(range(-noise, 0.0, noise), "the parent's page tables are not copied")
        }
    };
    (moment("page.return"), moment("page.reaped"))
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
    let fork = time(facts, Call::Fork, bytes, false, "reaped")?.times(1.0 / thread);
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
pub(crate) fn in_memory_management(facts: Facts, cycles: Law) -> Law {
    let time = clocked(facts, cycles).unsourced().times(nested(facts.site));
    match is_guest(facts.site) {
        true => time
            .widened(1.0, 1.5, "a virtual machine walks two sets of page tables")
            .counting(Condition::NestedPaging),
        false => time.widened(1.25, 1.0, ""),
    }
}
