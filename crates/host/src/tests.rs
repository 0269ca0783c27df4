//! The recorded hosts, parsed in full.

use std::path::Path;

use super::cache::WritePolicy;
use super::counters::Snapshot;
use super::cpu::{CpuidFrequency, Distance};
use super::tlb::{Tlb, TlbKind};
use super::*;

const HOSTS: &[&str] = &["vm-granite-rapids", "epyc-7763-2s", "alder-lake-hybrid", "graviton3"];

fn root(name: &str) -> Root {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hosts").join(name);
    Root::recorded(&dir).expect("the recorded host is in the repository")
}

fn host(name: &str) -> Host {
    Host::read(&root(name))
}

/// Entries that data accesses to pages of one size can use at one TLB level.
fn tlb_entries(host: &Host, level: u32, page_bytes: u64) -> Option<u32> {
    let serves = |tlb: &&Tlb| {
        tlb.kind != TlbKind::Instruction
            && tlb.kind != TlbKind::Store
            && (tlb.level, tlb.page_bytes) == (level, page_bytes)
    };
    host.cache.tlbs.iter().filter(serves).map(|tlb| tlb.entries).reduce(u32::saturating_add)
}

#[test]
fn vm_granite_rapids() {
    let host = host("vm-granite-rapids");
    assert_eq!((host.cpu.family, host.cpu.model), (Some(6), Some(167)));
    let guess = &host.cpu.microarchitecture;
    assert_eq!((guess.core, guess.by_model), (Core::RedwoodCove, Some(Core::CypressCove)));
    assert_eq!(guess.platform.as_deref(), Some("Granite Rapids"));
    let doubt = guess.contradiction.as_deref().expect("the model number is masked");
    assert!(doubt.contains("Cypress Cove") && doubt.contains("2048 KiB"), "{doubt}");
    assert_eq!(host.cpu.distance(0, 1), Some(Distance::SharedLlc));
    assert_eq!(host.cpu.smt_active, Some(false));
    assert_eq!(host.kernel.hz, Some(250));
    assert_eq!(host.kernel.clock_source.current.as_deref(), Some("tsc"));
    assert_eq!(host.kernel.preemption.as_deref(), Some("dynamic"));
    assert_eq!(host.cpu.cpuid_frequency, CpuidFrequency::default());
    assert_eq!(host.cpu.turbo.enabled, None);
    assert!(host.cache.tlbs.is_empty());
    assert_eq!(host.limits.cgroup.as_deref(), Some("hybrid"));
    // The groups of this machine state the kernel's "no limit".
    assert_eq!((host.limits.memory_bytes, host.limits.cpu_quota), (None, None));
    assert_eq!(host.memory_ceiling_bytes(), host.memory.available_bytes);
    assert_eq!(host.limits.effective_cpus, Some(2.0));
    assert_eq!(host.numa.nodes.len(), 1);
    assert_eq!(host.memory.thp.enabled.as_deref(), Some("madvise"));
    assert_eq!(host.memory.huge_pages.len(), 2);
    assert_eq!(host.net.interfaces.iter().filter(|one| !one.is_virtual).count(), 1);
    let disk = host.block.disks.iter().find(|disk| disk.name == "vda").expect("it is recorded");
    assert!(!disk.is_virtual && disk.size_bytes > 0);
}

#[test]
fn epyc_7763_2s() {
    let host = host("epyc-7763-2s");
    assert_eq!(host.cpu.cpus.len(), 256);
    let guess = &host.cpu.microarchitecture;
    assert_eq!((guess.core, guess.platform.as_deref()), (Core::Zen3, Some("Milan")));
    assert_eq!(guess.contradiction, None);
    assert_eq!(host.cache.last_level_total_bytes(), Some(512 << 20));
    assert_eq!(host.cache.levels[2].inclusive, Some(true));
    let distances = [(3, Distance::Same), (131, Distance::SmtSibling), (7, Distance::SharedLlc)];
    let distances =
        distances.into_iter().chain([(8, Distance::SameSocket), (67, Distance::OtherSocket)]);
    for (cpu, distance) in distances {
        assert_eq!(host.cpu.distance(3, cpu), Some(distance), "3 to {cpu}");
        assert_eq!(host.cpu.distance(cpu, 3), Some(distance), "{cpu} to 3");
    }
    assert_eq!(host.cpu.distance(0, 256), None);
    assert_eq!(host.numa.nodes[1].distances, [32, 10]);
    assert_eq!(format_cpus(&host.numa.nodes[1].cpus), "64-127,192-255");
    assert_eq!(host.cpu.cpu(200).and_then(|cpu| cpu.node), Some(1));
    assert_eq!(host.cpu.cpus[0].frequency.base_hz, Some(2_450_000_000));
    assert_eq!(host.cpu.turbo.enabled, Some(true));
    assert_eq!(host.cpu.idle_states.len(), 3);
    assert_eq!(tlb_entries(&host, 2, 4096), Some(2048));
    assert_eq!(tlb_entries(&host, 1, 1 << 30), Some(64));
    assert_eq!(host.kernel.virtualisation.is_guest, Some(false));
    // The parent's limit binds, the group's own file says "max".
    assert_eq!(host.limits.memory_bytes, Some(64 << 30));
    assert_eq!(host.limits.memory_left_bytes, Some(60 << 30));
    assert_eq!(host.memory_ceiling_bytes(), Some(60 << 30));
    assert_eq!(host.limits.cpu_quota.map(|quota| quota.cpus()), Some(32.0));
    assert_eq!(host.limits.effective_cpus, Some(32.0));
    assert_eq!(host.kernel.isolated, [62, 63]);
    let disk = &host.block.disks[0];
    assert_eq!(disk.pcie.map(|link| (link.gts, link.width)), Some((16.0, 4)));
    assert_eq!((disk.driver.as_deref(), disk.node), (Some("nvme"), Some(0)));
    let nic = host.net.interfaces.iter().find(|one| one.name == "ens1f0np0").expect("it is there");
    assert_eq!(nic.speed_bits_per_second, Some(100_000_000_000));
}

