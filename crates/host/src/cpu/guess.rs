//! Which core this is: model number, checked against features and caches.

use serde::{Deserialize, Serialize};

use super::super::cache::{CacheKind, Caches};
use super::{Arch, Core, Cpu, arm};

/// Which core this is, and how sure that is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Microarchitecture {
    /// The design that features, caches and model number support best. On a hybrid machine the
    /// performance core.
    pub core: Core,
    /// Product family (`Granite Rapids`, `Milan`), where the evidence names one.
    pub platform: Option<String>,
    /// What the model number alone says; `None` where it says nothing.
    pub by_model: Option<Core>,
    /// What led to `core`, one fact each.
    pub evidence: Vec<String>,
    /// How model number and features contradict each other: a masked model number.
    pub contradiction: Option<String>,
}

impl Microarchitecture {
    pub(super) fn unknown() -> Microarchitecture {
        Microarchitecture {
            core: Core::Unknown,
            platform: None,
            by_model: None,
            evidence: Vec::new(),
            contradiction: None,
        }
    }
}

/// Sizes that distinguish designs, in KiB; of the first CPU.
#[derive(Clone, Copy)]
struct Sizes {
    l1d: Option<u64>,
    l1i: Option<u64>,
    l2: Option<u64>,
}

/// The design that the evidence supports best. A hypervisor may mask the model number, and hide
/// features, but it cannot make a core run instructions that it does not have: features beyond the
/// model's design refute the model number; features below it do not.
pub(super) fn guess(cpu: &Cpu, caches: &Caches) -> Microarchitecture {
    if cpu.arch == Arch::Aarch64 {
        return arm_guess(cpu);
    }
    let sizes = sizes(cpu, caches);
    let (by_model, platform) = by_model(cpu);
    let (by_features, mut evidence) = by_features(cpu, sizes);
    if let (Some(core), Some(family), Some(model)) = (by_model, cpu.family, cpu.model) {
        evidence.insert(0, format!("family {family} model {model} is {}", core.name()));
    }
    let mut doubts = Vec::new();
    let mut core = by_model.unwrap_or(by_features);
    let mut platform = platform.map(str::to_string);
    if let Some(model_core) = by_model.filter(|&named| exceeds(cpu, by_features, named)) {
        doubts.push(format!(
            "the model number says {}, features and caches say {}",
            model_core.name(),
            by_features.name()
        ));
        core = by_features;
        platform = None;
    }
    let expected = by_model.map_or(&[][..], Core::l2_kib);
    if let (Some(l2), Some(model_core), false) = (sizes.l2, by_model, expected.is_empty())
        && !expected.contains(&l2)
    {
        doubts.push(format!("L2 is {l2} KiB, which no {} has", model_core.name()));
    }
    if platform.is_none() {
        platform = platform_by_features(core, cpu).map(str::to_string);
    }
    let contradiction = (!doubts.is_empty()).then(|| doubts.join("; "));
    Microarchitecture { core, platform, by_model, evidence, contradiction }
}

fn arm_guess(cpu: &Cpu) -> Microarchitecture {
    // The strongest core: of the kind that sorts first.
    let strongest = cpu.cpus.iter().filter(|one| one.midr.is_some()).min_by_key(|one| one.kind);
    let Some(midr) = strongest.and_then(|one| one.midr).or(cpu.midr) else {
        return Microarchitecture::unknown();
    };
    let core = arm::part(midr);
    Microarchitecture {
        core,
        platform: None,
        by_model: (core != Core::Unknown).then_some(core),
        evidence: vec![format!("main ID register {midr:#010x} is {}", core.name())],
        contradiction: None,
    }
}

/// Whether features prove a later design than the model number names. Designs of one line are
/// declared in order of age. No small core has 512-bit vectors.
fn exceeds(cpu: &Cpu, by_features: Core, by_model: Core) -> bool {
    let small = Core::Silvermont..=Core::Skymont;
    match (small.contains(&by_features), small.contains(&by_model)) {
        (false, true) => cpu.has("avx512f"),
        (true, false) => false,
        _ => by_features > by_model,
    }
}

