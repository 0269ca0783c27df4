//! The processor: model, features, topology, clock.

mod arm;
mod core;
mod frequency;
mod guess;
mod kinds;
#[cfg(test)]
mod machines;
mod model;
mod table;
mod topology;

use record::order::Gather;
use serde::{Deserialize, Serialize};

pub use self::core::Core;
pub use self::guess::Microarchitecture;
use super::cache::Caches;
use super::plausible::Doubts;
use super::{Outside, Root};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    #[serde(rename = "x86_64")]
    X86_64,
    Aarch64,
}

/// What the kernel calls no idle driver.
pub const NO_IDLE_DRIVER: &str = "none";

/// The processor or processors of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    pub arch: Arch,
    /// Another architecture, which plumb neither measures nor predicts; `arch` says nothing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_arch: Option<String>,
    /// `GenuineIntel`, `AuthenticAMD`, or the implementer's name on Arm (`Arm`, `Ampere`).
    pub vendor: Option<String>,
    /// x86 family, displayed form (base + extended).
    pub family: Option<u32>,
    /// x86 model, displayed form (base + extended).
    pub model: Option<u32>,
    /// x86 stepping; on Arm the revision.
    pub stepping: Option<u32>,
    /// Marketing name as the kernel or the part table gives it.
    pub model_name: Option<String>,
    /// Feature names as `/proc/cpuinfo` spells them, sorted.
    pub flags: Vec<String>,
    /// Features of CPUID leaf 7 and 24h that `/proc/cpuinfo` of older kernels does not show,
    /// sorted.
    pub cpuid_features: Vec<String>,
    /// Microcode revision, as the kernel prints it.
    pub microcode: Option<String>,
    /// Main ID register of the first CPU (Arm).
    pub midr: Option<u64>,
    /// Which core this is, and how sure that is.
    pub microarchitecture: Microarchitecture,
    /// One element per design and strength of core, strongest first; exactly one on a machine
    /// that is not hybrid.
    pub classes: Vec<CpuClass>,
    /// Every CPU that is present, in ascending order of number; offline ones included.
    pub cpus: Vec<LogicalCpu>,
    pub turbo: Turbo,
    pub cpuid_frequency: CpuidFrequency,
    /// Rate of the counter by CNTFRQ_EL0 (Arm); `None` on x86, where `cpuid_frequency` has it.
    pub counter_hz: Option<u64>,
    /// TSC ticks at a constant rate in all P-states (`constant_tsc`); always true of the Arm
    /// generic timer.
    pub constant_counter: Option<bool>,
    /// The counter does not stop in deep idle states (`nonstop_tsc`).
    pub nonstop_counter: Option<bool>,
    /// Whether SMT is active: some core runs more than one online CPU.
    pub smt_active: Option<bool>,
    /// Idle driver (`intel_idle`, `acpi_idle`, `haltpoll`, or [`NO_IDLE_DRIVER`]).
    pub idle_driver: Option<String>,
    /// Idle states of the first online CPU, shallowest first.
    pub idle_states: Vec<IdleState>,
}

/// One CPU as the scheduler counts them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogicalCpu {
    pub id: usize,
    /// Whether it runs now.
    pub online: bool,
    /// Whether this process may run on it (affinity mask, cpuset).
    pub allowed: bool,
    /// Core number, unique within a package only.
    pub core: Option<i64>,
    pub package: Option<i64>,
    /// Die within the package.
    pub die: Option<i64>,
    /// Cluster (cores that share an L2 or a tag), where the kernel names one.
    pub cluster: Option<i64>,
    pub node: Option<usize>,
    /// CPUs of the same core, this one included, ascending. Empty when unknown (offline).
    pub smt_siblings: Vec<usize>,
    /// The lowest CPU of the group that shares this CPU's last-level cache; `None` without caches.
    pub llc_group: Option<usize>,
    /// Kind of core on a hybrid machine.
    pub kind: CoreKind,
    /// Relative capacity (1024 = the fastest CPU), where the kernel computes one.
    pub capacity: Option<u32>,
    /// Main ID register (Arm).
    pub midr: Option<u64>,
    pub frequency: Frequency,
}