#[test]
fn alder_lake_hybrid() {
    let host = host("alder-lake-hybrid");
    assert_eq!(host.cpu.microarchitecture.contradiction, None);
    assert_eq!(host.cache.data(1, 17).map(|cache| cache.size_bytes), Some(32 << 10));
    assert_eq!(host.cpu.distance(0, 1), Some(Distance::SmtSibling));
    assert_eq!(host.cpu.distance(16, 17), Some(Distance::SharedLlc));
    assert_eq!(host.cpu.cpuid_frequency.tsc_hz, Some(3_187_200_000));
    assert_eq!(host.cpu.cpuid_frequency.max_hz, Some(5_200_000_000));
    assert_eq!(host.cpu.turbo.enabled, Some(true));
    assert_eq!(tlb_entries(&host, 1, 4096), Some(96));
    assert_eq!(tlb_entries(&host, 2, 4096), Some(2048));
    assert_eq!(tlb_entries(&host, 2, 2 << 20), Some(1024));
    assert_eq!((host.kernel.hz, host.kernel.euid), (Some(1000), Some(1000)));
    assert_eq!(host.kernel.preemption.as_deref(), Some("voluntary"));
    let wireless = host.net.interfaces.iter().find(|one| one.wireless).expect("it has one");
    assert_eq!((wireless.name.as_str(), wireless.speed_bits_per_second), ("wlp5s0", None));
}

#[test]
fn graviton3() {
    let host = host("graviton3");
    assert_eq!(host.cpu.arch, Arch::Aarch64);
    assert_eq!(host.cpu.model_name.as_deref(), Some("Neoverse-V1"));
    assert_eq!(host.cpu.vendor.as_deref(), Some("Arm"));
    assert_eq!(host.cpu.constant_counter, Some(true));
    assert_eq!(host.cpu.counter_hz, Some(1_050_000_000));
    assert_eq!(host.cache.levels[0].write_policy, Some(WritePolicy::WriteBack));
    // Version 1, mounted from inside the container's group.
    assert_eq!(host.limits.cgroup.as_deref(), Some("v1"));
    assert_eq!(host.limits.memory_bytes, Some(8 << 30));
    assert_eq!(host.memory_ceiling_bytes(), Some((7 << 30) + (512 << 20)));
    assert_eq!(host.limits.effective_cpus, Some(4.0));
    assert_eq!(host.limits.cpuset.as_deref().map(format_cpus).as_deref(), Some("8-23"));
    assert_eq!((host.kernel.hz, host.kernel.seccomp), (Some(100), Some(2)));
    let snapshot = Snapshot::read(&root("graviton3"), &host.cpu.usable());
    assert_eq!(snapshot.throttled_ns, Some(123_456_789));
    assert_eq!(choose_cpu(&host, &snapshot), Some(22));
}

#[test]
fn quiet_cpus() {
    let check = |name: &str, expected: usize| {
        let (root, host) = (root(name), host(name));
        let all: Vec<usize> = host.cpu.cpus.iter().map(|cpu| cpu.id).collect();
        assert_eq!(choose_cpu(&host, &Snapshot::read(&root, &all)), Some(expected), "{name}");
    };
    check("epyc-7763-2s", 62);
    // CPU 20 takes fewer interrupts, but is an efficiency core.
    check("alder-lake-hybrid", 5);
}