fn sizes(cpu: &Cpu, caches: &Caches) -> Sizes {
    let first = cpu.cpus.iter().find(|one| one.online).map(|one| one.id);
    let size = |level: u32, kind: CacheKind| {
        let of_first = caches.levels.iter().find(|cache| {
            let here =
                first.is_some_and(|id| cache.shared_by.iter().any(|group| group.contains(&id)));
            cache.level == level && cache.kind == kind && (here || cache.shared_by.is_empty())
        });
        of_first.map(|cache| cache.size_bytes / 1024)
    };
    Sizes {
        l1d: size(1, CacheKind::Data),
        l1i: size(1, CacheKind::Instruction),
        l2: size(2, CacheKind::Unified),
    }
}

/// Design by features and cache sizes, latest first, with the facts that decided.
fn by_features(cpu: &Cpu, sizes: Sizes) -> (Core, Vec<String>) {
    let mut seen = Vec::new();
    let core = match cpu.vendor.as_deref() {
        Some("GenuineIntel") => intel_by_features(cpu, sizes, &mut seen),
        Some("AuthenticAMD" | "HygonGenuine") => amd_by_features(cpu, &mut seen),
        _ => Core::Unknown,
    };
    (core, seen)
}

/// Features and the designs that brought them, latest first: with and without 512-bit vectors.
const LADDER_512: [(&str, Core); 5] = [
    ("avx512_fp16", Core::GoldenCove),
    ("avx512_vp2intersect", Core::WillowCove),
    ("avx512_bitalg", Core::SunnyCove),
    ("avx512_vbmi2", Core::SunnyCove),
    ("avx512f", Core::SkylakeServer),
];
const LADDER: [(&str, Core); 5] = [
    ("avx2", Core::Haswell),
    ("f16c", Core::IvyBridge),
    ("avx", Core::SandyBridge),
    ("aes", Core::Westmere),
    ("sse4_2", Core::Nehalem),
];

fn intel_by_features(cpu: &Cpu, sizes: Sizes, seen: &mut Vec<String>) -> Core {
    let mut has = |name: &str| {
        let found = cpu.has(name);
        if found {
            seen.push(name.to_string());
        }
        found
    };
    let core = if has("amx_tile") {
        let later = ["amx_fp16", "amx_complex", "prefetchi", "avx10"].map(&mut has).contains(&true);
        if later || sizes.l1i == Some(64) { Core::RedwoodCove } else { Core::GoldenCove }
    } else if let Some((_, core)) = LADDER_512.iter().find(|(name, _)| has(name)) {
        *core
    } else if has("avx_vnni") {
        match (sizes.l1d, sizes.l1i, sizes.l2) {
            (Some(32), Some(64), _) => Core::Gracemont,
            (_, _, Some(2560 | 3072)) => Core::LionCove,
            (_, Some(64), Some(2048)) => Core::RedwoodCove,
            (_, _, Some(2048)) => Core::RaptorCove,
            _ => Core::GoldenCove,
        }
    } else if has("clflushopt") && has("avx2") {
        Core::SkylakeClient
    } else if has("rdseed") && has("avx2") {
        Core::Broadwell
    } else {
        let rung = LADDER.iter().find(|(name, _)| has(name));
        rung.map_or(Core::Unknown, |(_, core)| *core)
    };
    for (name, size) in [("L1i", sizes.l1i), ("L1d", sizes.l1d), ("L2", sizes.l2)] {
        seen.extend(size.map(|kib| format!("{name} {kib} KiB")));
    }
    core
}

fn amd_by_features(cpu: &Cpu, seen: &mut Vec<String>) -> Core {
    let ladder = [
        ("avx512_vp2intersect", Core::Zen5),
        ("avx512f", Core::Zen4),
        ("vaes", Core::Zen3),
        ("wbnoinvd", Core::Zen2),
        ("sha_ni", Core::Zen),
        ("fma4", Core::Bulldozer),
    ];
    let step = ladder.iter().find(|(name, _)| cpu.has(name));
    seen.extend(step.map(|(name, _)| name.to_string()));
    step.map_or(Core::Unknown, |&(_, core)| core)
}

/// Product family where the design and the features leave one choice.
fn platform_by_features(core: Core, cpu: &Cpu) -> Option<&'static str> {
    match core {
        Core::RedwoodCove if cpu.has("amx_tile") => Some("Granite Rapids"),
        Core::GoldenCove if cpu.has("amx_tile") => Some("Sapphire Rapids or Emerald Rapids"),
        _ => None,
    }
}

