//! Clock: what cpufreq, CPUID and cpuidle state.

use super::model::CpuInfo;
use super::{CpuidFrequency, Frequency, IdleState, LogicalCpu, Outside, Root, Turbo};

const DIR: &str = "sys/devices/system/cpu";

/// Fills in the frequency scaling of every online CPU.
pub(super) fn fill(root: &Root, info: &CpuInfo, cpus: &mut [LogicalCpu]) {
    for cpu in cpus.iter_mut().filter(|cpu| cpu.online) {
        cpu.frequency = one(root, info, cpu.id);
    }
}

fn one(root: &Root, info: &CpuInfo, id: usize) -> Frequency {
    let dir = format!("{DIR}/cpu{id}/cpufreq");
    let scaled = |name: &str| {
        let khz: u64 = root.number(&format!("{dir}/{name}"))?;
        khz.checked_mul(1000)
    };
    // AMD and Arm firmware: MHz. Some firmware leaves it 0.
    let nominal = || root.number::<u64>(&format!("{DIR}/cpu{id}/acpi_cppc/nominal_freq"));
    let cppc = || nominal().filter(|&mhz| mhz > 0)?.checked_mul(1_000_000);
    // Reading scaling_cur_freq of every CPU sends interrupts and waited 10 ms per CPU before
    // Linux 5.18; /proc/cpuinfo has been read once already.
    let shown = info.of(id, "cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok());
    let shown = shown.filter(|mhz| mhz.is_finite() && *mhz > 0.0);
    Frequency {
        base_hz: scaled("base_frequency").or_else(cppc),
        min_hz: scaled("cpuinfo_min_freq"),
        max_hz: scaled("cpuinfo_max_freq"),
        ceiling_hz: scaled("scaling_max_freq"),
        current_hz: shown
            .map(|mhz| (mhz * 1e6).round() as u64)
            .or_else(|| scaled("scaling_cur_freq")),
        driver: root.line(&format!("{dir}/scaling_driver")),
        governor: root.line(&format!("{dir}/scaling_governor")),
        energy_preference: root.line(&format!("{dir}/energy_performance_preference")),
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
pub(super) fn cpuid(outside: &Outside) -> CpuidFrequency {
    let crystal = outside.leaf(0x15, 0);
    let crystal_hz = crystal.map(|leaf| u64::from(leaf.ecx)).filter(|&hz| hz > 0);
    let ratio = crystal.filter(|leaf| leaf.eax > 0 && leaf.ebx > 0);
    let processor = outside.leaf(0x16, 0);
    let mhz =
        |word: Option<u32>| word.map(|w| u64::from(w & 0xffff) * 1_000_000).filter(|&hz| hz > 0);
    // The hypervisor states its highest leaf in 40000000h; higher ones answer with leftovers.
    let highest = outside.leaf(0x4000_0000, 0).map_or(0, |leaf| leaf.eax);
    let guest = outside.leaf(0x4000_0010, 0).filter(|_| highest >= 0x4000_0010);
    CpuidFrequency {
        tsc_hz: crystal_hz.zip(ratio).map(|(hz, leaf)| {
            // Up to 2^32 × 2^32 fits neither u64 product nor a real machine: widen.
            (u128::from(hz) * u128::from(leaf.ebx) / u128::from(leaf.eax)) as u64
        }),
        crystal_hz,
        base_hz: mhz(processor.map(|leaf| leaf.eax)),
        max_hz: mhz(processor.map(|leaf| leaf.ebx)),
        bus_hz: mhz(processor.map(|leaf| leaf.ecx)),
        hypervisor_tsc_hz: guest.map(|leaf| u64::from(leaf.eax) * 1000).filter(|&hz| hz > 0),
    }
}

/// Idle states of the first online CPU.
pub(super) fn idle_states(root: &Root, cpus: &[LogicalCpu]) -> Vec<IdleState> {
    let Some(cpu) = cpus.iter().find(|cpu| cpu.online) else { return Vec::new() };
    let dir = format!("{DIR}/cpu{}/cpuidle", cpu.id);
    let state = |n: usize| {
        let number = |name: &str| root.number::<u64>(&format!("{dir}/state{n}/{name}"));
        Some(IdleState {
            name: root.line(&format!("{dir}/state{n}/name"))?,
            latency_us: number("latency")?,
            residency_us: number("residency").unwrap_or(0),
            disabled: number("disable").is_some_and(|flag| flag != 0),
        })
    };
    root.numbered(&dir, "state").into_iter().filter_map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuid_frequencies() {
        let read = |text: &str| cpuid(&Outside::recorded(&Root::tree(text)));
        let found = read("== cpuid.txt\n15 0 2 a8 124f800 0\n16 0 c80 1450 64 0\n");
        // 19.2 MHz × 168 / 2.
        assert_eq!(found.tsc_hz, Some(1_612_800_000));
        assert_eq!((found.base_hz, found.max_hz), (Some(3_200_000_000), Some(5_200_000_000)));
        assert_eq!(found.bus_hz, Some(100_000_000));
        assert_eq!(read("== cpuid.txt\n15 0 0 0 0 0\n16 0 0 0 0 0\n"), CpuidFrequency::default());
        let stale = "== cpuid.txt\n40000000 0 40000001 0 0 0\n40000010 0 70001 0 0 0\n";
        assert_eq!(read(stale).hypervisor_tsc_hz, None);
        let stated = "== cpuid.txt\n40000000 0 40000010 0 0 0\n40000010 0 27ac40 0 0 0\n";
        assert_eq!(read(stated).hypervisor_tsc_hz, Some(2_600_000_000));
    }
}
