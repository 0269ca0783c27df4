use super::{Instance, instances, printed, rates, table};
use host::Arch;

/// Instances that nobody measured: their values are made up.
pub const MADE_UP: &str = include_str!("testdata.jsonl");

fn one(nth: usize) -> Instance {
    instances(MADE_UP).expect("they can be read").swap_remove(nth)
}

#[test]
fn what_lscpu_prints_is_a_machine() {
    let host = one(0).sheet().expect("it can be made").host;
    assert_eq!((host.cpu.family, host.cpu.model), (Some(25), Some(17)));
    assert_eq!(host.cpu.microarchitecture.core.name(), "Zen 4");
    assert_eq!(host.cpu.usable(), [0, 1, 2, 3]);
    let siblings: Vec<&[usize]> = host.cpu.cpus.iter().map(|cpu| &*cpu.smt_siblings).collect();
    assert_eq!(siblings, [[0, 1], [0, 1], [2, 3], [2, 3]]);
    let caches = host.cache.levels.iter().map(|cache| (cache.size_bytes, cache.shared_by.len()));
    assert_eq!(caches.collect::<Vec<_>>(), [(32768, 2), (32768, 2), (1 << 20, 2), (1 << 25, 1)]);
    assert_eq!(host.kernel.virtualisation.is_guest, Some(true));
    assert_eq!(host.kernel.release.as_deref(), Some("6.8.0-1-generic"));
    let overflow = host.kernel.mitigations.get("spec_rstack_overflow");
    assert_eq!(overflow.map(String::as_str), Some("Mitigation: Safe RET"));
    let arm = one(1).sheet().expect("it can be made").host;
    assert_eq!((arm.cpu.arch, arm.cpu.counter_hz), (Arch::Aarch64, Some(1_000_000_000)));
    assert_eq!(arm.cpu.microarchitecture.core.name(), "Neoverse-V2");
    assert_eq!(arm.kernel.virtualisation.is_guest, Some(true));
}

#[test]
fn threads_of_a_core_follow_from_the_lists_of_the_nodes() {
    let mut instance = one(0);
    for (name, value) in [("NUMA node(s)", "2"), ("NUMA node0 CPU(s)", "0,2")] {
        instance.lscpu.insert(name.to_owned(), value.to_owned());
    }
    instance.lscpu.insert("NUMA node1 CPU(s)".to_owned(), "1,3".to_owned());
    let host = instance.sheet().expect("it can be made").host;
    assert_eq!(host.cpu.cpus[0].smt_siblings, [0, 2]);
    assert_eq!(host.numa.nodes.len(), 2);
}

#[test]
fn figures_are_those_that_mean_the_same() {
    let sheet = one(0).sheet().expect("it can be made");
    let keys = |experiment: &str| -> Vec<(String, f64)> {
        let own = sheet.figures.iter().filter(|figure| figure.experiment == experiment);
        own.map(|figure| (figure.case.to_string(), figure.value)).collect()
    };
    let chain = |pages: &str, bytes: u64| {
        format!("pattern=random,load=pointer,pages={pages},footprint={bytes}")
    };
    let expected = [
        (chain("base", 1 << 19), 4.0),
        (chain("huge", 8 << 20), 12.0),
        (chain("huge", 16 << 20), 14.0),
    ];
    assert_eq!(keys("memory.latency"), expected);
    let rates: Vec<f64> = keys("memory.bandwidth").into_iter().map(|(_, value)| value).collect();
    let mib = f64::from(1 << 20);
    assert_eq!(rates, [20000.0 * mib, 10000.0 * mib, 18000.0 * mib]);
    let null = keys("os.syscall").into_iter().find(|(case, _)| case == "call=write_null");
    let (_, nanoseconds) = null.expect("it has one");
    assert!((nanoseconds - 1e9 / 300_000.0 / 11.0).abs() < 1e-9, "{nanoseconds}");
    let open = sheet.figures.iter().filter_map(|figure| Some((figure.value, figure.ci?)));
    for (value, (low, high)) in open {
        assert!(low < value && value < high && high / low <= 2.0 + 1e-9);
    }
    // Four CPUs of two cores share the turns.
    let switches = keys("os.switch");
    let switch = switches.iter().find(|(case, _)| case.contains("via=pipe")).expect("it has one");
    assert!((switch.1 - 4.0 * 1e9 / 700_000.0 / 1.5 / 1.7).abs() < 1e-6, "{switch:?}");
}

