//! What lscpu prints becomes a machine's description: the files from which lscpu reads are written
//! as a tree, and the reader of machines reads them.

use super::Instance;
use host::{Host, Root, format_cpus, parse_cpus};
use std::fmt::Write as _;

/// Arm designs as lscpu names them, with implementer and part number (Linux
/// arch/arm64/include/asm/cputype.h, util-linux sys-utils/lscpu-arm.c).
const ARM_PARTS: [(&str, u64, u64); 9] = [
    ("Neoverse-N1", 0x41, 0xd0c),
    ("Neoverse-N2", 0x41, 0xd49),
    ("Neoverse-N3", 0x41, 0xd8e),
    ("Neoverse-V1", 0x41, 0xd40),
    ("Neoverse-V2", 0x41, 0xd4f),
    ("Neoverse-V3", 0x41, 0xd84),
    ("Cortex-A72", 0x41, 0xd08),
    ("Ampere-1", 0xc0, 0xac3),
    ("Ampere-1a", 0xc0, 0xac4),
];

/// Caches by lscpu's name: level and kind.
const CACHES: [(&str, u32, &str); 4] = [
    ("L1d cache", 1, "Data"),
    ("L1i cache", 1, "Instruction"),
    ("L2 cache", 2, "Unified"),
    ("L3 cache", 3, "Unified"),
];

/// Bytes of a line in all designs of the data set; lscpu does not print it.
const LINE_BYTES: u32 = 64;

/// What types without a hypervisor are called.
const BARE: [&str; 2] = ["metal", ".ebm"];

/// The CPUs, by what hangs together.
struct Topology {
    cpus: usize,
    nodes: Vec<Vec<usize>>,
    /// All of them, those of a core one after the other.
    ordered: Vec<usize>,
    threads: usize,
    per_socket: usize,
}

/// The machine. Errors: what is missing or impossible.
pub(super) fn host(instance: &Instance) -> Result<Host, String> {
    let topology = topology(instance)?;
    let is_guest = is_guest(instance);
    let tree = [
        processor(instance, &topology, is_guest)?,
        places(&topology),
        caches(instance, &topology)?,
        kernel(instance),
    ]
    .concat();
    let mut host = Host::read(&Root::tree(&tree));
    // lscpu asks CPUID, whose answers it does not print.
    host.kernel.virtualisation.is_guest = Some(is_guest);
    host.kernel.virtualisation.hypervisor =
        instance.lscpu.get("Hypervisor vendor").cloned().filter(|_| is_guest);
    Ok(host)
}

/// A field that must be there, as a number.
fn number(instance: &Instance, name: &str) -> Result<usize, String> {
    let text = field(instance, name)?;
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{}: `{name}` is `{text}`, no number", instance.id))
}

fn field<'a>(instance: &'a Instance, name: &str) -> Result<&'a str, String> {
    let found = instance.lscpu.get(name);
    found.map(String::as_str).ok_or_else(|| format!("{}: lscpu states no `{name}`", instance.id))
}

/// Whether a hypervisor is below: lscpu says so on x86-64 alone.
fn is_guest(instance: &Instance) -> bool {
    let is_bare = BARE.iter().any(|word| instance.id.contains(word));
    let is_arm = instance.lscpu.get("Architecture").is_some_and(|arch| arch == "aarch64");
    instance.lscpu.contains_key("Hypervisor vendor") || (is_arm && !is_bare)
}

