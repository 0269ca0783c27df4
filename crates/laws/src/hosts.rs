//! What is read of the machines of tests/hosts is what tests/hosts/expected.txt says.

use crate::cpu::core_clock;
use bench::experiment::Site;
use bench::experiment::fixtures::bare_site;
use host::cache::CacheKind;
use host::counters::Snapshot;
use host::{Host, Root, choose_cpu, format_cpus};
use record::event::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A machine as it is read, with the CPU that would measure and the predicted core clock in GHz.
struct Machine {
    host: Host,
    measuring: Option<usize>,
    clock: Range,
}

/// What a key of the table is compared with, as text; `None` where nothing states it.
fn reading(Machine { host, measuring, .. }: &Machine, key: &str) -> Option<String> {
    let mount = || host.block.mount_of("/");
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let kind = |kind| word(serde_json::to_value(kind).expect("a kind is a word"));
    let arch = || word(serde_json::to_value(host.cpu.arch).expect("an architecture is a word"));
    match key {
        "arch" => host.cpu.other_arch.clone().or_else(|| Some(arch())),
        "cpus" => Some(format_cpus(&host.cpu.usable())),
        "sockets" => host.cpu.packages().map(|sockets| sockets.to_string()),
        "cores" => Some(host.cpu.cores().to_string()),
        "nodes" => Some(host.numa.nodes.len().to_string()),
        "core" => Some(host.cpu.microarchitecture.core.name().to_owned()),
        "classes" => joined("; ", &host.cpu.classes, |class| {
            format!("{} {} {}", kind(class.kind), format_cpus(&class.cpus), class.core.name())
        }),
        "measured" => measuring.map(|cpu| host.cpu.core_of(cpu).name().to_owned()),
        "caches" => joined(", ", &host.cache.levels, |cache| {
            let kind = match cache.kind {
                CacheKind::Data => "d",
                CacheKind::Instruction => "i",
                CacheKind::Unified => "",
            };
            let ways = cache.ways.map_or_else(String::new, |ways| format!("/{ways}"));
            let count = cache.instances().unwrap_or(1);
            format!("{}{kind} {}K{ways}*{count}", cache.level, cache.size_bytes / 1024)
        }),
        "hypervisor" => host.kernel.virtualisation.hypervisor.clone(),
        "container" => host.kernel.container.runtime.clone(),
        "disk" => mount().and_then(|mount| Some(host.block.disk_of(mount)?.name.clone())),
        "cpu_limit" => host.limits.effective_cpus.map(|cpus| cpus.to_string()),
        "doubts" => joined(", ", &host.doubts, |doubt| doubt.split(" of ").take(1).collect()),
        _ => Some(format!("nothing: {key} is no key of the table")),
    }
}

fn joined<T>(between: &str, all: &[T], text: impl Fn(&T) -> String) -> Option<String> {
    let texts: Vec<String> = all.iter().map(text).collect();
    (!texts.is_empty()).then(|| texts.join(between))
}

fn machine(dir: &Path) -> Machine {
    let root = Root::recorded(dir).expect("a tree of tests/hosts is read");
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
            let read = reading(machine, key).unwrap_or_else(|| "none".to_owned());
            return if read == value { Ok(()) } else { Err(format!("read as {read}")) };
        }
    };
    if is_right { Ok(()) } else { Err(format!("predicted as {low:.2}-{high:.2}")) }
}

#[test]
fn the_machines_are_read_as_the_table_says() {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hosts");
    let table = std::fs::read_to_string(hosts.join("expected.txt")).expect("the table is there");
    let sections = table.split("\n[").skip(1).filter_map(|section| section.split_once("]\n"));
    let sections: BTreeMap<&str, &str> = sections.collect();
    let entries = std::fs::read_dir(&hosts).expect("tests/hosts is there").flatten();
    let dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|dir| dir.is_dir()).collect();
    let names = dirs.iter().filter_map(|dir| dir.file_name()?.to_str()).collect::<BTreeSet<_>>();
    let listed: BTreeSet<&str> = sections.keys().copied().collect();
    assert_eq!(names, listed, "tests/hosts and the sections of its expected.txt are the same");
    let mut wrong = Vec::new();
    for (name, lines) in sections {
        let machine = machine(&hosts.join(name));
        for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            if let Err(found) = check(&machine, key.trim(), value.trim()) {
                wrong.push(format!("[{name}] {line}: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of the table:\n{}", wrong.len(), wrong.join("\n"));
}
