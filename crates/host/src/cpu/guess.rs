//! Which core this is: model number, checked against features and caches.

use serde::{Deserialize, Serialize};

use super::super::cache::{CacheKind, Caches};
use super::{Core, Cpu, arm, table};

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

/// Sizes that distinguish designs, in KiB; of the first big CPU.
#[derive(Clone, Copy)]
struct Sizes {
    l1d: Option<u64>,
    l1i: Option<u64>,
    l2: Option<u64>,
}

/// Families whose model numbers hypervisors invent: 6 and 15 are those of QEMU's own models (`qemu64`,
/// `kvm64`, `qemu32`).
const MASKED_FAMILIES: [u32; 2] = [6, 15];

/// The x86 design that the evidence supports best. A hypervisor may mask the model number, and hide
/// features, but it cannot make a core run instructions that it does not have: features beyond the
/// model's design refute the model number; features below it do not. Features alone name a design
/// only in a virtual machine: without one, a number that no table has is a design that no table has.
pub(super) fn x86_guess(cpu: &Cpu, caches: &Caches, is_guest: bool) -> Microarchitecture {
    let sizes = sizes(cpu, caches);
    // No virtual machine runs on a real processor of family 15.
    let row = table::model_of(cpu).filter(|_| !(is_guest && cpu.family == Some(15)));
    let (by_model, platform) = row.map_or((None, None), |row| (Some(row.core), row.platform));
    let may_be_masked = is_guest && cpu.family.is_none_or(|one| MASKED_FAMILIES.contains(&one));
    let (by_features, mut evidence) = match by_model.is_some() || may_be_masked {
        true => by_features(cpu, sizes),
        false => (Core::Unknown, Vec::new()),
    };
    if let (Some(family), Some(model)) = (cpu.family, cpu.model) {
        let is = by_model.map_or("in no table of designs", Core::name);
        evidence.insert(0, format!("family {family} model {model} is {is}"));
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

/// The strongest Arm core: of the kind that sorts first.
pub(super) fn arm_guess(cpu: &Cpu) -> Microarchitecture {
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
/// declared in order of age. No small core has 512-bit vectors, and Xeon Phi has the first ones.
fn exceeds(cpu: &Cpu, by_features: Core, by_model: Core) -> bool {
    let small = Core::Bonnell..=Core::ArcticWolf;
    match (small.contains(&by_features), small.contains(&by_model)) {
        _ if (Core::KnightsLanding..=Core::KnightsMill).contains(&by_model) => cpu.has("avx512bw"),
        (false, true) => cpu.has("avx512f"),
        (true, false) => false,
        _ => by_features > by_model,
    }
}

fn sizes(cpu: &Cpu, caches: &Caches) -> Sizes {
    // The big core of a hybrid machine has the larger first cache.
    let bytes = |id: &usize| caches.data(1, *id).map(|cache| cache.size_bytes);
    let online = cpu.cpus.iter().filter(|one| one.online).map(|one| one.id).rev();
    let first = online.max_by_key(bytes);
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
const LADDER_512: [(&str, Core); 7] = [
    ("avx512_4vnniw", Core::KnightsMill),
    ("avx512er", Core::KnightsLanding),
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
        let vnni = "avx avx2 rdseed clflushopt avx_vnni hypervisor";
        assert_eq!(intel(vnni, 64, 2048), Core::RedwoodCove);
        assert_eq!(intel(vnni, 32, 2048), Core::RaptorCove);
        assert_eq!(intel("avx avx2 hypervisor", 32, 256), Core::Haswell);
        assert_eq!(intel("hypervisor", 32, 256), Core::Unknown);
        let qemu64 = "sha_ni vaes avx512f hypervisor";
        let amd = guessed(0xf, 107, "AuthenticAMD", qemu64, 32, 1024);
        assert_eq!((amd.core, amd.by_model), (Core::Zen4, None));
        let masked = guessed(0x17, 0x31, "AuthenticAMD", "sha_ni vaes avx512f", 32, 1024);
        assert_eq!(masked.core, Core::Zen4);
        assert!(masked.contradiction.is_some());
    }
}