#[test]
fn identity_is_stable() {
    for name in HOSTS {
        let root = root(name);
        let before = Host::read(&root).identity;
        assert_eq!(before.hash.len(), 16);
        let cpuinfo = root.read("proc/cpuinfo").expect("every tree has one");
        let later: String = cpuinfo
            .lines()
            .map(|line| match line.split_once(':') {
                Some((field, _)) if field.to_lowercase().starts_with("bogomips") => {
                    format!("{field}: 77.7\n")
                }
                Some((field, _)) if field.starts_with("cpu MHz") => format!("{field}: 1234.5\n"),
                Some((field, _)) if field.starts_with("microcode") => format!("{field}: 0xffff\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        assert_ne!(later, cpuinfo);
        let later = root
            .with("proc/cpuinfo", &later)
            .with("proc/uptime", "5.0 9.0\n")
            .with("proc/loadavg", "90.0 80.0 70.0 1/2 3\n")
            .with("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1\n")
            .with("sys/devices/system/cpu/cpufreq/boost", "0\n")
            .with("proc/sys/kernel/osrelease", "9.9\n")
            .with("sys/devices/system/cpu/present", "0-1023\n")
            .with("sys/devices/system/cpu/cpu0/cache/index3/size", "1K\n");
        let after = Host::read(&later);
        assert_eq!(after.identity, before, "{name}");
        // Another size of memory is another machine.
        let other = later.with("proc/meminfo", "MemTotal:       1048576 kB\n");
        assert!(!Host::read(&other).machine().is_same(&after.machine()), "{name}");
    }
    let hashes: std::collections::BTreeSet<String> =
        HOSTS.iter().map(|name| host(name).identity.hash).collect();
    assert_eq!(hashes.len(), HOSTS.len());
}

#[test]
fn offline_cpus_stay_in_the_list() {
    let root = root("epyc-7763-2s").with("sys/devices/system/cpu/online", "0-127\n");
    let host = Host::read(&root);
    assert_eq!(host.cpu.cpus.len(), 256);
    assert_eq!(host.cpu.cpus.iter().filter(|cpu| cpu.online).count(), 128);
    assert!(host.cpu.usable().iter().all(|&cpu| cpu < 128));
    assert_eq!(host.identity, self::host("epyc-7763-2s").identity);
}

#[test]
fn a_missing_file_is_an_answer() {
    for name in HOSTS {
        // A few CPUs of each kind are enough, and quick.
        let some = "0,1,8,16,64,128\n";
        let mut tree = root(name)
            .with("sys/devices/system/cpu/online", some)
            .with("sys/devices/system/cpu/present", some);
        let usable = Host::read(&tree).cpu.usable();
        let whole = Snapshot::read(&tree, &usable);
        // Numbered paths are alike: each shape is torn once, at the first number that has it.
        let mut shapes = std::collections::BTreeSet::new();
        for path in tree.paths() {
            let shape: String = path.chars().filter(|c| !c.is_ascii_digit()).collect();
            if !shapes.insert(shape) {
                continue;
            }
            for contents in [None, Some("\u{0}-,:x\n")] {
                tree.torn(&path, contents, |root| {
                    let host = Host::read(root);
                    let snapshot = Snapshot::read(root, &usable);
                    snapshot.delta(&whole);
                    choose_cpu(&host, &snapshot);
                    host.cpu.distance(0, 1);
                    host.memory_ceiling_bytes();
                });
            }
        }
        assert!(shapes.len() > 100, "{name}");
    }
    let nothing = Host::read(&Root::tree(""));
    assert!(nothing.cpu.cpus.is_empty() && nothing.memory_ceiling_bytes().is_none());
}

#[test]
fn a_host_survives_serialisation() {
    for name in HOSTS {
        let mut host = host(name);
        host.given.set("host.disk.read", "550MB/s").expect("it is in the table");
        let text = serde_json::to_string(&host).expect("a host has no unserialisable part");
        let back: Host = serde_json::from_str(&text).expect("it was just written");
        assert_eq!(back, host);
    }
}

#[test]
fn this_machine_is_read() {
    let root = Root::live(Outside::live());
    let host = Host::read(&root);
    assert!(!host.cpu.usable().is_empty());
    assert!(host.memory.total_bytes.is_some());
    assert_eq!(Host::read(&root).identity, host.identity);
    let usable = host.cpu.usable();
    let chosen = choose_cpu(&host, &Snapshot::read(&root, &usable)).expect("a CPU is usable");
    assert!(usable.contains(&chosen));
}

#[test]
fn a_kernel_without_an_idle_driver_is_not_one_that_hides_it() {
    let read = |tree: &str| Host::read(&Root::tree(tree));
    let driver =
        |name: &str| read(&format!("== sys/devices/system/cpu/cpuidle/current_driver\n{name}\n"));
    let (none, haltpoll, hidden) = (driver("none"), driver("haltpoll"), read(""));
    assert_eq!(none.cpu.idle_driver.as_deref(), Some(cpu::NO_IDLE_DRIVER));
    assert_eq!(haltpoll.cpu.idle_driver.as_deref(), Some("haltpoll"));
    assert_eq!(hidden.cpu.idle_driver, None);
    // Records of before did not tell the first from the last: their comparison shows no difference.
    assert!(!environment::tags(&none).contains_key("idle_driver"));
}
