//! What is read of the machines of tests/hosts is what tests/hosts/expected.txt says.

use crate::cpu::core_clock;
use bench::experiment::Site;
use bench::experiment::fixtures::bare_site;
use host::cache::CacheKind;
use host::counters::Snapshot;
use host::cpu::CpuClass;
use host::{Arch, Host, Root, choose_cpu, format_cpus};
use record::event::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A machine as it is read.
struct Machine {
    host: Host,
    /// The CPU that would measure.
    measuring: Option<usize>,
    /// The predicted core clock, in GHz.
    clock: Range,
}

/// What a key of the table is compared with, as text.
type Reading = fn(&Machine) -> String;

const READINGS: [(&str, Reading); 14] = [
    ("arch", |machine| {
        let known = if machine.host.cpu.arch == Arch::X86_64 { "x86_64" } else { "aarch64" };
        machine.host.cpu.other_arch.clone().unwrap_or_else(|| known.to_owned())
    }),
    ("cpus", |machine| format_cpus(&machine.host.cpu.usable())),
    ("sockets", |machine| number(machine.host.cpu.packages())),
    ("cores", |machine| machine.host.cpu.cores().to_string()),
    ("nodes", |machine| machine.host.numa.nodes.len().to_string()),
    ("core", |machine| machine.host.cpu.microarchitecture.core.name().to_owned()),
    ("classes", |machine| {
        let classes: Vec<String> = machine.host.cpu.classes.iter().map(class).collect();
        classes.join("; ")
    }),
    ("measured", |machine| {
        let core = machine.measuring.map(|cpu| machine.host.cpu.core_of(cpu).name().to_owned());
        core.unwrap_or_else(none)
    }),
    ("caches", caches),
    ("hypervisor", |machine| {
        machine.host.kernel.virtualisation.hypervisor.clone().unwrap_or_else(none)
    }),
    ("container", |machine| machine.host.kernel.container.runtime.clone().unwrap_or_else(none)),
    ("disk", |machine| {
        let block = &machine.host.block;
        let disk = block.mount_of("/").and_then(|mount| block.disk_of(mount));
        disk.map_or_else(none, |disk| disk.name.clone())
    }),
    ("cpu_limit", |machine| {
        machine.host.limits.effective_cpus.map_or_else(none, |cpus| cpus.to_string())
    }),
    ("doubts", |machine| {
        let sources = machine.host.doubts.iter();
        let sources = sources.filter_map(|doubt| Some(doubt.split_once(" of ")?.0));
        let sources: Vec<&str> = sources.collect();
        if sources.is_empty() { none() } else { sources.join(", ") }
    }),
];

fn none() -> String {
    "none".to_owned()
}

fn number(number: Option<usize>) -> String {
    number.map_or_else(none, |number| number.to_string())
}

/// `performance 0-15 Golden Cove`
fn class(class: &CpuClass) -> String {
    let kind = serde_json::to_value(class.kind).expect("a kind is a word");
    let kind = kind.as_str().unwrap_or_default();
    format!("{kind} {} {}", format_cpus(&class.cpus), class.core.name())
}

/// `1d 32K*8, 1i 32K*8, 2 256K*8, 3 8192K*2`: level, size of one, how many.
fn caches(machine: &Machine) -> String {
    let caches = machine.host.cache.levels.iter().map(|cache| {
        let kind = match cache.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        let kib = cache.size_bytes / 1024;
        format!("{}{kind} {kib}K*{}", cache.level, cache.instances().unwrap_or(1))
    });
    caches.collect::<Vec<_>>().join(", ")
}

fn machine(dir: &Path) -> Machine {
    let root = Root::at(dir).expect("a tree of tests/hosts is read");
    let host = Host::read(&root);
    let measuring = choose_cpu(&host, &Snapshot::read(&root, &host.cpu.usable()));
    let site = Site { cpus: measuring.into_iter().collect(), host, ..bare_site() };
    let clock = crate::scaled(core_clock(&site).range, 1e-9);
    Machine { host: site.host, measuring, clock }
}

/// Whether a machine is what a line of its section says; else what is read.
fn check(machine: &Machine, key: &str, value: &str) -> Result<(), String> {
    let ends = value.split_once('-').unwrap_or((value, value));
    let ends = || Some((ends.0.parse::<f64>().ok()?, ends.1.parse::<f64>().ok()?));
    let Range { low, high, .. } = machine.clock;
    let is_right = match key {
        "note" => true,
        // The clock that such a machine really has is predicted …
        "clock_ghz" => ends().is_some_and(|(least, most)| low <= least && most <= high),
        // … and none that it cannot have.
        "clock_within_ghz" => ends().is_some_and(|(least, most)| least <= low && high <= most),
        _ => {
            let reading = READINGS.iter().find(|(name, _)| *name == key);
            let reading = reading.ok_or("it is no key of the table")?.1(machine);
            return if reading == value { Ok(()) } else { Err(format!("read as {reading}")) };
        }
    };
    if is_right { Ok(()) } else { Err(format!("predicted as {low:.2}-{high:.2}")) }
}

#[test]
fn the_machines_are_read_as_the_table_says() {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hosts");
    let table = std::fs::read_to_string(hosts.join("expected.txt")).expect("the table is there");
    let mut sections: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut name = "";
    for line in table.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(section) = line.strip_prefix('[') {
            name = section.trim_end_matches(']');
            assert!(sections.insert(name, Vec::new()).is_none(), "[{name}] stands there twice");
        } else if let Some((key, value)) = line.split_once('=') {
            let section = sections.get_mut(name).expect("a line stands below its [machine]");
            section.push((key.trim(), value.trim()));
        } else {
            assert!(line.is_empty(), "expected.txt: what is {line}?");
        }
    }
    let entries = std::fs::read_dir(&hosts).expect("tests/hosts is there").flatten();
    let dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|dir| dir.is_dir()).collect();
    let names = dirs.iter().filter_map(|dir| dir.file_name()?.to_str()).collect::<BTreeSet<_>>();
    let listed: BTreeSet<&str> = sections.keys().copied().collect();
    assert_eq!(names, listed, "tests/hosts and the sections of its expected.txt are the same");
    let mut wrong = Vec::new();
    for (name, lines) in sections {
        let machine = machine(&hosts.join(name));
        for (key, value) in lines {
            if let Err(found) = check(&machine, key, value) {
                wrong.push(format!("[{name}] {key} = {value}: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of the table:\n{}", wrong.len(), wrong.join("\n"));
}