/// Kind of core on a hybrid machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// All cores of this machine are alike.
    #[default]
    Uniform,
    Performance,
    /// Neither the biggest nor the smallest (Arm chips of three or four designs).
    Middle,
    Efficiency,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuClass {
    pub kind: CoreKind,
    pub core: Core,
    /// Numbers of its online CPUs, ascending.
    pub cpus: Vec<usize>,
    /// Highest frequency of the class.
    pub max_hz: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frequency {
    pub base_hz: Option<u64>,
    pub min_hz: Option<u64>,
    /// Hardware maximum (boost included where the driver says so).
    pub max_hz: Option<u64>,
    /// Ceiling set by the administrator (`scaling_max_freq`).
    pub ceiling_hz: Option<u64>,
    pub current_hz: Option<u64>,
    /// Driver (`intel_pstate`, `acpi-cpufreq`, `amd-pstate-epp`).
    pub driver: Option<String>,
    pub governor: Option<String>,
    pub energy_preference: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turbo {
    /// `Some(true)` when boost is allowed.
    pub enabled: Option<bool>,
}

/// Frequencies that CPUID states (leaves 15h, 16h, 40000010h).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuidFrequency {
    /// TSC frequency from leaf 15h (crystal × ratio).
    pub tsc_hz: Option<u64>,
    /// Core crystal clock from leaf 15h.
    pub crystal_hz: Option<u64>,
    /// Base frequency from leaf 16h.
    pub base_hz: Option<u64>,
    /// Maximum frequency from leaf 16h.
    pub max_hz: Option<u64>,
    /// Virtual TSC frequency from leaf 40000010h.
    pub hypervisor_tsc_hz: Option<u64>,
}

/// One idle state of `cpuidle`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdleState {
    /// `POLL`, `C1`, `C6`, …
    pub name: String,
    pub latency_us: u64,
    pub residency_us: u64,
    /// Switched off by the administrator.
    pub disabled: bool,
}

/// How far apart two CPUs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    Same,
    /// Two CPUs of one core.
    SmtSibling,
    /// Different cores under one last-level cache.
    #[serde(rename = "same-llc")]
    SharedLlc,
    /// One socket, no common last-level cache.
    SameSocket,
    OtherSocket,
}

/// Everything but the caches; [`Cpu::settle`] adds that.
pub(super) fn read(root: &Root, outside: &Outside, doubts: &mut Doubts) -> Cpu {
    let mut info = model::parse(&root.read("proc/cpuinfo").unwrap_or_default());
    let arch = arch(outside, &info);
    let mut cpus = topology::cpus(root, outside, &mut info);
    frequency::fill(root, &info, &mut cpus, doubts);
    if arch == Arch::Aarch64 {
        arm::fill_midr(root, &info, &mut cpus);
    }
    let midr = cpus.iter().find_map(|cpu| cpu.midr);
    let part = midr.map(arm::part);
    let signature = outside.leaf(1, 0).map(|leaf| model::signature(leaf.eax));
    let flags = model::flags(&info);
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    let known = |name: &str| (!flags.is_empty()).then(|| has(name));
    let arm_only = |value: bool| (arch == Arch::Aarch64).then_some(value);
    let is_other = |name: &String| !["x86_64", "aarch64"].contains(&name.as_str());
    Cpu {
        arch,
        other_arch: outside.arch.clone().filter(is_other),
        vendor: info.first("vendor_id").or_else(|| Some(arm::vendor(midr?).to_string())),
        family: info.first_number("cpu family").or(signature.map(|s| s.family)),
        model: info.first_number("model").or(signature.map(|s| s.model)),
        stepping: info
            .first_number("stepping")
            .or(signature.map(|s| s.stepping))
            .or_else(|| midr.map(|midr| (midr & 0xf) as u32)),
        model_name: info
            .first("model name")
            .or_else(|| model::brand(outside))
            .or_else(|| Some(part?.name().to_string())),
        cpuid_features: model::cpuid_features(outside),
        microcode: info.first("microcode"),
        midr,
        microarchitecture: Microarchitecture::unknown(),
        classes: Vec::new(),
        turbo: frequency::turbo(root),
        cpuid_frequency: frequency::cpuid(outside, doubts),
        counter_hz: outside.counter_hz.filter(|_| arch == Arch::Aarch64).and_then(|hz| {
            doubts.number("counter.hz", ("CNTFRQ_EL0", "the counter"), &hz.to_string(), 1.0)
        }),
        constant_counter: arm_only(true).or_else(|| known("constant_tsc")),
        nonstop_counter: arm_only(true).or_else(|| known("nonstop_tsc")),
        smt_active: topology::smt_active(root, &cpus),
        idle_driver: root.line("sys/devices/system/cpu/cpuidle/current_driver"),
        idle_states: frequency::idle_states(root, &cpus, doubts),
        flags,
        cpus,
    }
}