/// Design and product family by family and model number (Linux
/// `arch/x86/include/asm/intel-family.h` and AMD's processor programming references).
fn by_model(cpu: &Cpu) -> (Option<Core>, Option<&'static str>) {
    let (Some(family), Some(model)) = (cpu.family, cpu.model) else { return (None, None) };
    match cpu.vendor.as_deref() {
        Some("GenuineIntel") if family == 6 => intel_model(model, cpu.stepping),
        Some("AuthenticAMD") => amd_model(family, model),
        Some("HygonGenuine") if family == 0x18 => (Some(Core::Zen), Some("Dhyana")),
        _ => (None, None),
    }
}

fn intel_model(model: u32, stepping: Option<u32>) -> (Option<Core>, Option<&'static str>) {
    let (core, platform) = match model {
        0x0f | 0x16 | 0x17 | 0x1d => (Core::Core2, ""),
        0x1a | 0x1e | 0x1f | 0x2e => (Core::Nehalem, ""),
        0x25 | 0x2c | 0x2f => (Core::Westmere, ""),
        0x2a => (Core::SandyBridge, ""),
        0x2d => (Core::SandyBridge, "Sandy Bridge-EP"),
        0x3a => (Core::IvyBridge, ""),
        0x3e => (Core::IvyBridge, "Ivy Bridge-EP"),
        0x3c | 0x45 | 0x46 => (Core::Haswell, ""),
        0x3f => (Core::Haswell, "Haswell-EP"),
        0x3d | 0x47 => (Core::Broadwell, ""),
        0x4f | 0x56 => (Core::Broadwell, "Broadwell-EP"),
        0x4e | 0x5e => (Core::SkylakeClient, "Skylake"),
        0x8e | 0x9e => (Core::SkylakeClient, "Kaby Lake or Coffee Lake"),
        0xa5 | 0xa6 => (Core::SkylakeClient, "Comet Lake"),
        0x55 => match stepping {
            Some(0..=4) => (Core::SkylakeServer, "Skylake-SP"),
            Some(5..=7) => (Core::SkylakeServer, "Cascade Lake"),
            Some(10 | 11) => (Core::SkylakeServer, "Cooper Lake"),
            _ => (Core::SkylakeServer, ""),
        },
        0x66 => (Core::PalmCove, "Cannon Lake"),
        0x7d | 0x7e => (Core::SunnyCove, "Ice Lake"),
        0x6a | 0x6c => (Core::SunnyCove, "Ice Lake-SP"),
        0x8c | 0x8d => (Core::WillowCove, "Tiger Lake"),
        0xa7 => (Core::CypressCove, "Rocket Lake"),
        0x97 | 0x9a => (Core::GoldenCove, "Alder Lake"),
        0x8f => (Core::GoldenCove, "Sapphire Rapids"),
        0xb7 | 0xba | 0xbf => (Core::RaptorCove, "Raptor Lake"),
        0xcf => (Core::RaptorCove, "Emerald Rapids"),
        0xaa | 0xac => (Core::RedwoodCove, "Meteor Lake"),
        0xad | 0xae => (Core::RedwoodCove, "Granite Rapids"),
        0xb5 => (Core::RedwoodCove, "Arrow Lake-U"),
        0xc5 | 0xc6 => (Core::LionCove, "Arrow Lake"),
        0xbd => (Core::LionCove, "Lunar Lake"),
        0x37 | 0x4a | 0x4c | 0x4d | 0x5a | 0x5d => (Core::Silvermont, ""),
        0x5c | 0x5f | 0x7a => (Core::Goldmont, ""),
        0x86 | 0x96 | 0x9c => (Core::Tremont, ""),
        0xbe => (Core::Gracemont, "Alder Lake-N"),
        0xaf => (Core::Crestmont, "Sierra Forest"),
        0xb6 => (Core::Crestmont, "Grand Ridge"),
        _ => return (None, None),
    };
    (Some(core), (!platform.is_empty()).then_some(platform))
}

