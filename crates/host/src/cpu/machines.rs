//! Small machines of `machines.txt`, each with what must be read.

use crate::counters::Snapshot;
use crate::{Host, Root, choose_cpu, format_cpus};

fn read(key: &str, root: &Root) -> String {
    let host = Host::read(root);
    let cpu = &host.cpu;
    match key {
        "usable" => format_cpus(&cpu.usable()),
        "sockets" => cpu.packages().map_or_else(|| "none".to_owned(), |count| count.to_string()),
        "notes" => host.doubts.len().to_string(),
        "vendor" => cpu.vendor.clone().unwrap_or_default(),
        "platform" => cpu.microarchitecture.platform.clone().unwrap_or_default(),
        "llc" => {
            let caches = host.cache.levels.iter().filter(|cache| cache.level == 3);
            let groups = caches.flat_map(|cache| &cache.shared_by).map(|group| format_cpus(group));
            groups.collect::<Vec<_>>().join("; ")
        }
        "classes" => {
            let classes = cpu.classes.iter().map(|class| {
                format!("{:?} {} {}", class.kind, class.core.name(), format_cpus(&class.cpus))
            });
            classes.collect::<Vec<_>>().join("; ")
        }
        "measured" => {
            let measured = choose_cpu(&host, &Snapshot::read(root, &[])).expect("one is usable");
            assert_eq!(cpu.microarchitecture.core, cpu.core_of(measured), "the headline");
            cpu.core_of(measured).name().to_owned()
        }
        other => panic!("machines.txt has no key {other}"),
    }
}

/// The tree of a case, with its shorter lines written out.
fn tree(lines: &str) -> String {
    let line = |line: &str| match line.strip_prefix("* ").map(|rest| rest.splitn(3, ' ')) {
        Some(mut words) => {
            let mut next = || words.next().expect("`* CPUS FILE VALUE`");
            let (cpus, file, value) = (next(), next(), next());
            format!("== sys/devices/system/cpu/cpu{{{cpus}}}/{file}\n{value}\n")
        }
        None => line.replacen("== C/", "== sys/devices/system/cpu/", 1) + "\n",
    };
    lines.lines().map(line).collect()
}

#[test]
fn small_machines_are_read_as_their_table_says() {
    let cases: Vec<&str> = include_str!("machines.txt").split("\n-- ").skip(1).collect();
    assert!(cases.len() > 30);
    for case in cases {
        let (head, body) = case.split_once("\n== ").expect("a tree follows");
        let root = Root::tree(&tree(&format!("== {body}")));
        let mut lines = head.lines();
        let name = lines.next().unwrap_or_default();
        for (key, expected) in lines.map(|line| line.split_once(": ").expect("`KEY: VALUE`")) {
            assert_eq!(read(key, &root), expected, "{key} of {name}");
        }
    }
}
