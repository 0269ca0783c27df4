//! The candidate causes: which figures each can touch, what it explains, and what to do about it.

use super::super::facts::Fact::{
    self, ClockAboveCounter, ClockMoved, Host, MovedCpus as Moved, Part, RunDelay, Share, Sum,
};
use super::super::facts::IS_GUEST;
use super::super::facts::Test::{Contains, Is, IsNoneOf, MoreThan, Present};
use super::super::figure::{Condition, Figure};
use super::super::verdict::Verdict;
use record::event::Condition as Counted;
use stats::width::{PROBED, SHARED};

/// Another tenant on the core: a run shows it whether it explains a miss or not.
pub const SHARED_CORE: &str = "shared_core";
/// A quota that took time: likewise.
pub const THROTTLED: &str = "throttled";

/// Virtual CPUs that the host moved: likewise.
pub const MOVED_CPUS: &str = "moved_cpus";

pub struct Cause {
    /// What findings call it.
    pub name: &'static str,
    /// Prefixes of the ids of experiments that it can touch; empty means all.
    pub touches: &'static [&'static str],
    pub explains: &'static [Verdict],
    /// What predictions call the condition where they counted it in: it is then no cause of a miss.
    pub counted_as: Option<Counted>,
    /// Whether it may cost more than what a prediction counted in, and so explains a miss anyway.
    pub may_cost_more: bool,
    pub fact: Fact,
    pub text: &'static str,
    /// Which figures of these experiments it can touch.
    pub scope: Scope,
    /// What a user can do about it, as a clause; empty where nothing is to be done.
    pub advice: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    All,
    /// What a device takes: not CPU time.
    Device,
    /// What misses the first level's TLB, and waits for no device.
    BeyondTlb,
    /// What may rest on samples of a core that others used.
    SharedCore,
    /// What the last level of the cache takes, and what several CPUs do together.
    BetweenCores,
    /// What waits until it is on the device.
    Synced,
}

impl Scope {
    pub fn has(self, figure: &Figure) -> bool {
        // Files in memory wait for no device.
        let in_memory = figure.at.get("ground").and_then(|ground| ground.text()) == Some("memory");
        match self {
            Scope::All => true,
            Scope::Device | Scope::Synced if in_memory => false,
            Scope::Device => {
                figure.case.waits_for_device(&figure.experiment)
                    && !figure.metric_name().starts_with("cpu")
            }
            Scope::BeyondTlb => {
                let footprint = figure.case.int("footprint");
                !Scope::Device.has(figure)
                    && footprint.is_none_or(|bytes| bytes > TLB_REACH)
                    && !matches!(figure.case.text("level"), Some("L1" | "L2"))
            }
            Scope::BetweenCores => {
                let text = |name: &str| figure.case.text(name);
                text("level") == Some("L3")
                    || text("pair").is_some_and(|pair| !matches!(pair, "same" | "smt"))
                    || text("ends") == Some("other_cpu")
                    || text("threads").is_some()
                    || figure.case.int("threads").is_some_and(|threads| threads > 1)
                    || figure.case.get("from").is_some()
            }
            Scope::Synced => match figure.case.text("mode") {
                None => true,
                Some(mode) => matches!(mode, "buffered_fdatasync" | "dsync"),
            },
            Scope::SharedCore => figure.condition != Some(Condition::Alone),
        }
    }
}

/// A row of the table, of all figures, which no prediction counts in.
const fn cause(
    name: &'static str,
    touches: &'static [&'static str],
    explains: &'static [Verdict],
    fact: Fact,
    text: &'static str,
) -> Cause {
    Cause {
        name,
        touches,
        explains,
        counted_as: None,
        may_cost_more: false,
        fact,
        text,
        scope: Scope::All,
        advice: "",
    }
}

impl Cause {
    const fn counted_as(self, condition: Counted) -> Cause {
        Cause { counted_as: Some(condition), ..self }
    }

    const fn so(self, advice: &'static str) -> Cause {
        Cause { advice, ..self }
    }

    const fn in_scope(self, scope: Scope) -> Cause {
        Cause { scope, ..self }
    }
}

const GUEST: Fact = IS_GUEST;

/// Bytes that every first-level TLB covers with base pages: 64 entries.
const TLB_REACH: u64 = 64 * 4096;

pub(super) const SLOWER: &[Verdict] = &[Verdict::Slower];
const FASTER: &[Verdict] = &[Verdict::Faster];
pub(super) const EITHER: &[Verdict] =
    &[Verdict::Slower, Verdict::Faster, Verdict::Above, Verdict::Below];
const NOISE: &[Verdict] = &[Verdict::Slower, Verdict::Above];

/// System calls, faults and switches: what crosses into the kernel.
const KERNEL: &[&str] = &["os.", "memory.fault", "fs.", "net.", "clock.read"];
/// What misses caches or TLBs.
const MEMORY: &[&str] = &["memory.", "os.process", "os.switch", "fs."];

