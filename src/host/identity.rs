//! What does not change from boot to boot.

use serde::{Deserialize, Serialize};

use super::{Caches, Cpu, Kernel, Memory, Outside, Root};

/// A machine's stable identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
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
    add(
        "cpu.stepping",
        cpu.stepping.map(|number| number.to_string()),
    );
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
        memory
            .total_bytes
            .map(|bytes| ((bytes + (1 << 29)) >> 30).to_string()),
    );
    add("product", kernel.virtualisation.product.clone());
    add("vendor", kernel.virtualisation.system_vendor.clone());
    add("machine-id", machine_id(root));
    parts.sort();
    let hash = format!("{:016x}", fnv1a(parts.join("\n").as_bytes()));
    Identity { hash, parts }
}

/// Hash of the features. CPUID leaves 1 (ECX, EDX) and 7 where they are known, because a newer
/// kernel prints more flags for the same processor; bits that the system switches are masked:
/// OSXSAVE (leaf 1 ECX 27), the APIC's (leaf 1 EDX 9) and OSPKE (leaf 7 ECX 4).
fn features(outside: &Outside, cpu: &Cpu) -> Option<String> {
    let mut bytes = Vec::new();
    if let (Some(one), Some(seven)) = (outside.leaf(1, 0), outside.leaf(7, 0)) {
        let words = [
            one.ecx & !(1 << 27),
            one.edx & !(1 << 9),
            seven.ebx,
            seven.ecx & !(1 << 4),
            seven.edx,
        ];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    } else {
        bytes.extend(cpu.flags.join(" ").into_bytes());
    }
    (!bytes.is_empty()).then(|| format!("{:016x}", fnv1a(&bytes)))
}

/// Never the id itself: systemd asks that it be kept confidential (machine-id(5)).
fn machine_id(root: &Root) -> Option<String> {
    let id = root
        .line("etc/machine-id")
        .filter(|id| id != "uninitialized")?;
    Some(format!("{:016x}", fnv1a(format!("plumb {id}").as_bytes())))
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).
fn fnv1a(bytes: &[u8]) -> u64 {
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
    fn the_machine_id_itself_is_not_shown() {
        let root = Root::tree("== etc/machine-id\n0123456789abcdef0123456789abcdef\n");
        let shown = machine_id(&root).expect("there is an id");
        assert!(!shown.contains("0123456789abcdef"));
    }
}
