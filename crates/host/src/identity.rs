//! What does not change from boot to boot.

use record::order::InOrder;
use serde::{Deserialize, Serialize};

use super::{Caches, Cpu, Kernel, Memory, Outside, Root};

/// A machine's stable identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// 16 hexadecimal digits: FNV-1a over `parts`.
    pub hash: String,
    /// What went into it, `name=value` each, sorted by name; the machine id only as a hash.
    pub parts: Vec<String>,
}

/// The identity of the machine under `root`. Left out on purpose: frequencies, bogomips, microcode
/// (it changes with an update), CPUs that are online now (present ones count), kernel, interface
/// names and addresses, free memory.
pub(super) fn of(
    root: &Root,
    outside: &Outside,
    cpu: &Cpu,
    caches: &Caches,
    memory: &Memory,
    kernel: &Kernel,
) -> Identity {
    let mut parts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        parts.extend(value.map(|value| format!("{name}={value}")));
    };
    add("arch", Some(format!("{:?}", cpu.arch).to_lowercase()));
    add("cpu.vendor", cpu.vendor.clone());
    add("cpu.name", cpu.model_name.clone());
    add("cpu.family", cpu.family.map(|number| number.to_string()));
    add("cpu.model", cpu.model.map(|number| number.to_string()));
    add("cpu.stepping", cpu.stepping.map(|number| number.to_string()));
    add("cpu.midr", cpu.midr.map(|midr| format!("{midr:#x}")));
    add("cpu.features", features(outside, cpu));
    add("cpu.count", Some(cpu.cpus.len().to_string()));
    for cache in &caches.levels {
        // Instances follow the CPUs that are online: only the geometry counts.
        add(
            &format!("cache.l{}.{:?}", cache.level, cache.kind).to_lowercase(),
            Some(cache.size_bytes.to_string()),
        );
    }
    // The kernel takes a share that changes with its version and command line: whole GiB.
    add(
        "memory.gib",
        memory.total_bytes.map(|bytes| (bytes.saturating_add(1 << 29) >> 30).to_string()),
    );
    add("product", kernel.virtualisation.product.clone());
    add("vendor", kernel.virtualisation.system_vendor.clone());
    add("machine-id", machine_id(root));
    parts.order();
    let hash = format!("{:016x}", fnv1a(parts.join("\n").as_bytes()));
    Identity { hash, parts }
}

/// Hash of the features: CPUID leaves 1 (ECX, EDX) and 7 where they are known, because a newer
/// kernel prints more flags for the same processor. Left out are bits that the system switches and
/// bits that microcode updates add or take away.
fn features(outside: &Outside, cpu: &Cpu) -> Option<String> {
    const OSXSAVE: u32 = 1 << 27;
    const APIC: u32 = 1 << 9;
    const OSPKE: u32 = 1 << 4;
    const HLE_RTM: u32 = 1 << 4 | 1 << 11;
    // SRBDS_CTRL, MD_CLEAR, RTM_ALWAYS_ABORT, TSX_FORCE_ABORT, and the speculation controls.
    const MITIGATIONS: u32 = 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 0x3f << 26;
    let mut bytes = Vec::new();
    if let (Some(one), Some(seven)) = (outside.leaf(1, 0), outside.leaf(7, 0)) {
        let words = [
            one.ecx & !OSXSAVE,
            one.edx & !APIC,
            seven.ebx & !HLE_RTM,
            seven.ecx & !OSPKE,
            seven.edx & !MITIGATIONS,
        ];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    } else {
        bytes.extend(cpu.flags.join(" ").into_bytes());
    }
    (!bytes.is_empty()).then(|| format!("{:016x}", fnv1a(&bytes)))
}

/// Never the id itself: systemd asks that it be kept confidential (machine-id(5)).
fn machine_id(root: &Root) -> Option<String> {
    let id = root.line("etc/machine-id").filter(|id| id != "uninitialized")?;
    Some(format!("{:016x}", fnv1a(format!("plumb {id}").as_bytes())))
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_of_fnv1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn microcode_does_not_make_another_machine() {
        let hash = |leaves: &str| {
            let root = Root::tree(&format!("== cpuid.txt\n{leaves}"));
            crate::Host::read(&root).identity.hash
        };
        let before = hash("1 0 0 0 fffa3203 1f8bfbff\n7 0 2 f1bf2ffb 1a415f46 23c14010\n");
        let patched = hash("1 0 0 0 fffa3203 1f8bfbff\n7 0 2 f1bf27eb 1a415f46 afc14610\n");
        assert_eq!(before, patched);
        let other = hash("1 0 0 0 fffa3203 1f8bfbff\n7 0 2 f1be2ffb 1a415f46 23c14010\n");
        assert_ne!(before, other);
    }

    #[test]
    fn the_machine_id_itself_is_not_shown() {
        let root = Root::tree("== etc/machine-id\n0123456789abcdef0123456789abcdef\n");
        let shown = machine_id(&root).expect("there is an id");
        assert!(!shown.contains("0123456789abcdef"));
    }
}