/// What has its CPU to itself: a thread that waits for one there waits for other programs, and not
/// for a party of its own experiment.
const ALONE: &[&str] = &["clock.", "cpu.", "memory.", "noise.", "os.syscall", "os.signal", "fs."];

/// What shares a last-level cache or works on several CPUs.
const BETWEEN: &[&str] =
    &["memory.", "cpu.core_to_core", "os.switch", "os.ipc", "os.thread", "net.", "noise.wakeup"];

/// What a device answers.
const FILES: &[&str] = &["fs.", "memory.fault"];

#[rustfmt::skip]
pub(super) const CAUSES: &[Cause] = &[
    cause(SHARED_CORE, &[], NOISE, Part(SHARED, PROBED, 0.05),
        "another tenant used its core at the same time (width probe)").in_scope(Scope::SharedCore)
            .so("measure when the host is quieter, or on CPUs that no other tenant shares"),
    cause("steal", &[], NOISE, Share("steal_ns", 0.005),
        "the hypervisor gave time to others during its rounds (steal)")
            .so("measure when the host is quieter, or on a guest with dedicated CPUs"),
    cause(MOVED_CPUS, BETWEEN, EITHER, Moved,
        "the host moved the virtual CPUs between groups of cores (two distances of one pair)")
            .in_scope(Scope::BetweenCores)
            .so("pin the virtual CPUs on the host, or repeat until a run shows one distance"),
    cause(THROTTLED, &[], NOISE, Share("throttled_ns", 0.005),
        "the control group's CPU quota throttled its rounds")
            .so("raise the control group's cpu.max, or measure outside the group"),
    cause("run_delay", ALONE, NOISE, RunDelay(0.05), "other programs used its CPU (run delay)")
            .so("stop other programs, or give plumb other CPUs (--cpu)"),
    cause("run_delay_after_wait", &[], NOISE, Share("minded_run_delay_ns", 0.05),
        "other programs held its CPUs when its device answered (run delay)")
            .so("stop other programs, or give plumb other CPUs (--cpu)"),
    cause("foreign_switches", &["os.schedule"], EITHER, Sum("foreign_switches", 0.0),
        "other programs ran on the CPU between its processes (the kernel's count of switches)")
            .so("stop other programs, or give plumb other CPUs (--cpu)"),
    cause("clock_moved", &[], SLOWER, ClockMoved(0.02),
        "the core clock moved during a round (turbo, power or heat limit)")
            .so("fix the frequency (governor, turbo) or let the machine cool down, and measure \
                 again"),
    cause("migrations", &[], NOISE, Sum("migrations", 0.0), "the measuring thread was migrated"),
    cause("major_faults", &["memory.", "fs.", "os."], NOISE, Sum("major_faults", 0.0),
        "pages were read from a device during its rounds (major faults)")
            .so("free memory, and measure again"),
    cause("page_table_isolation", KERNEL, SLOWER, Host("/kernel/mitigations", Contains("PTI")),
        "page-table isolation is on (every entry and exit switches page tables)")
            .counted_as(Counted::PageTableIsolation)
            .so("expect it with this mitigation on"),
    cause("seccomp", KERNEL, SLOWER, Host("/kernel/seccomp", MoreThan(0.0)),
        "a seccomp filter checks every system call").counted_as(Counted::Seccomp)
            .so("measure outside the container to compare"),
    cause("hypervisor", &["os.switch", "os.process", "os.thread", "net.", "noise.", "clock.read"], NOISE, GUEST,
        "in a virtual machine, interrupts, idle and timer accesses may exit to the hypervisor")
            .counted_as(Counted::Hypervisor),
    cause("nested_paging", MEMORY, SLOWER, GUEST,
        "nested paging (a TLB miss walks two page tables)")
            .counted_as(Counted::NestedPaging).in_scope(Scope::BeyondTlb)
            .so("use huge pages, in the guest and on its host"),
    cause("disk_in_memory", FILES, FASTER, GUEST,
        "a virtual machine's disk may be cached in its host's memory")
            .counted_as(Counted::VirtualDisk).in_scope(Scope::Device),
    cause("disk_limited", FILES, SLOWER, GUEST,
        "a virtual machine's disk is shared with other guests, and its rate is often limited")
            .counted_as(Counted::VirtualDisk).in_scope(Scope::Device)
            .so("compare with the rate that the host grants the disk"),
    cause("write_cache", &["fs.sync"], FASTER, Host("/block/disks", Present),
        "the device's write cache may survive a power loss (capacitors, a battery), or the device \
         ignores flush requests").counted_as(Counted::WriteCache)
            .so("check that the device keeps its cache when power fails"),
    cause("journal", &["fs.io", "fs.metadata", "fs.sync"], SLOWER, Host("/block/disks", Present),
        "a sync also waits for other changes in the same journal, and on busy CPUs for the \
         kernel's own threads to be scheduled").counted_as(Counted::Journal).in_scope(Scope::Synced),
    cause("turbo", &["cpu.", "clock.", "memory.", "os."], FASTER, ClockAboveCounter(0.1),
        "the core runs well above the counter's nominal rate (turbo)")
            .counted_as(Counted::CoreClock),
    cause("powersave", &[], SLOWER, Host("/cpu/cpus/0/frequency/governor", Is("powersave")),
        "the frequency governor is powersave").counted_as(Counted::CoreClock)
            .so("set the governor to performance"),
    cause("ondemand", &[], SLOWER, Host("/cpu/cpus/0/frequency/governor", Is("ondemand")),
        "the frequency governor raises the clock only after some load (ondemand)")
            .counted_as(Counted::CoreClock)
            .so("set the governor to performance"),
    cause("turbo_off", &[], SLOWER, Host("/cpu/turbo/enabled", Is("false")),
        "turbo is switched off").counted_as(Counted::CoreClock)
            .so("switch turbo on to compare"),
    cause("no_huge_pages", &["memory."], SLOWER, Host("/memory/thp/enabled", Is("never")),
        "transparent huge pages are off (large footprints miss the TLB)")
            .so("set transparent huge pages to madvise"),
    cause("huge_pages_always", &["memory.", "os.process"], EITHER, Host("/memory/thp/enabled", Is("always")),
        "transparent huge pages are always on, and khugepaged may change pages during a round")
            .so("set transparent huge pages to madvise"),
    cause("numa_balancing", &["memory."], SLOWER, Host("/memory/numa_balancing", Is("true")),
        "automatic NUMA balancing unmaps pages to see which threads use them")
            .so("set kernel.numa_balancing to 0, and measure again"),
    cause("page_merging", &["memory."], SLOWER, Host("/memory/ksm/running", Is("true")),
        "same-page merging (KSM) scans memory")
            .so("stop KSM, and measure again"),
    cause("swap", &["memory.", "fs."], SLOWER, Host("/memory/swap_used_bytes", MoreThan(0.0)),
        "swap is in use")
            .so("free memory, and measure again"),
    cause("smt", &["cpu.", "memory.", "os.", "noise."], NOISE, Host("/cpu/smt_active", Is("true")),
        "SMT is active (programs on the sibling CPU share the core)")
            .so("keep the sibling CPUs idle, and measure again"),
    cause("cpu_quota", &[], NOISE, Host("/limits/cpu_quota", Present),
        "a CPU quota is set for this control group")
            .so("raise the control group's cpu.max, or measure outside the group"),
    cause("io_limit", FILES, SLOWER, Host("/limits/io/0", Present),
        "a control group limits reads and writes of a disk")
            .so("raise the control group's io.max, or measure outside the group"),
    cause("clock_source", &["clock.", "os.syscall", "noise."], SLOWER, Host("/kernel/clock_source/current", IsNoneOf(DIRECT)),
        "the kernel's clock source is not the processor's own counter").counted_as(Counted::ClockSource)
            .so("see why the kernel does not use the processor's own counter (the TSC; on Arm the architected timer)"),
];