#[test]
fn main_memory_of_several_nodes_and_another_stress_ng_say_nothing() {
    let mut instance = one(0);
    for (name, value) in
        [("NUMA node(s)", "2"), ("NUMA node0 CPU(s)", "0-1"), ("NUMA node1 CPU(s)", "2-3")]
    {
        instance.lscpu.insert(name.to_owned(), value.to_owned());
    }
    instance.stressng_meta.as_mut().expect("it has one").version = Some("0.15.06".to_owned());
    let sheet = instance.sheet().expect("it can be made");
    let has = |id: &str| sheet.figures.iter().any(|figure| figure.experiment.starts_with(id));
    assert_eq!((has("memory.latency"), has("memory.bandwidth"), has("os.")), (true, false, false));
}

#[test]
fn an_instance_that_cannot_be_is_refused() {
    let refused = |name: &str, value: Option<&str>| {
        let mut instance = one(0);
        match value {
            Some(value) => instance.lscpu.insert(name.to_owned(), value.to_owned()),
            None => instance.lscpu.remove(name),
        };
        instance.sheet().map(|_| ()).expect_err("it cannot be")
    };
    for (name, value) in [
        ("Architecture", Some("s390x")),
        ("CPU(s)", Some("none")),
        ("CPU(s)", Some("5")),
        ("Flags", None),
        ("L2 cache", Some("2M")),
        ("L3 cache", Some("33554432 (9 instances)")),
        ("NUMA node0 CPU(s)", Some("0-8")),
        ("Thread(s) per core", Some("3")),
    ] {
        assert!(refused(name, value).starts_with("made-up/x.large: "), "{name} {value:?}");
    }
    let mut instance = one(0);
    instance.stressng.entry("null".to_owned()).or_default().insert("1".to_owned(), 0.0);
    assert!(instance.sheet().is_err());
}

#[test]
fn a_machine_without_caches_family_or_frequency_is_read() {
    let mut instance = one(0);
    for name in ["L1d cache", "L1i cache", "L2 cache", "L3 cache", "BogoMIPS"] {
        instance.lscpu.remove(name);
    }
    instance.lscpu.insert("Model".to_owned(), "999".to_owned());
    let sheet = instance.sheet().expect("it can be made");
    assert!(sheet.host.cache.levels.is_empty());
    assert!(sheet.figures.iter().all(|figure| figure.experiment.starts_with("os.")));
}

#[test]
fn a_line_that_is_no_instance_is_named() {
    let text = format!("{}{{\"id\": \"x\"}}\n", MADE_UP);
    let why = instances(&text).map(|_| ()).expect_err("the third is none");
    assert!(why.starts_with("line 3: "), "{why}");
    assert!(instances("\n").is_err());
}

#[test]
fn the_files_of_a_clone_are_read() {
    let lines = printed("Architecture:  x86_64\nCPU(s):   4\n").expect("lscpu's lines");
    let json = "{\"lscpu\": [{\"field\": \"Architecture:\", \"data\": \"x86_64\", \"children\": [\
                {\"field\": \"CPU(s):\", \"data\": \"4\"}]}]}";
    assert_eq!(printed(json).expect("lscpu's JSON"), lines);
    assert!(printed("nothing\n").is_err());
    let header = "size_kb,operation,bandwidth_mb_s,latency_ns,latency_stddev_ns,latency_samples,\
                  threads,iterations,elapsed_s\n";
    let rows = table(&format!("{header}16,latency,0,1.66,0.00,7,1,7,0.12\n")).expect("a table");
    assert_eq!((rows[0].size_kib, rows[0].latency_ns, rows[0].threads), (16, 1.66, 1));
    assert!(table("size,operation\n").is_err());
    assert!(table(&format!("{header}16,latency,0\n")).is_err());
    let found =
        rates("{\"stressors\": {\"fork\": {\"1\": {\"bogo_ops_per_sec\": 9.5}, \"4\": null}}}");
    let found = found.expect("rates");
    assert_eq!(found["fork"].get("1"), Some(&9.5));
    assert_eq!(found["fork"].get("4"), None);
    assert!(rates("[]").is_err());
}
