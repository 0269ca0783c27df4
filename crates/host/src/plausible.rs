//! Values that a kernel, a firmware or a hypervisor states and that no machine has. This table
//! decides for all readers: such a value is absent, and a sentence says so.

use std::fmt::Display;

use super::given::{FACTS, Unit};

/// Least and greatest value, in base units, of what `--set` does not have.
const QUANTITIES: [(&str, f64, f64); 12] = [
    // The fastest part sold is the Ryzen 9 9950X (5.7 GHz).
    ("cpu.max_hz of AMD", 1e8, 6e9),
    // NVIDIA Grace goes down to 81 MHz.
    ("cpu.min_hz", 1e7, SOLD_HZ),
    // Intel SDM 2A, CPUID 15h: 24 or 25 MHz, 19.2 or 38.4 MHz; 16h: 100 MHz.
    ("cpu.crystal_hz", 1e6, 1e9),
    // Arm ARM D12: 1 to 50 MHz, and 1 GHz since Armv8.6.
    ("counter.hz", 1e6, SOLD_HZ),
    // In ns. The deepest states of phones leave in some 10 ms.
    ("idle.latency", 0.0, 1e8),
    ("memory.total", 16.0 * 1_048_576.0, 1e17),
    ("memory.available", 0.0, 1e17),
    // In bytes. Linux has base pages of 4 KiB to 256 KiB (PowerPC 44x).
    ("page_bytes", 4096.0, 262_144.0),
    // In bytes. Arm has 64 KiB (contiguous pages of 4 KiB), POWER 16 GiB.
    ("huge_page_bytes", 65_536.0, 17_179_869_184.0),
    ("cache.level", 1.0, 4.0),
    // kernel/sched/core.c takes periods of 1 ms to 1 s, and no quota below 1 ms.
    ("group.period_us", 1e3, 1e6),
    ("group.quota_us", 1e3, 1e12),
];

/// The fastest processor sold has 6.2 GHz (Core i9-14900KS). A kernel that states much more has a
/// wrong scale: Linux 5.11 gave a Ryzen 9 5950X 7.3 GHz (mended by Linux commit 3743d55b289c). An
/// overclocked core can be stated with `--set`.
pub const SOLD_HZ: f64 = 6.5e9;

/// Whether some machine has this value, in the base unit, of a row of [`FACTS`] or of the
/// quantities that only machines state.
pub fn is_plausible(quantity: &str, value: f64) -> bool {
    let fact = FACTS.iter().find(|fact| fact.name == quantity).map(|fact| match fact.unit {
        Unit::Hertz => (fact.range.0, SOLD_HZ),
        _ => fact.range,
    });
    let row = QUANTITIES.iter().find(|(name, ..)| *name == quantity);
    let range = fact.or_else(|| row.map(|(_, least, most)| (*least, *most)));
    debug_assert!(range.is_some(), "{quantity} has no range");
    range.is_some_and(|(least, most)| (least..=most).contains(&value))
}

/// One sentence for each source of values that were left out.
#[derive(Debug, Default)]
pub(super) struct Doubts(pub Vec<String>);

impl Doubts {
    /// A stated number times `unit`, in the base unit; `None`, with a sentence, if it is no number
    /// or no machine has it. `place` says which of the sources of this name it is.
    pub fn number(
        &mut self,
        quantity: &str,
        (source, place): (&str, impl Display),
        text: &str,
        unit: f64,
    ) -> Option<u64> {
        let value = text.trim().parse::<f64>().ok().map(|number| number * unit);
        let value = value.filter(|value| is_plausible(quantity, *value));
        if value.is_none() && !self.0.iter().any(|sentence| sentence.starts_with(source)) {
            let text: String = text.trim().chars().take(40).collect();
            let sentence = format!("{source} of {place} is \"{text}\", which no machine has");
            self.0.push(sentence);
        }
        value.map(|value| value.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::Doubts;
    use crate::{Host, Root};

    #[test]
    fn what_no_machine_has_is_absent_and_named_once() {
        let mut doubts = Doubts::default();
        for text in ["0", "-1", "<unknown>", "", "nan", "inf", "1", "18446744073709551615"] {
            let read = doubts.number("cpu.max_hz", ("max_freq", "CPU 0"), text, 1e3);
            assert_eq!(read, None, "{text}");
        }
        assert!(doubts.0.len() == 1 && doubts.0[0].contains("CPU 0 is \"0\""), "{:?}", doubts.0);
        let fine = doubts.number("cpu.max_hz", ("max_freq", "CPU 0"), "3529052\n", 1e3);
        assert_eq!((fine, doubts.0.len()), (Some(3_529_052_000), 1));
    }

    #[test]
    fn clocks_caches_and_memory_are_held_to_the_same_table() {
        let dir = "sys/devices/system/cpu/cpu0";
        let host = |vendor: &str, max: &str, nominal: &str| {
            Host::read(&Root::tree(&format!(
                "== proc/cpuinfo\nprocessor: 0\nvendor_id: {vendor}\ncpu MHz: 0.000\n\
                 == {dir}/cpufreq/cpuinfo_max_freq\n{max}\n== {dir}/acpi_cppc/nominal_freq\n{nominal}\n\
                 == {dir}/acpi_cppc/nominal_perf\n100\n== {dir}/acpi_cppc/highest_perf\n150\n\
                 == {dir}/cache/index0/level\n1\n== {dir}/cache/index0/type\nData\n\
                 == {dir}/cache/index0/size\n0K\n== proc/meminfo\nMemTotal: 1 kB\n\
                 == cpuid.txt\n15 0 1 2 7 0\n16 0 1 ffff 0 0\n"
            )))
        };
        for (vendor, max, nominal, base_hz, max_hz) in [
            ("AuthenticAMD", "4900000", "3400", Some(3_400_000_000), Some(4_900_000_000)),
            // CPPC's highest clock stands in for what cpufreq cannot mean.
            ("AuthenticAMD", "7326562", "3400", Some(3_400_000_000), Some(5_100_000_000)),
            ("AuthenticAMD", "6116015", "0", None, None),
            ("GenuineIntel", "6200000", "0", None, Some(6_200_000_000)),
            ("GenuineIntel", "<unknown>", "99999999", None, None),
        ] {
            let host = host(vendor, max, nominal);
            let found = &host.cpu.cpus[0].frequency;
            assert_eq!((found.base_hz, found.max_hz), (base_hz, max_hz), "{vendor} {max}");
            assert_eq!(host.cpu.cpuid_frequency, Default::default());
            assert!(host.cache.levels.is_empty() && host.memory.total_bytes.is_none());
            let named = |source: &str| host.doubts.iter().any(|doubt| doubt.starts_with(source));
            assert!(named("cpu MHz") && named("cache size") && named("MemTotal"));
            assert_eq!(
                named("cpufreq/cpuinfo_max_freq"),
                max_hz.is_none_or(|hz| hz == 5_100_000_000)
            );
        }
    }
}