/// Clock sources that are the processor's own counter.
const DIRECT: &[&str] = &["tsc", "arch_sys_counter"];

const fn mitigation(
    name: &'static str,
    counted_as: Counted,
    fact: Fact,
    text: &'static str,
) -> Cause {
    let cause = cause(name, KERNEL, SLOWER, fact, text).counted_as(counted_as);
    Cause { may_cost_more: true, ..cause }
}

/// What most figures of a family share where they miss by one factor, the likeliest first. A
/// prediction may have counted it in, but with less than it costs here.
#[rustfmt::skip]
pub(super) const IN_COMMON: &[Cause] = &[
    mitigation("page_table_isolation", Counted::PageTableIsolation, Host("/kernel/mitigations/meltdown", Contains("PTI")),
        "page-table isolation (meltdown), which switches page tables at every entry and exit"),
    mitigation("safe_returns", Counted::SafeReturns, Host("/kernel/mitigations/spec_rstack_overflow", Contains("afe RET")),
        "safe returns (spec_rstack_overflow), which mispredict every return within the kernel"),
    mitigation("untrained_returns", Counted::UntrainedReturns, Host("/kernel/mitigations/retbleed", Contains("untrained return thunk")),
        "untrained return thunks (retbleed), at every entry"),
    mitigation("retpolines", Counted::Retpolines, Host("/kernel/mitigations/spectre_v2", Contains("etpoline")),
        "retpolines (spectre_v2), at every indirect call of the kernel"),
    mitigation("buffers_cleared", Counted::ClearedBuffers, Host("/kernel/mitigations", Contains("Clear CPU buffers")),
        "CPU buffers that the kernel clears at every exit (mds and its like)"),
    cause("nested_paging", MEMORY, SLOWER, GUEST,
        "nested paging (a TLB miss walks two page tables)").in_scope(Scope::BeyondTlb),
    cause("emulation", &["clock.", "os.", "memory.", "noise.", "net.", "fs."], NOISE, GUEST,
        "a hypervisor that emulates more than it passes on"),
    cause("core_clock", &["cpu.", "clock.", "memory.", "os."], FASTER, ClockAboveCounter(0.02),
        "a core clock above the counter's rate (turbo)"),
];