fn topology(instance: &Instance) -> Result<Topology, String> {
    let cpus = number(instance, "CPU(s)")?;
    let threads = number(instance, "Thread(s) per core")?;
    let sockets = number(instance, "Socket(s)")?;
    let list = |node: usize| instance.lscpu.get(&format!("NUMA node{node} CPU(s)"));
    let nodes = (0..number(instance, "NUMA node(s)")?).filter_map(list);
    let nodes: Vec<Vec<usize>> =
        nodes.map(|list| parse_cpus(list)).filter(|list| !list.is_empty()).collect();
    let known: usize = nodes.iter().map(Vec::len).sum();
    if known != cpus || nodes.iter().flatten().any(|cpu| *cpu >= cpus) {
        return Err(format!("{}: its nodes have {known} CPUs of {cpus}", instance.id));
    }
    if cpus % threads != 0 || sockets > cpus {
        return Err(format!("{}: {cpus} CPUs in cores of {threads}", instance.id));
    }
    let ordered = nodes.iter().flat_map(|node| by_core(node, threads)).collect();
    Ok(Topology { cpus, nodes, ordered, threads, per_socket: cpus.div_ceil(sockets) })
}

/// A node's CPUs, those of a core one after the other: lscpu does not say which they are. Where the
/// node's list has as many ranges as a core has threads, each range has one thread of each core.
fn by_core(node: &[usize], threads: usize) -> Vec<usize> {
    let breaks = node.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    if breaks + 1 != threads || !node.len().is_multiple_of(threads) {
        return node.to_vec();
    }
    let cores = node.len() / threads;
    (0..cores).flat_map(|core| (0..threads).map(move |nth| node[nth * cores + core])).collect()
}

/// `proc/cpuinfo`, the frequencies, and what is in no file.
fn processor(instance: &Instance, topology: &Topology, is_guest: bool) -> Result<String, String> {
    let arch = field(instance, "Architecture")?;
    let bogomips: Option<f64> = instance.lscpu.get("BogoMIPS").and_then(|text| text.parse().ok());
    let all = format!("0-{}", topology.cpus - 1);
    let mut text = format!("== facts.txt\narch={arch}\nallowed={all}\npage_bytes=4096\n");
    let mut info = String::new();
    match arch {
        "x86_64" => {
            for (name, from) in [
                ("vendor_id", "Vendor ID"),
                ("cpu family", "CPU family"),
                ("model", "Model"),
                ("model name", "Model name"),
                ("stepping", "Stepping"),
                ("flags", "Flags"),
            ] {
                let _ = writeln!(info, "{name}\t: {}", field(instance, from)?);
            }
            // The kernel prints twice the rate of the counter.
            if let Some(mhz) = bogomips.filter(|_| is_guest) {
                let _ = writeln!(info, "cpu MHz\t: {}", mhz / 2.0);
            }
        }
        "aarch64" => {
            let name = field(instance, "Model name")?;
            let part = ARM_PARTS.iter().find(|(known, ..)| *known == name);
            if let Some((_, implementer, part)) = part {
                let _ = writeln!(info, "CPU implementer\t: {implementer:#x}");
                let _ = writeln!(info, "CPU architecture: 8\nCPU variant\t: 0x0");
                let _ = writeln!(info, "CPU part\t: {part:#x}\nCPU revision\t: 0");
            }
            let _ = writeln!(info, "Features\t: {}", field(instance, "Flags")?);
            // The kernel prints twice the rate of the counter.
            if let Some(mhz) = bogomips {
                let _ = writeln!(text, "counter_hz={:.0}", mhz / 2.0 * 1e6);
            }
        }
        other => {
            let only = "plumb predicts x86_64 and aarch64 only";
            return Err(format!("{}: the architecture is {other}; {only}", instance.id));
        }
    }
    text.push_str("== proc/cpuinfo\n");
    for cpu in 0..topology.cpus {
        let _ = writeln!(text, "processor\t: {cpu}\n{info}");
    }
    for name in ["online", "present", "possible"] {
        let _ = writeln!(text, "== sys/devices/system/cpu/{name}\n{all}");
    }
    for (name, file) in [("CPU max MHz", "cpuinfo_max_freq"), ("CPU min MHz", "cpuinfo_min_freq")] {
        let mhz = instance.lscpu.get(name).and_then(|text| text.parse::<f64>().ok());
        if let Some(mhz) = mhz {
            let path = format!("sys/devices/system/cpu/cpu{{{all}}}/cpufreq/{file}");
            let _ = writeln!(text, "== {path}\n{:.0}", mhz * 1e3);
        }
    }
    Ok(text)
}