fn amd_model(family: u32, model: u32) -> (Option<Core>, Option<&'static str>) {
    let (core, platform) = match (family, model) {
        (0x15, _) => (Core::Bulldozer, ""),
        (0x17, 0x01) => (Core::Zen, "Naples or Summit Ridge"),
        (0x17, 0x00..=0x2f) => (Core::Zen, ""),
        (0x17, 0x31) => (Core::Zen2, "Rome"),
        (0x17, 0x71) => (Core::Zen2, "Matisse"),
        (0x17, _) => (Core::Zen2, ""),
        (0x19, 0x00 | 0x01) => (Core::Zen3, "Milan"),
        (0x19, 0x21) => (Core::Zen3, "Vermeer"),
        (0x19, 0x10..=0x1f) => (Core::Zen4, "Genoa"),
        (0x19, 0x60..=0x6f) => (Core::Zen4, "Raphael"),
        (0x19, 0x70..=0x7f) => (Core::Zen4, "Phoenix"),
        (0x19, 0xa0..=0xaf) => (Core::Zen4, "Bergamo"),
        (0x19, 0x20..=0x5f | 0x00..=0x0f) => (Core::Zen3, ""),
        (0x1a, 0x00..=0x1f) => (Core::Zen5, "Turin"),
        (0x1a, _) => (Core::Zen5, ""),
        _ => return (None, None),
    };
    (Some(core), (!platform.is_empty()).then_some(platform))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Root};

    /// A machine with one CPU; sizes in KiB of L1i and L2.
    fn guessed(
        family: u32,
        model: u32,
        vendor: &str,
        flags: &str,
        l1i: u32,
        l2: u32,
    ) -> Microarchitecture {
        let index = |n: u32, level: u32, kind: &str, kib: u32| {
            let dir = format!("sys/devices/system/cpu/cpu0/cache/index{n}");
            format!("== {dir}/level\n{level}\n== {dir}/type\n{kind}\n== {dir}/size\n{kib}K\n")
        };
        let tree = format!(
            "== proc/cpuinfo\nprocessor : 0\nvendor_id : {vendor}\ncpu family : {family}\nmodel : {model}\n\
             stepping : 1\nflags : {flags}\n{}{}",
            index(1, 1, "Instruction", l1i),
            index(2, 2, "Unified", l2)
        );
        Host::read(&Root::tree(&tree)).cpu.microarchitecture
    }

    #[test]
    fn a_model_stands_unless_features_exceed_it() {
        let later = "avx avx2 rdseed clflushopt avx512f avx512_bitalg avx512_vbmi2";
        for (model, flags, l2, core) in [
            // Features may be hidden.
            (0x8f, "avx avx2 rdseed clflushopt", 2048, Core::GoldenCove),
            (0xa7, later, 512, Core::CypressCove),
        ] {
            let found = guessed(6, model, "GenuineIntel", flags, 32, l2);
            assert_eq!((found.core, found.contradiction), (core, None));
        }
        let named = guessed(6, 0x8f, "GenuineIntel", "avx avx2", 32, 2048);
        assert_eq!(named.platform.as_deref(), Some("Sapphire Rapids"));
        // An invented cache is doubted and the model kept.
        let found = guessed(6, 0x55, "GenuineIntel", "avx avx2 clflushopt avx512f", 32, 4096);
        assert_eq!(found.core, Core::SkylakeServer);
        assert!(found.contradiction.is_some_and(|doubt| doubt.contains("4096 KiB")));
    }

    #[test]
    fn features_decide_where_the_model_is_not_known() {
        let intel = |flags: &str, l1i, l2| guessed(6, 0xfe, "GenuineIntel", flags, l1i, l2).core;
        let vnni = "avx avx2 rdseed clflushopt avx_vnni";
        assert_eq!(intel(vnni, 64, 2048), Core::RedwoodCove);
        assert_eq!(intel(vnni, 32, 2048), Core::RaptorCove);
        assert_eq!(intel("avx avx2", 32, 256), Core::Haswell);
        assert_eq!(intel("", 32, 256), Core::Unknown);
        let amd = guessed(0x1b, 1, "AuthenticAMD", "sha_ni vaes avx512f", 32, 1024);
        assert_eq!((amd.core, amd.by_model), (Core::Zen4, None));
        let masked = guessed(0x17, 0x31, "AuthenticAMD", "sha_ni vaes avx512f", 32, 1024);
        assert_eq!(masked.core, Core::Zen4);
        assert!(masked.contradiction.is_some());
    }
}
