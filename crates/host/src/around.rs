//! What is around this system: a hypervisor below it, a container above it.

use super::kernel::{Container, Virtualisation};
use super::{Outside, Root, mountinfo};

const CPUINFO: &str = "proc/cpuinfo";
const TREE_HYPERVISOR: &str = "proc/device-tree/hypervisor/compatible";
const SYSTEM: &str = "sys/class/dmi/id/sys_vendor";
const PRODUCT: &str = "sys/class/dmi/id/product_name";

/// A row of the table of marks: a file, what stands in it, and whose mark that is.
type Mark = (&'static str, &'static str, &'static str);

fn marks(kind: &'static str) -> impl Iterator<Item = Mark> {
    include_str!("marks.txt").lines().filter_map(move |line| {
        let mut fields = line.split('|').map(|field| field.trim_matches(' '));
        let row = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (row.0 == kind).then_some((row.1, row.2, row.3))
    })
}

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

fn marked(root: &Root, kind: &'static str) -> Option<&'static str> {
    let text = |path: &str| root.line(path).map(|text| text.trim_matches('\0').to_owned());
    let mut marks = marks(kind);
    let found = marks.find(|(path, mark, _)| text(path).is_some_and(|text| fits(&text, mark)));
    found.map(|(.., name)| name)
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
    let hypervisor = marked(root, "first")
        .or_else(|| by_cpuid(outside).filter(|_| guest_bit != Some(false)))
        .or_else(|| marked(root, "later").filter(|_| !is_metal))
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

/// The vendor that the leaves name; of several the one that stands first in the table.
fn by_cpuid(outside: &Outside) -> Option<&'static str> {
    let is_first = |leaf: u32| leaf & 0xffff_00ff == 0x4000_0000;
    let first = outside.cpuid.iter().filter(|leaf| is_first(leaf.leaf) && leaf.subleaf == 0);
    let vendors = first.map(|leaf| {
        let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
        String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_owned()
    });
    let vendors: Vec<String> = vendors.collect();
    marks("cpuid").find(|(_, mark, _)| vendors.iter().any(|vendor| vendor == mark)).map(|row| row.2)
}

/// Marks that container runtimes leave. A mark is evidence, not proof: images of virtual machines
/// are sometimes built from containers and keep `/.dockerenv`.
pub(super) fn container(root: &Root) -> Container {
    let stated = |(path, mark, name): Mark| {
        let is_there = match mark {
            "*" => root.exists(path),
            _ => root.line(path).is_some_and(|text| fits(&text.to_lowercase(), mark)),
        };
        let fact = match mark {
            "*" => format!("/{path} exists"),
            _ => format!("/{path} has {}", mark.trim_matches(['*', ' '])),
        };
        is_there.then(|| (name.to_owned(), fact))
    };
    let mut found: Vec<(String, String)> = marks("sandbox").filter_map(stated).collect();
    let environ = root.read("proc/1/environ").unwrap_or_default();
    let name = environ.split('\0').find_map(|entry| entry.strip_prefix("container="));
    found.extend(
        name.map(|name| (name.to_owned(), format!("init was started with container={name}"))),
    );
    for path in ["run/systemd/container", "run/host/container-manager"] {
        found.extend(root.line(path).map(|name| (name.clone(), format!("/{path} says {name}"))));
    }
    found.extend(marks("container").filter_map(stated));
    // The host of OpenVZ's containers has both.
    let is_openvz = root.exists("proc/vz") && !root.exists("proc/bc");
    found.extend(is_openvz.then(|| ("openvz".to_owned(), "/proc/vz without /proc/bc".to_owned())));
    found.extend(of_groups(root));
    let over = lxcfs_over(root).into_iter().next();
    found.extend(over.map(|path| ("lxc".to_owned(), format!("LXCFS is mounted over {path}"))));
    // `oci` says only that there is a container, of no runtime in particular.
    let named = found.iter().find(|(name, _)| !["oci", ""].contains(&&**name));
    let runtime = named.or(found.first()).map(|(name, _)| name.clone());
    Container { runtime, evidence: found.into_iter().map(|(_, fact)| fact).collect() }
}

/// Files of the kernel over which LXCFS has mounted its own; a host has LXCFS elsewhere.
pub(super) fn lxcfs_over(root: &Root) -> Vec<String> {
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    let is_over = |target: &str| target.starts_with("/proc/") || target.starts_with("/sys/");
    let lxcfs = mountinfo::mounts(&mounts).filter(|one| one.fs == "fuse.lxcfs");
    lxcfs.map(|one| one.target).filter(|target| is_over(target)).collect()
}

/// The runtimes that made a group above this process. A runtime's own service is not one of its
/// containers.
fn of_groups(root: &Root) -> Vec<(String, String)> {
    let groups = root.read("proc/self/cgroup").unwrap_or_default();
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let parts: Vec<&str> = paths.flat_map(|path| path.split('/')).collect();
    let is_made = |part: &&str, mark: &str| {
        let ends = |rest: &str| {
            let is_end = rest.is_empty() || rest.starts_with(['-', '.', ':']);
            mark.ends_with('@') || is_end && !part.ends_with(".service")
        };
        part.strip_prefix(mark).is_some_and(ends)
    };
    let made = marks("group").filter(|(_, mark, _)| parts.iter().any(|part| is_made(part, mark)));
    made.map(|(_, mark, name)| (name.to_owned(), format!("/proc/self/cgroup names {mark}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "proc/version";
    const RELEASE: &str = "proc/sys/kernel/osrelease";
    const TREE: &str = "proc/device-tree/compatible";

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
