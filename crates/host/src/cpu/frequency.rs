//! Clock: what cpufreq, CPUID and cpuidle state.

use super::super::plausible::{Doubts, is_plausible};
use super::model::CpuInfo;
use super::{CpuidFrequency, Frequency, IdleState, LogicalCpu, Outside, Root, Turbo};

const DIR: &str = "sys/devices/system/cpu";

/// Fills in the frequency scaling of every online CPU.
pub(super) fn fill(root: &Root, info: &CpuInfo, cpus: &mut [LogicalCpu], doubts: &mut Doubts) {
    for cpu in cpus.iter_mut().filter(|cpu| cpu.online) {
        cpu.frequency = one(root, info, cpu.id, doubts);
    }
}

const MHZ: f64 = 1e6;
const KHZ: f64 = 1e3;

fn one(root: &Root, info: &CpuInfo, id: usize, doubts: &mut Doubts) -> Frequency {
    let dir = format!("{DIR}/cpu{id}");
    let cpu = format!("CPU {id}");
    let mut stated = |file: &str, quantity: &str, unit: f64| {
        let text = root.line(&format!("{dir}/{file}"))?;
        doubts.number(quantity, (file, &cpu), &text, unit)
    };
    let highest = match info.first("vendor_id").as_deref() {
        Some("AuthenticAMD") => "cpu.max_hz of AMD",
        _ => "cpu.max_hz",
    };
    // AMD and Arm firmware. Some leaves it 0.
    let nominal_hz = stated("acpi_cppc/nominal_freq", "cpu.base_hz", MHZ);
    // CPPC's performance is proportional to the frequency (ACPI 6.5, 8.4.6.1).
    let performance = |name: &str| root.number::<f64>(&format!("{dir}/acpi_cppc/{name}"));
    let boosted_hz = || {
        let ratio = performance("highest_perf")? / performance("nominal_perf")?;
        let hz = nominal_hz? as f64 * ratio;
        is_plausible(highest, hz).then_some(hz.round() as u64)
    };
    let max_hz = stated("cpufreq/cpuinfo_max_freq", highest, KHZ).or_else(boosted_hz);
    let min_hz = stated("cpufreq/cpuinfo_min_freq", "cpu.min_hz", KHZ);
    let base_hz = stated("cpufreq/base_frequency", "cpu.base_hz", KHZ).or(nominal_hz);
    let ceiling_hz = stated("cpufreq/scaling_max_freq", highest, KHZ);
    // Reading scaling_cur_freq of every CPU sends interrupts and waited 10 ms per CPU before
    // Linux 5.18; /proc/cpuinfo has been read once already.
    let current_hz = match info.field(id, "cpu MHz") {
        Some(mhz) => doubts.number("cpu.min_hz", ("cpu MHz", &cpu), mhz, MHZ),
        None => stated("cpufreq/scaling_cur_freq", "cpu.min_hz", KHZ),
    };
    Frequency {
        base_hz,
        min_hz: min_hz.filter(|min| max_hz.is_none_or(|max| *min <= max)),
        max_hz,
        ceiling_hz,
        current_hz,
        driver: root.line(&format!("{dir}/cpufreq/scaling_driver")),
        governor: root.line(&format!("{dir}/cpufreq/scaling_governor")),
        energy_preference: root.line(&format!("{dir}/cpufreq/energy_performance_preference")),
    }
}

/// Boost, from the two places where drivers show it.
pub(super) fn turbo(root: &Root) -> Turbo {
    let forbidden = root.number::<u32>(&format!("{DIR}/intel_pstate/no_turbo"));
    let boost = root.number::<u32>(&format!("{DIR}/cpufreq/boost"));
    Turbo { enabled: forbidden.map(|flag| flag == 0).or(boost.map(|flag| flag == 1)) }
}

