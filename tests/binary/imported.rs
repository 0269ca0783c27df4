//! Machines of others to compare with: `plumb runs import` of instance types and of sheets.

use crate::plumb::prelude::*;

/// What lscpu prints of an instance that nobody has.
const LSCPU: &str = "\
Architecture:             x86_64
CPU(s):                   4
Vendor ID:                AuthenticAMD
Model name:               AMD EPYC 9R00
CPU family:               25
Model:                    17
Stepping:                 1
Thread(s) per core:       2
Core(s) per socket:       2
Socket(s):                1
BogoMIPS:                 5200.00
Flags:                    fpu tsc sse sse2 constant_tsc nonstop_tsc avx2 hypervisor
Hypervisor vendor:        KVM
L1d cache:                65536 (2 instances)
L1i cache:                65536 (2 instances)
L2 cache:                 2097152 (2 instances)
L3 cache:                 33554432 (1 instance)
NUMA node(s):             1
NUMA node0 CPU(s):        0-3
Vulnerability Spectre v2: Mitigation; Enhanced / Automatic IBRS; IBPB conditional
";

const MEMBENCH: &str = "\
size_kb,operation,bandwidth_mb_s,latency_ns,latency_stddev_ns,latency_samples,threads,iterations,elapsed_s
512,latency,0,4.00,0.10,7,1,7,0.12
16384,latency,0,14.00,0.10,7,1,7,0.12
262144,read,20000.00,0,0,0,4,7,0.12
";

/// System calls of x86-64, each of which is 1.15 times a `getpid` (`sheet::cloud`).
const STRESSNG: &str =
    r#"{"stressors": {"x86syscall": {"1": {"bogo_ops_per_sec": 5000000.0}, "4": null}}}"#;

const META: &str = r#"{"version": "0.20.01", "kernel_version": "6.8.0-1-generic", "start": "2026-04-04T16:41:48"}"#;

/// A folder as the data set's clone has it, with one instance type, and a store with a run.
fn with_clone() -> Here {
    let here = Here::new();
    for (tool, stdout) in
        [("lscpu", LSCPU), ("membench", MEMBENCH), ("stressng_benchmarks", STRESSNG)]
    {
        let folder = here.path("clone/data/made-up/x.large").join(tool);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stdout"), stdout).unwrap();
        fs::write(folder.join("meta.json"), META).unwrap();
    }
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/resumed.jsonl.gz");
    fs::create_dir_all(here.path("store")).unwrap();
    fs::copy(record, here.stored("2026-11-25T04-16-05-lab")).unwrap();
    here
}

#[test]
fn an_instance_is_compared_with_its_type() {
    let here = with_clone();
    let kept = here.ends(0, &["runs", "import", "clone", "made-up/x.large"]).out;
    let said = "made-up/x.large  4 figures; compare with it: plumb compare made-up/x.large last\n";
    assert_eq!(kept, said);
    assert!(here.ends(0, &["runs"]).out.contains("made-up/x.large"));
    let compare = ["compare", "made-up/x.large", "last", "--format", "json"];
    let compared = here.ends(0, &compare).json();
    let getpid = compared["against"][0]["figures"].as_array().unwrap().iter().find(|figure| {
        figure["experiment"] == "os.syscall" && figure["case"] == json!({"call": "getpid"})
    });
    let base = getpid.expect("both have it")["base"]["value"].as_f64().unwrap();
    assert!((base - 1e9 / 5e6 / 1.15).abs() < 1e-6, "{base}");
    let report = here.ends(0, &["report", "made-up/x.large"]).out;
    assert!(report.contains("memory.latency"), "{report}");
    here.ends(0, &["runs", "delete", "made-up/x.large"]);
    assert!(!here.ends(0, &["runs"]).out.contains("made-up/x.large"));
}

#[test]
fn a_sheet_is_a_machine_by_the_name_of_its_file() {
    let here = with_clone();
    here.ends(0, &["runs", "export", "last", "--sheet", "--to", "lab.sheet"]);
    let kept = here.ends(0, &["runs", "import", "lab.sheet"]).out;
    assert!(kept.ends_with("compare with it: plumb compare lab last\n"), "{kept}");
    let compared = here.ends(0, &["compare", "lab", "last", "--format", "json"]).json();
    assert!(compared["against"][0]["figures"].as_array().unwrap().len() > 20);
}

#[test]
fn what_is_no_machine_is_refused_with_the_way_out() {
    let here = with_clone();
    let refused = |args: &[&str], says: &str| {
        let answer = here.ends(2, &[&["runs", "import"], args].concat());
        assert!(answer.err.contains(says), "{args:?}: {answer:?}");
    };
    refused(&["clone"], "name the instance types");
    refused(&["clone", "made-up/y.large"], "has no folder data/made-up/y.large");
    refused(&["lab.sheet"], "cannot read lab.sheet");
    fs::write(here.path("old.json"), "{\n  \"sheet\": 1,\n").unwrap();
    refused(&["old.json"], "line 1: a sheet of an earlier format");
    fs::write(here.path("new.sheet"), "plumb sheet 3\n").unwrap();
    refused(&["new.sheet"], "use a newer plumb");
    here.ends(0, &["runs", "export", "last", "--sheet", "--to", "lab.sheet"]);
    let text = fs::read_to_string(here.path("lab.sheet")).unwrap();
    let line = text.lines().count() + 2;
    fs::write(here.path("lab.sheet"), text + "= os.syscall latency ns call\ngetpid -1\n").unwrap();
    refused(&["lab.sheet"], &format!("line {line}: "));
    refused(&["lab.sheet", "made-up/x.large"], "is no directory");
    let lscpu = here.path("clone/data/made-up/x.large/lscpu/stdout");
    fs::write(&lscpu, LSCPU.replace("CPU(s):                   4", "CPU(s): 5")).unwrap();
    refused(&["clone", "made-up/x.large"], "its nodes have 4 CPUs of 5");
    fs::write(&lscpu, "nothing\n").unwrap();
    refused(&["clone", "made-up/x.large"], "lscpu states no architecture");
    fs::remove_file(&lscpu).unwrap();
    refused(&["clone", "made-up/x.large"], "lscpu/stdout");
}