/// The recorded fact, else what `/proc/cpuinfo` looks like.
fn arch(outside: &Outside, info: &model::CpuInfo) -> Arch {
    match outside.arch.as_deref() {
        Some("aarch64") => Arch::Aarch64,
        Some("x86_64") => Arch::X86_64,
        _ if info.first("CPU implementer").is_some() => Arch::Aarch64,
        _ => Arch::X86_64,
    }
}

impl Cpu {
    pub fn core_of(&self, cpu: usize) -> Core {
        let class = self.classes.iter().find(|class| class.cpus.contains(&cpu));
        class.map_or(self.microarchitecture.core, |class| class.core)
    }

    /// Adds the facts about caches: sockets, last-level groups, the core design, classes of CPUs.
    pub(super) fn settle(
        &mut self,
        root: &Root,
        outside: &Outside,
        caches: &mut Caches,
        is_guest: bool,
        doubts: &mut Doubts,
    ) {
        topology::join_packages(self, caches, is_guest, doubts);
        topology::fill_llc(&mut self.cpus, caches);
        match self.arch {
            Arch::X86_64 => {
                let is_guest = is_guest || self.has("hypervisor");
                self.microarchitecture = guess::x86_guess(self, caches, is_guest);
                kinds::fill(root, outside, self, caches);
            }
            Arch::Aarch64 => {
                kinds::fill(root, outside, self, caches);
                self.microarchitecture = guess::arm_guess(self);
            }
        }
        // The headline is of the strongest cores: those that are measured by default.
        if let Some(strongest) = self.classes.first().map(|class| class.core) {
            self.microarchitecture.core = strongest;
            if self.arch == Arch::Aarch64 && strongest != Core::Unknown {
                self.model_name = Some(strongest.name().to_string());
            }
        }
    }

    pub fn cpu(&self, id: usize) -> Option<&LogicalCpu> {
        let place = self.cpus.binary_search_by_key(&id, |cpu| cpu.id);
        place.ok().map(|place| &self.cpus[place])
    }

    /// CPUs that this process may use now, ascending.
    pub fn usable(&self) -> Vec<usize> {
        self.cpus.iter().filter(|cpu| cpu.online && cpu.allowed).map(|cpu| cpu.id).collect()
    }

    /// Online cores: CPUs that are the first of their core.
    pub fn cores(&self) -> usize {
        let first =
            |cpu: &&LogicalCpu| cpu.smt_siblings.first().is_none_or(|&lowest| lowest == cpu.id);
        self.cpus.iter().filter(|cpu| cpu.online).filter(first).count()
    }

    /// Sockets that have an online CPU; `None` if no CPU reports its socket.
    pub fn packages(&self) -> Option<usize> {
        let named = self.cpus.iter().filter(|cpu| cpu.online).filter_map(|cpu| cpu.package);
        let distinct: std::collections::BTreeSet<i64> = named.gather();
        (!distinct.is_empty()).then_some(distinct.len())
    }

    /// Whether `/proc/cpuinfo` or CPUID names a feature.
    pub fn has(&self, feature: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == feature);
        named(&self.flags) || named(&self.cpuid_features)
    }

    /// Distance class of two CPUs; `None` if the machine does not report it (unknown or offline
    /// CPU, no topology).
    pub fn distance(&self, a: usize, b: usize) -> Option<Distance> {
        let (one, other) = (self.cpu(a)?, self.cpu(b)?);
        if a == b {
            return Some(Distance::Same);
        }
        if one.smt_siblings.contains(&b) {
            return Some(Distance::SmtSibling);
        }
        if one.llc_group.is_some() && one.llc_group == other.llc_group {
            return Some(Distance::SharedLlc);
        }
        match (one.package?, other.package?) {
            (p, q) if p == q => Some(Distance::SameSocket),
            _ => Some(Distance::OtherSocket),
        }
    }
}