/// Frequencies of CPUID 15h, 16h (Intel SDM 2A) and 40000010h (VMware's convention, which KVM
/// guests of some clouds follow: EAX in kHz).
pub(super) fn cpuid(outside: &Outside, doubts: &mut Doubts) -> CpuidFrequency {
    // 0 says that the leaf does not state it.
    let mut stated = |leaf: &str, quantity: &str, hz: Option<u128>| {
        let hz = hz.filter(|&hz| hz > 0)?;
        doubts.number(quantity, (leaf, "the processor"), &hz.to_string(), 1.0)
    };
    let crystal = outside.leaf(0x15, 0);
    let crystal_hz = crystal.map(|leaf| u128::from(leaf.ecx));
    let ratio = crystal.filter(|leaf| leaf.eax > 0);
    let tsc_hz =
        crystal_hz.zip(ratio).map(|(hz, leaf)| hz * u128::from(leaf.ebx) / u128::from(leaf.eax));
    let processor = outside.leaf(0x16, 0);
    let mhz = |word: Option<u32>| word.map(|word| u128::from(word & 0xffff) * 1_000_000);
    // The hypervisor states its highest leaf in 40000000h; higher ones answer with leftovers.
    let highest = outside.leaf(0x4000_0000, 0).map_or(0, |leaf| leaf.eax);
    let guest = outside.leaf(0x4000_0010, 0).filter(|_| highest >= 0x4000_0010);
    CpuidFrequency {
        tsc_hz: stated("CPUID leaf 15h", "cpu.base_hz", tsc_hz),
        crystal_hz: stated("CPUID leaf 15h", "cpu.crystal_hz", crystal_hz),
        base_hz: stated("CPUID leaf 16h", "cpu.base_hz", mhz(processor.map(|leaf| leaf.eax))),
        max_hz: stated("CPUID leaf 16h", "cpu.max_hz", mhz(processor.map(|leaf| leaf.ebx))),
        hypervisor_tsc_hz: stated(
            "CPUID leaf 40000010h",
            "cpu.base_hz",
            guest.map(|leaf| u128::from(leaf.eax) * 1000),
        ),
    }
}

pub(super) fn idle_states(root: &Root, cpus: &[LogicalCpu], doubts: &mut Doubts) -> Vec<IdleState> {
    let Some(cpu) = cpus.iter().find(|cpu| cpu.online) else { return Vec::new() };
    let dir = format!("{DIR}/cpu{}/cpuidle", cpu.id);
    let state = |n: usize| {
        let mut time_us = |name: &str| {
            let text = root.line(&format!("{dir}/state{n}/{name}"))?;
            let source = format!("cpuidle/{name}");
            let ns = doubts.number("idle.latency", (&source, format!("state {n}")), &text, 1e3)?;
            Some(ns / 1000)
        };
        Some(IdleState {
            name: root.line(&format!("{dir}/state{n}/name"))?,
            latency_us: time_us("latency")?,
            residency_us: time_us("residency").unwrap_or(0),
            disabled: root.flag(&format!("{dir}/state{n}/disable")) == Some(true),
        })
    };
    root.numbered(&dir, "state").into_iter().filter_map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuid_frequencies() {
        let read =
            |text: &str| cpuid(&Outside::recorded(&Root::tree(text)), &mut Doubts::default());
        let found = read("== cpuid.txt\n15 0 2 a8 124f800 0\n16 0 c80 1450 64 0\n");
        // 19.2 MHz × 168 / 2.
        assert_eq!(found.tsc_hz, Some(1_612_800_000));
        assert_eq!((found.base_hz, found.max_hz), (Some(3_200_000_000), Some(5_200_000_000)));
        assert_eq!(read("== cpuid.txt\n15 0 0 0 0 0\n16 0 0 0 0 0\n"), CpuidFrequency::default());
        let stale = "== cpuid.txt\n40000000 0 40000001 0 0 0\n40000010 0 70001 0 0 0\n";
        assert_eq!(read(stale).hypervisor_tsc_hz, None);
        let stated = "== cpuid.txt\n40000000 0 40000010 0 0 0\n40000010 0 27ac40 0 0 0\n";
        assert_eq!(read(stated).hypervisor_tsc_hz, Some(2_600_000_000));
    }
}
