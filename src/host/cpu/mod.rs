//! The processor: model, features, topology, clock.

mod arm;
mod core;
mod frequency;
mod guess;
mod model;
mod topology;

use serde::{Deserialize, Serialize};

pub use self::core::Core;
pub use self::guess::Microarchitecture;
use super::cache::{CacheKind, Caches};
use super::{Outside, Root};

/// Instruction set architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// 64-bit x86.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// The processor or processors of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Architecture.
    pub arch: Arch,
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
    /// Features of CPUID leaf 7 and 24h that `/proc/cpuinfo` of older kernels does not show, sorted.
    pub cpuid_features: Vec<String>,
    /// Microcode revision, as the kernel prints it.
    pub microcode: Option<String>,
    /// Main ID register of the first CPU (Arm).
    pub midr: Option<u64>,
    /// Which core this is, and how sure that is.
    pub microarchitecture: Microarchitecture,
    /// One element per kind of core; exactly one on a machine that is not hybrid.
    pub classes: Vec<CpuClass>,
    /// Every CPU that is present, in ascending order of number; offline ones included.
    pub cpus: Vec<LogicalCpu>,
    /// Boost state.
    pub turbo: Turbo,
    /// Frequencies that CPUID states.
    pub cpuid_frequency: CpuidFrequency,
    /// TSC ticks at a constant rate in all P-states (`constant_tsc`); always true of the Arm
    /// generic timer.
    pub constant_counter: Option<bool>,
    /// The counter does not stop in deep idle states (`nonstop_tsc`).
    pub nonstop_counter: Option<bool>,
    /// The hypervisor vouches for the TSC rate (`tsc_known_freq`) or CPUID does.
    pub counter_known_frequency: Option<bool>,
    /// Whether SMT is active: some core runs more than one online CPU.
    pub smt_active: Option<bool>,
    /// Idle driver (`intel_idle`, `acpi_idle`, `haltpoll`).
    pub idle_driver: Option<String>,
    /// Idle states of the first online CPU, shallowest first.
    pub idle_states: Vec<IdleState>,
}

/// One CPU as the scheduler counts them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogicalCpu {
    /// The kernel's number.
    pub id: usize,
    /// Whether it runs now.
    pub online: bool,
    /// Whether this process may run on it (affinity mask, cpuset).
    pub allowed: bool,
    /// Core number, unique within a package only.
    pub core: Option<i64>,
    /// Socket.
    pub package: Option<i64>,
    /// Die within the package.
    pub die: Option<i64>,
    /// Cluster (cores that share an L2 or a tag), where the kernel names one.
    pub cluster: Option<i64>,
    /// Memory node.
    pub node: Option<usize>,
    /// CPUs of the same core, this one included, ascending. Empty when unknown (offline).
    pub smt_siblings: Vec<usize>,
    /// The lowest CPU of the group that shares this CPU's last-level cache; `None` when no cache is
    /// described.
    pub llc_group: Option<usize>,
    /// Kind of core on a hybrid machine.
    pub kind: CoreKind,
    /// Relative capacity (1024 = the fastest CPU), where the kernel computes one.
    pub capacity: Option<u32>,
    /// Main ID register (Arm).
    pub midr: Option<u64>,
    /// Frequency scaling of this CPU.
    pub frequency: Frequency,
}

/// Kind of core on a hybrid machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// All cores of this machine are alike.
    Uniform,
    /// Big core.
    Performance,
    /// Neither the biggest nor the smallest (three-cluster Arm designs).
    Middle,
    /// Small core.
    Efficiency,
}

/// CPUs that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuClass {
    /// Which kind.
    pub kind: CoreKind,
    /// Core design.
    pub core: Core,
    /// Their numbers, ascending.
    pub cpus: Vec<usize>,
    /// Highest frequency of the class.
    pub max_hz: Option<u64>,
}

/// Frequency scaling of one CPU. All in hertz.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frequency {
    /// Guaranteed (base) frequency.
    pub base_hz: Option<u64>,
    /// Hardware minimum.
    pub min_hz: Option<u64>,
    /// Hardware maximum (boost included where the driver says so).
    pub max_hz: Option<u64>,
    /// Ceiling set by the administrator (`scaling_max_freq`).
    pub ceiling_hz: Option<u64>,
    /// The kernel's idea of the current frequency.
    pub current_hz: Option<u64>,
    /// Driver (`intel_pstate`, `acpi-cpufreq`, `amd-pstate-epp`).
    pub driver: Option<String>,
    /// Governor.
    pub governor: Option<String>,
    /// Energy preference.
    pub energy_preference: Option<String>,
}

/// Boost state.
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
    /// Bus (reference) frequency from leaf 16h.
    pub bus_hz: Option<u64>,
    /// Virtual TSC frequency from leaf 40000010h.
    pub hypervisor_tsc_hz: Option<u64>,
}

/// One idle state of `cpuidle`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdleState {
    /// `POLL`, `C1`, `C6`, …
    pub name: String,
    /// Exit latency.
    pub latency_us: u64,
    /// Residency from which the state pays.
    pub residency_us: u64,
    /// Switched off by the administrator.
    pub disabled: bool,
}

/// How far apart two CPUs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// The same CPU.
    Same,
    /// Two CPUs of one core.
    SmtSibling,
    /// Different cores under one last-level cache.
    #[serde(rename = "same-llc")]
    SharedLlc,
    /// One socket, no common last-level cache.
    SameSocket,
    /// Different sockets.
    OtherSocket,
}

pub(super) fn read(_: &Root, _: &Outside) -> Cpu {
    Cpu { arch: Arch::X86_64, vendor: None, family: None, model: None, stepping: None, model_name: None, flags: vec![], cpuid_features: vec![], microcode: None, midr: None,
    microarchitecture: Microarchitecture { core: Core::Unknown, platform: None, by_model: None, evidence: vec![], contradiction: None }, classes: vec![], cpus: vec![], turbo: Turbo::default(), cpuid_frequency: CpuidFrequency::default(), constant_counter: None, nonstop_counter: None, counter_known_frequency: None, smt_active: None, idle_driver: None, idle_states: vec![] }
}
impl Cpu { pub(super) fn settle(&mut self, _: &Caches, _: &Outside) {} 
    /// Distance class of two CPUs; `None` when the machine does not tell.
    pub fn distance(&self, _a: usize, _b: usize) -> Option<Distance> { None } }
