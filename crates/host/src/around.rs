//! What is around this system: a hypervisor below it, a container above it.

use super::kernel::{Container, Virtualisation};
use super::{Outside, Root, mountinfo};

const CPUINFO: &str = "proc/cpuinfo";
const VERSION: &str = "proc/version";
const RELEASE: &str = "proc/sys/kernel/osrelease";
const TREE: &str = "proc/device-tree/compatible";
const TREE_HYPERVISOR: &str = "proc/device-tree/hypervisor/compatible";
const SYSTEM: &str = "sys/class/dmi/id/sys_vendor";
const PRODUCT: &str = "sys/class/dmi/id/product_name";

/// A file, what stands in it (`*` at an end is any text), and what it is a mark of.
type Mark = (&'static str, &'static str, &'static str);

/// Marks of hypervisors that show another one's CPUID leaves to their guests. The marks of this
/// module are those that systemd (src/basic/virt.c) and virt-what look for, and each maker's own.
const BEFORE_CPUID: &[Mark] = &[
    (CPUINFO, "*User Mode Linux*", "User Mode Linux"),
    ("sys/hypervisor/type", "xen", "Xen"),
    (PRODUCT, "VirtualBox*", "VirtualBox"),
    (SYSTEM, "innotek GmbH*", "VirtualBox"),
    (SYSTEM, "Parallels*", "Parallels"),
    (PRODUCT, "Parallels*", "Parallels"),
    (SYSTEM, "Xen", "Xen"),
    (PRODUCT, "HVM domU*", "Xen"),
];

/// Names of the vendors in CPUID leaves 40000000h, 40000100h, ….
const SIGNATURES: &[(&str, &str)] = &[
    ("KVMKVMKVM", "KVM"),
    ("Linux KVM Hv", "KVM"),
    ("VMwareVMware", "VMware"),
    ("XenVMMXenVMM", "Xen"),
    ("TCGTCGTCGTCG", "QEMU (emulated)"),
    ("VBoxVBoxVBox", "VirtualBox"),
    ("bhyve bhyve", "bhyve"),
    ("prl hyperv", "Parallels"),
    ("lrpepyh  vr", "Parallels"),
    ("Apple VZ", "Apple Virtualization"),
    ("ACRNACRNACRN", "ACRN"),
    ("Jailhouse", "Jailhouse"),
    ("QNXQVMBSQG", "QNX"),
    ("SRESRESRESRE", "Lockheed Martin SRE"),
    ("UnisysSpar64", "Unisys s-Par"),
    ("OpenBSDVMM58", "OpenBSD vmm"),
    ("___ NVMM ___", "NVMM"),
    ("HAXMHAXMHAXM", "HAXM"),
    // Last: KVM, Xen and others show its leaves first, and their own 100h later.
    ("Microsoft Hv", HYPER_V),
];
const HYPER_V: &str = "Hyper-V";

/// Marks where CPUID names none: on Arm, and where it is hidden. Only names that never stand for a
/// whole physical machine, but for `Amazon EC2`, whose metal instances are left out.
const AFTER_CPUID: &[Mark] = &[
    // QEMU's own processor, which no hardware has.
    (CPUINFO, "*CPU part\t: 0x051*", "QEMU (emulated)"),
    (TREE_HYPERVISOR, "*linux,kvm*", "KVM"),
    (TREE_HYPERVISOR, "*xen*", "Xen"),
    (TREE_HYPERVISOR, "*vmware*", "VMware"),
    (TREE_HYPERVISOR, "*jailhouse*", "Jailhouse"),
    (TREE, "*linux,dummy-virt*", "KVM"),
    (SYSTEM, "QEMU*", "KVM"),
    (SYSTEM, "Amazon EC2*", "KVM"),
    (PRODUCT, "Google Compute Engine*", "KVM"),
    (PRODUCT, "KVM*", "KVM"),
    (PRODUCT, "OpenStack*", "KVM"),
    (PRODUCT, "KubeVirt*", "KVM"),
    (PRODUCT, "RHEV Hypervisor*", "KVM"),
    (PRODUCT, "oVirt*", "KVM"),
    (PRODUCT, "AHV*", "KVM"),
    (PRODUCT, "Droplet*", "KVM"),
    (PRODUCT, "vServer*", "KVM"),
    (PRODUCT, "crosvm*", "KVM"),
    (PRODUCT, "cloud-hypervisor*", "KVM"),
    (SYSTEM, "VMware*", "VMware"),
    (PRODUCT, "VMware*", "VMware"),
    (PRODUCT, "Virtual Machine", HYPER_V),
    (RELEASE, "*WSL2*", HYPER_V),
    (RELEASE, "*microsoft-standard*", HYPER_V),
    (SYSTEM, "Bochs*", "Bochs"),
    (PRODUCT, "BHYVE*", "bhyve"),
    (PRODUCT, "Apple Virtualization*", "Apple Virtualization"),
    ("proc/sysinfo", "*z/VM*", "z/VM"),
    ("proc/sysinfo", "*KVM/Linux*", "KVM"),
];

/// Marks of containers; the innermost first. gVisor's version is fixed text (its
/// pkg/sentry/syscalls/linux/linux64.go): 4.4.0, later 4.19.0-gvisor, with one date.
const CONTAINERS: &[Mark] = &[
    (VERSION, "*gvisor*", "gvisor"),
    (VERSION, "*SMP Sun Jan 10 15:06:54 PST 2016*", "gvisor"),
    (RELEASE, "*gvisor*", "gvisor"),
    // CRI-O's containers have Podman's mark too.
    ("run/secrets/kubernetes.io", "*", "kubernetes"),
    ("var/run/secrets/kubernetes.io", "*", "kubernetes"),
    ("run/.containerenv", "*", "podman"),
    (".dockerenv", "*", "docker"),
    (".dockerinit", "*", "docker"),
    (".singularity.d", "*", "apptainer"),
    (".flatpak-info", "*", "flatpak"),
    ("dev/.lxc-boot-id", "*", "lxc"),
    ("dev/.lxc", "*", "lxc"),
    (RELEASE, "*wsl2*", "wsl2"),
    (RELEASE, "*microsoft-standard*", "wsl2"),
    (RELEASE, "*-microsoft", "wsl1"),
    (VERSION, "*microsoft-standard*", "wsl2"),
    (VERSION, "*-microsoft *", "wsl1"),
];

/// Names of control groups that runtimes make, alone or with an end (`docker-1f.scope`).
const GROUPS: &[(&str, &str)] = &[
    ("kubepods", "kubernetes"),
    ("crio", "kubernetes"),
    ("cri-containerd", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("lxc", "lxc"),
    ("garden", "garden"),
    ("systemd-nspawn@", "systemd-nspawn"),
];

/// Whether `text` is a pattern's: `*` at its ends stands for any text.
fn fits(text: &str, pattern: &str) -> bool {
    let middle = pattern.trim_matches('*');
    match (pattern.starts_with('*'), pattern.ends_with('*')) {
        (true, true) => text.contains(middle),
        (true, false) => text.ends_with(middle),
        (false, true) => text.starts_with(middle),
        (false, false) => text == middle,
    }
}

/// The first mark of a table that is there.
fn marked(root: &Root, marks: &[Mark]) -> Option<&'static str> {
    let text = |path: &str| root.line(path).map(|text| text.trim_matches('\0').to_owned());
    let is_there = |(path, pattern, _): &&Mark| text(path).is_some_and(|text| fits(&text, pattern));
    marks.iter().find(is_there).map(|(.., name)| *name)
}

/// Hypervisor, from CPUID, `/sys/hypervisor`, the device tree and DMI.
pub(super) fn virtualisation(root: &Root, outside: &Outside) -> Virtualisation {
    let (system_vendor, product) = (root.line(SYSTEM), root.line(PRODUCT));
    // CPUID 1 ECX bit 31 is reserved for hypervisors to set (Intel SDM 2A, AMD APM 3).
    let bit = outside.leaf(1, 0).map(|leaf| leaf.ecx >> 31 == 1);
    let guest_bit = bit.or_else(|| flag_of_cpuinfo(root));
    let is_metal = product.as_ref().is_some_and(|product| product.contains(".metal"));
    let unknown = || {
        let text = root.line("sys/hypervisor/type").or_else(|| root.line(TREE_HYPERVISOR))?;
        Some(text.split('\0').next().unwrap_or_default().to_owned())
    };
    // QEMU's way to hand files to a guest.
    let has_qemu = || root.list("proc/device-tree").iter().any(|name| name.contains("fw-cfg"));
    let hypervisor = marked(root, BEFORE_CPUID)
        .or_else(|| by_cpuid(outside).filter(|_| guest_bit != Some(false)))
        .or_else(|| marked(root, AFTER_CPUID).filter(|_| !is_metal))
        .or_else(|| has_qemu().then_some("KVM"))
        .map(str::to_owned)
        .or_else(unknown);
    Virtualisation {
        is_guest: if hypervisor.is_some() { Some(true) } else { guest_bit },
        hypervisor,
        system_vendor,
        product,
    }
}

fn flag_of_cpuinfo(root: &Root) -> Option<bool> {
    let text = root.read(CPUINFO)?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The best known of the vendors that the leaves name.
fn by_cpuid(outside: &Outside) -> Option<&'static str> {
    let is_first = |leaf: u32| leaf & 0xffff_00ff == 0x4000_0000;
    let first = outside.cpuid.iter().filter(|leaf| is_first(leaf.leaf) && leaf.subleaf == 0);
    let ranks = first.filter_map(|leaf| {
        let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(['\0', ' ']);
        let row = SIGNATURES.iter().find(|(signature, _)| *signature == text)?;
        Some((row.1 == HYPER_V, leaf.leaf, row.1))
    });
    ranks.min().map(|(.., name)| name)
}

/// Marks that container runtimes leave. A mark is evidence, not proof: images of virtual machines
/// are sometimes built from containers and keep `/.dockerenv`.
pub(super) fn container(root: &Root) -> Container {
    let found = |(path, pattern, name): &Mark| {
        let is_there = match *pattern {
            "*" => root.exists(path),
            _ => root
                .line(path)
                .is_some_and(|text| fits(&text.to_lowercase(), &pattern.to_lowercase())),
        };
        let fact = match *pattern {
            "*" => format!("/{path} exists"),
            _ => format!("/{path} has {}", pattern.trim_matches('*')),
        };
        is_there.then(|| ((*name).to_owned(), fact))
    };
    let (system, files) = CONTAINERS.split_at(3);
    let mut marks: Vec<(String, String)> = system.iter().filter_map(found).collect();
    let environ = root.read("proc/1/environ").unwrap_or_default();
    if let Some(name) = environ.split('\0').find_map(|entry| entry.strip_prefix("container=")) {
        marks.push((name.to_owned(), format!("init was started with container={name}")));
    }
    for path in ["run/systemd/container", "run/host/container-manager"] {
        marks.extend(root.line(path).map(|name| (name.clone(), format!("/{path} says {name}"))));
    }
    marks.extend(files.iter().filter_map(found));
    // The host of OpenVZ's containers has both.
    let is_openvz = root.exists("proc/vz") && !root.exists("proc/bc");
    marks.extend(is_openvz.then(|| ("openvz".to_owned(), "/proc/vz without /proc/bc".to_owned())));
    marks.extend(of_groups(root));
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    // A host has it elsewhere.
    let is_over = |target: &str| target.starts_with("/proc/") || target.starts_with("/sys/");
    let lxcfs =
        mountinfo::mounts(&mounts).find(|one| one.fs == "fuse.lxcfs" && is_over(&one.target));
    marks.extend(
        lxcfs.map(|one| ("lxc".to_owned(), format!("LXCFS is mounted over {}", one.target))),
    );
    // What only says that there is a container, of no runtime in particular.
    let named = marks.iter().find(|(name, _)| !["oci", ""].contains(&&**name));
    let runtime = named.or(marks.first()).map(|(name, _)| name.clone());
    Container { runtime, evidence: marks.into_iter().map(|(_, fact)| fact).collect() }
}

/// The runtimes that made a group above this process.
fn of_groups(root: &Root) -> Vec<(String, String)> {
    let groups = root.read("proc/self/cgroup").unwrap_or_default();
    let parts = || {
        groups
            .lines()
            .filter_map(|line| line.splitn(3, ':').nth(2))
            .flat_map(|path| path.split('/'))
    };
    let is_made = |part: &str, mark: &str| match part.strip_prefix(mark) {
        Some(rest) => {
            rest.is_empty() || mark.ends_with('@') || {
                // The service of the runtime is none of its containers.
                rest.starts_with(['-', '.', ':']) && !part.ends_with(".service")
            }
        }
        None => false,
    };
    let made = GROUPS.iter().filter(|(mark, _)| parts().any(|part| is_made(part, mark)));
    let fact = |(mark, name): &(&str, &str)| {
        ((*name).to_owned(), format!("/proc/self/cgroup names {mark}"))
    };
    made.map(fact).collect()
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
        check("== run/.containerenv\n== run/secrets/kubernetes.io/x\n", Some("kubernetes"));
        check("== run/host/container-manager\nsystemd-nspawn\n", Some("systemd-nspawn"));
        check("== proc/vz/x\n", Some("openvz"));
        for (path, text, runtime) in [
            ("proc/1/environ", "PATH=/bin\0container=lxc\0\n", Some("lxc")),
            ("proc/self/cgroup", "0::/kubepods.slice/x\n", Some("kubernetes")),
            ("proc/self/cgroup", "4:cpu:/docker/1f\n", Some("docker")),
            ("proc/self/cgroup", "0::/x/libpod-1f.scope/container\n", Some("podman")),
            ("proc/self/cgroup", "0::/lxc.payload.web\n", Some("lxc")),
            (
                "proc/self/cgroup",
                "0::/machine.slice/systemd-nspawn@a.service\n",
                Some("systemd-nspawn"),
            ),
            ("proc/self/cgroup", "0::/system.slice/docker.service\n", None),
            ("proc/self/cgroup", "0::/user.slice/my-docker-job\n", None),
            ("proc/self/mountinfo", "9 1 0:9 / /proc/stat rw - fuse.lxcfs lxcfs rw\n", Some("lxc")),
            ("proc/self/mountinfo", "9 1 0:9 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n", None),
            (VERSION, "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n", Some("gvisor")),
            (VERSION, "Linux version 4.4.0 (x) #1 SMP Sun Jan 10 15:06:54 UTC 2016\n", None),
            (RELEASE, "4.19.0-gVisor\n", Some("gvisor")),
            (RELEASE, "5.15.153.1-microsoft-standard-WSL2\n", Some("wsl2")),
            (RELEASE, "4.4.0-19041-Microsoft\n", Some("wsl1")),
            (RELEASE, "6.8.0-1018-azure\n", None),
        ] {
            check(&format!("== {path}\n{text}"), runtime);
        }
    }

    /// A leaf with a vendor's name.
    fn leaf(number: u32, name: &str) -> String {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(12, 0);
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        format!("{number:x} 0 {:x} {:x} {:x} {:x}\n", number + 1, word(0), word(4), word(8))
    }

    #[test]
    fn hypervisors_are_named() {
        let check = |tree: &str, guest: Option<bool>, name: Option<&str>| {
            let root = Root::tree(tree);
            let found = virtualisation(&root, &Outside::recorded(&root));
            assert_eq!((found.is_guest, found.hypervisor.as_deref()), (guest, name), "{tree}");
        };
        check("", None, None);
        check("== proc/cpuinfo\nflags\t\t: fpu hypervisor\n", Some(true), None);
        // A bare machine answers leaf 40000000h with the highest basic leaf's data.
        let bare = format!("== cpuid.txt\n1 0 0 0 0 0\n{}", leaf(0x4000_0000, "KVMKVMKVM"));
        check(&bare, Some(false), None);
        let leaves = |names: &[(u32, &str)]| {
            let leaves: String =
                names.iter().map(|(at, name)| leaf(0x4000_0000 + at, name)).collect();
            format!("== cpuid.txt\n1 0 0 0 80000000 0\n{leaves}")
        };
        for (names, name) in [
            (&[(0, "KVMKVMKVM")][..], Some("KVM")),
            (&[(0, "Microsoft Hv")], Some("Hyper-V")),
            (&[(0, "Microsoft Hv"), (0x100, "KVMKVMKVM")], Some("KVM")),
            (&[(0, "Microsoft Hv"), (0x200, "XenVMMXenVMM")], Some("Xen")),
            (&[(0, "VBoxVBoxVBox")], Some("VirtualBox")),
            (&[(0, "Jailhouse")], Some("Jailhouse")),
            (&[(0, "of nobody")], None),
        ] {
            check(&leaves(names), Some(true), name);
        }
        let behind = leaves(&[(0, "Microsoft Hv")]) + "== sys/hypervisor/type\nxen\n";
        check(&behind, Some(true), Some("Xen"));
        let behind = leaves(&[(0, "KVMKVMKVM")]) + "== sys/class/dmi/id/product_name\nVirtualBox\n";
        check(&behind, Some(true), Some("VirtualBox"));
        for (path, text, name) in [
            (PRODUCT, "Apple Virtualization Generic Platform", Some("Apple Virtualization")),
            (PRODUCT, "VMware20,1", Some("VMware")),
            (SYSTEM, "Parallels International GmbH.", Some("Parallels")),
            (SYSTEM, "QEMU", Some("KVM")),
            (SYSTEM, "Oracle Corporation", None),
            (SYSTEM, "XENON Systems", None),
            (TREE_HYPERVISOR, "xen,xen-4.17\0xen,xen\0", Some("Xen")),
            (TREE_HYPERVISOR, "linux,kvm\0", Some("KVM")),
            (TREE_HYPERVISOR, "acme,hv\0", Some("acme,hv")),
            (TREE, "linux,dummy-virt\0", Some("KVM")),
            ("proc/device-tree/fw-cfg@9020000/reg", "x", Some("KVM")),
            (CPUINFO, "CPU implementer\t: 0x00\nCPU part\t: 0x051\n", Some("QEMU (emulated)")),
            (RELEASE, "5.15.1-microsoft-standard-WSL2", Some("Hyper-V")),
        ] {
            check(&format!("== {path}\n{text}\n"), name.map(|_| true), name);
        }
        let amazon = format!("== {SYSTEM}\nAmazon EC2\n== {PRODUCT}\n");
        check(&format!("{amazon}c7g.metal\n"), None, None);
        check(&format!("{amazon}c7i.metal-48xl\n"), None, None);
        check(&format!("{amazon}c7g.large\n"), Some(true), Some("KVM"));
    }
}