/// Cores, sockets and memory nodes.
fn places(topology: &Topology) -> String {
    let Topology { cpus, nodes, ordered, threads, per_socket } = topology;
    let mut text = String::new();
    for (core, members) in ordered.chunks(*threads).enumerate() {
        let list = format_cpus(members);
        for cpu in members {
            let dir = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            let _ = writeln!(text, "== {dir}/core_id\n{core}");
            let _ = writeln!(text, "== {dir}/core_cpus_list\n{list}");
        }
    }
    for (nth, cpu) in ordered.iter().enumerate() {
        let socket = nth / per_socket;
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        let _ = writeln!(text, "== {path}\n{socket}");
    }
    let is_smt = usize::from(*threads > 1 && *cpus > 1);
    let _ = writeln!(text, "== sys/devices/system/cpu/smt/active\n{is_smt}");
    for (nth, node) in nodes.iter().enumerate() {
        let path = format!("sys/devices/system/node/node{nth}/cpulist");
        let _ = writeln!(text, "== {path}\n{}", format_cpus(node));
    }
    text
}

/// The caches, each at its first CPU. Errors: a size that is no number.
fn caches(instance: &Instance, topology: &Topology) -> Result<String, String> {
    let mut text = String::new();
    for (index, (name, level, kind)) in CACHES.iter().enumerate() {
        let Some(stated) = instance.lscpu.get(*name) else { continue };
        let (total, count) = sizes(stated)
            .ok_or_else(|| format!("{}: `{name}` is `{stated}`, no size", instance.id))?;
        if count > topology.cpus {
            return Err(format!(
                "{}: {count} caches `{name}`, of {} CPUs",
                instance.id, topology.cpus
            ));
        }
        let kib = total / count as u64 / 1024;
        for members in topology.ordered.chunks(topology.cpus.div_ceil(count)) {
            let first = members.iter().min().copied().unwrap_or_default();
            let dir = format!("sys/devices/system/cpu/cpu{first}/cache/index{index}");
            let list = format_cpus(members);
            let _ = writeln!(text, "== {dir}/level\n{level}\n== {dir}/type\n{kind}");
            let _ = writeln!(text, "== {dir}/size\n{kib}K\n== {dir}/shared_cpu_list\n{list}");
            let _ = writeln!(text, "== {dir}/coherency_line_size\n{LINE_BYTES}");
        }
    }
    Ok(text)
}

/// `262144 (8 instances)`: bytes of all together, and how many there are.
fn sizes(stated: &str) -> Option<(u64, usize)> {
    let (total, rest) = stated.split_once(' ').unwrap_or((stated, "(1 instance)"));
    let count = rest.trim_start_matches('(').split(' ').next()?.parse().ok()?;
    let total: u64 = total.parse().ok()?;
    (count > 0 && total / count as u64 >= 1024).then_some((total, count))
}

fn kernel(instance: &Instance) -> String {
    let mut text = String::new();
    let metas = [&instance.stressng_meta, &instance.membench_meta];
    let release = metas.into_iter().flatten().find_map(|meta| meta.kernel_version.as_ref());
    if let Some(release) = release {
        let _ = writeln!(text, "== proc/sys/kernel/osrelease\n{release}");
    }
    for (name, value) in &instance.lscpu {
        if let Some(name) = name.strip_prefix("Vulnerability ") {
            let file = name.to_lowercase().replace(' ', "_");
            let value = value.replacen("Mitigation; ", "Mitigation: ", 1);
            let _ = writeln!(text, "== sys/devices/system/cpu/vulnerabilities/{file}\n{value}");
        }
    }
    text
}
