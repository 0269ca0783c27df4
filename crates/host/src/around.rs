//! What is around this system: a hypervisor below it, a container above it.

use super::kernel::{Container, Virtualisation};
use super::{Outside, Root};

/// Hypervisor, from CPUID 40000000h, `/sys/hypervisor`, the device tree and DMI.
pub(super) fn virtualisation(root: &Root, outside: &Outside) -> Virtualisation {
    let dmi = |name: &str| root.line(&format!("sys/class/dmi/id/{name}"));
    let (system_vendor, product) = (dmi("sys_vendor"), dmi("product_name"));
    let signature = outside.leaf(0x4000_0000, 0).map(|leaf| {
        let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
        String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_string()
    });
    // CPUID 1 ECX bit 31 is reserved for hypervisors to set (Intel SDM 2A, AMD APM 3).
    let bit = outside.leaf(1, 0).map(|leaf| leaf.ecx >> 31 == 1);
    let guest_bit = bit.or_else(|| flag_of_cpuinfo(root));
    let signature = signature.filter(|_| guest_bit != Some(false));
    let from_dmi = || hypervisor_of_dmi(system_vendor.as_deref()?, product.as_deref());
    let named = || signature.as_deref().and_then(hypervisor_of_signature).map(str::to_string);
    let xen = |kind: String| if kind == "xen" { "Xen".to_owned() } else { kind };
    let in_tree = || root.exists("proc/device-tree/hypervisor/compatible");
    let hypervisor = named()
        .or_else(|| root.line("sys/hypervisor/type").map(xen))
        .or_else(|| in_tree().then(|| "KVM".to_string()))
        .or_else(|| from_dmi().map(str::to_string));
    Virtualisation {
        is_guest: if hypervisor.is_some() { Some(true) } else { guest_bit },
        hypervisor,
        system_vendor,
        product,
    }
}

fn flag_of_cpuinfo(root: &Root) -> Option<bool> {
    let text = root.read("proc/cpuinfo")?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn hypervisor_of_signature(signature: &str) -> Option<&'static str> {
    let table = [
        ("KVMKVMKVM", "KVM"),
        ("Linux KVM Hv", "KVM"),
        ("VMwareVMware", "VMware"),
        ("Microsoft Hv", "Hyper-V"),
        ("XenVMMXenVMM", "Xen"),
        ("TCGTCGTCGTCG", "QEMU (emulated)"),
        ("bhyve bhyve", "bhyve"),
        ("prl hyperv", "Parallels"),
        ("ACRNACRNACRN", "ACRN"),
    ];
    table.iter().find(|(name, _)| signature.trim() == *name).map(|(_, kind)| *kind)
}

/// Only names that never stand for a whole physical machine. `Amazon EC2` does on metal instances,
/// whose product ends in `.metal`.
fn hypervisor_of_dmi(vendor: &str, product: Option<&str>) -> Option<&'static str> {
    let product = product.unwrap_or_default();
    match vendor {
        "QEMU" => Some("KVM"),
        "Amazon EC2" if !product.contains("metal") => Some("KVM"),
        "Google" if product == "Google Compute Engine" => Some("KVM"),
        "Microsoft Corporation" if product == "Virtual Machine" => Some("Hyper-V"),
        "VMware, Inc." => Some("VMware"),
        "Xen" => Some("Xen"),
        "innotek GmbH" => Some("VirtualBox"),
        "Parallels International GmbH." => Some("Parallels"),
        _ => None,
    }
}

/// Marks that container runtimes leave. A mark is evidence, not proof: images of virtual machines
/// are sometimes built from containers and keep `/.dockerenv`.
pub(super) fn container(root: &Root) -> Container {
    let mut runtime = None;
    let mut evidence = Vec::new();
    let mut mark = |name: &str, fact: String| {
        runtime.get_or_insert_with(|| name.to_string());
        evidence.push(fact);
    };
    // gVisor's /proc/version is fixed text.
    if root.line("proc/version").is_some_and(|text| text.contains("gVisor")) {
        mark("gvisor", "/proc/version names gVisor".to_string());
    }
    let environ = root.read("proc/1/environ").unwrap_or_default();
    if let Some(name) = environ.split('\0').find_map(|entry| entry.strip_prefix("container=")) {
        mark(name, format!("init was started with container={name}"));
    }
    for name in ["run/systemd/container", "run/host/container-manager"] {
        if let Some(text) = root.line(name) {
            mark(&text, format!("/{name} says {text}"));
        }
    }
    for (runtime, path) in [
        ("podman", "run/.containerenv"),
        ("kubernetes", "run/secrets/kubernetes.io"),
        ("docker", ".dockerenv"),
    ] {
        if root.exists(path) {
            mark(runtime, format!("/{path} exists"));
        }
    }
    let groups = root.read("proc/self/cgroup").unwrap_or_default();
    let runtimes = ["kubernetes", "docker", "podman", "lxc", "garden"];
    let marks = ["kubepods", "docker", "libpod", "lxc", "garden"].into_iter().zip(runtimes);
    for (word, name) in marks {
        if groups.lines().any(|line| line.contains(word)) {
            mark(name, format!("/proc/self/cgroup names {word}"));
        }
    }
    Container { runtime, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_name_the_runtime() {
        let check = |tree: &str, runtime: Option<&str>| {
            assert_eq!(container(&Root::tree(tree)).runtime.as_deref(), runtime, "{tree}");
        };
        check("", None);
        check("== .dockerenv\n", Some("docker"));
        check("== run/.containerenv\n== .dockerenv\n", Some("podman"));
        check("== proc/1/environ\nPATH=/bin\0container=lxc\0\n", Some("lxc"));
        check("== proc/self/cgroup\n0::/kubepods.slice/x\n", Some("kubernetes"));
        check("== proc/self/cgroup\n0::/user.slice\n", None);
    }

    #[test]
    fn hypervisors_are_named() {
        let check = |tree: &str, guest: Option<bool>, name: Option<&str>| {
            let root = Root::tree(tree);
            let found = virtualisation(&root, &Outside::recorded(&root));
            assert_eq!((found.is_guest, found.hypervisor.as_deref()), (guest, name), "{tree}");
        };
        check("", None, None);
        let guest = "== cpuid.txt\n1 0 0 0 80000000 0\n40000000 0 0 4b4d564b 564b4d56 4d\n";
        check(guest, Some(true), Some("KVM"));
        // A bare machine answers leaf 40000000h with the highest basic leaf's data.
        check("== cpuid.txt\n1 0 0 0 0 0\n40000000 0 0 4b4d564b 564b4d56 4d\n", Some(false), None);
        let amazon =
            "== sys/class/dmi/id/sys_vendor\nAmazon EC2\n== sys/class/dmi/id/product_name\n";
        check(&format!("{amazon}c7g.metal\n"), None, None);
        check(&format!("{amazon}c7g.large\n"), Some(true), Some("KVM"));
        check("== proc/cpuinfo\nflags\t\t: fpu hypervisor\n", Some(true), None);
    }
}
