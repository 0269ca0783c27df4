//! A machine with several memory nodes.

use crate::guest::{self, Machine};
use crate::plumb::prelude::*;
use crate::{events, part};
use std::collections::BTreeSet;

/// Two nodes with two CPUs each, one with memory only, and one with next to no memory. The way
/// there and the way back are not equally far.
const HARDWARE: &str = "\
-cpu max -smp 4,sockets=2,cores=2,threads=1 -m 840M
-object memory-backend-ram,id=m0,size=320M -object memory-backend-ram,id=m1,size=256M
-object memory-backend-ram,id=m2,size=256M -object memory-backend-ram,id=m3,size=8M
-numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1
-numa node,nodeid=2,memdev=m2 -numa node,nodeid=3,memdev=m3 -numa dist,src=0,dst=1,val=21
-numa dist,src=1,dst=0,val=22 -numa dist,src=0,dst=2,val=17 -numa dist,src=2,dst=0,val=17
-numa dist,src=1,dst=2,val=28 -numa dist,src=2,dst=1,val=28 -numa dist,src=0,dst=3,val=40
-numa dist,src=3,dst=0,val=40 -numa dist,src=1,dst=3,val=40 -numa dist,src=3,dst=1,val=40
-numa dist,src=2,dst=3,val=40 -numa dist,src=3,dst=2,val=40";
/// Distances by row and column, as above.
const DISTANCES: [[u64; 3]; 2] = [[10, 21, 17], [22, 10, 28]];
/// Measures; then plans with the memory of two nodes and a CPU of one.
const SCRIPT: &str = "
SIZES='--set memory.numa.footprint=12MiB --set memory.numa.ring=1MiB'
plumb run memory.numa --preset rehearsal $SIZES --out /tmp/record.jsonl > /tmp/report 2> /tmp/errors
echo \"run=$?\"
cat /tmp/errors
echo '[report'; cat /tmp/report; echo 'report]'
echo '[record'; cat /tmp/record.jsonl; echo 'record]'
mkdir /tmp/groups; mount -t cgroup2 groups /tmp/groups
echo +cpuset > /tmp/groups/cgroup.subtree_control
mkdir /tmp/groups/few; echo 0-1 > /tmp/groups/few/cpuset.mems
echo $$ > /tmp/groups/few/cgroup.procs
echo '[plan'; plumb plan memory.numa --preset rehearsal --verbose --cpu 0 $SIZES 2>&1; echo 'plan]'
";

fn pair(event: &Value) -> (u64, u64) {
    let node = |name: &str| event["case"][name].as_u64().unwrap();
    (node("cpu_node"), node("memory_node"))
}

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn a_machine_with_several_memory_nodes_is_measured_node_by_node() {
    let machine = Machine { hardware: HARDWARE, ..Machine::PLAIN };
    let printed = guest::run(&machine, SCRIPT);
    assert!(printed.contains("run=0\n"), "{printed}");
    let report = part(&printed, "report");
    println!("{report}");
    let events = events(&printed, "record");

    // Two rows and three columns, each cell with its rates, its latency and its distance.
    let all: BTreeSet<(u64, u64)> =
        (0..2).flat_map(|row| (0..3).map(move |at| (row, at))).collect();
    for metric in ["bandwidth", "node_bandwidth", "latency"] {
        let cells = samples_of(&events, metric);
        let found: BTreeSet<(u64, u64)> = cells.iter().map(|cell| pair(cell)).collect();
        assert_eq!((found, cells.len()), (all.clone(), 6), "{metric}");
        for cell in cells {
            check_cell(cell);
        }
    }
    check_ratios(&events);
    check_absences(&events);
    for matrix in ["latency", "bandwidth", "node bandwidth"] {
        assert!(report.contains(&format!("  {matrix}\n  cpu_node \\ memory_node")), "{report}");
    }
    check_plan(part(&printed, "plan"));
}

fn check_cell(cell: &Value) {
    let (row, column) = pair(cell);
    let value = cell["values"][0].as_f64().unwrap();
    assert!(value > 0.0 && value.is_finite(), "{cell}");
    let at = &cell["at"];
    assert_eq!(at["distance"], DISTANCES[row as usize][column as usize], "{cell}");
    assert_eq!(at["local_distance"], 10, "{cell}");
    assert_eq!(at["verified"], "move_pages,getcpu", "{cell}");
    let (cpus, list) = [(["0", "1"], "0-1"), (["2", "3"], "2-3")][row as usize];
    assert_eq!((&at["node_cpus"], &at["team"]), (&json!(list), &json!(list)), "{cell}");
    assert!(cpus.contains(&at["alone"].as_str().unwrap()), "{cell}");
    // Nothing was refused by the kernel: what could not be asked would be a note.
    let notes = cell["notes"].as_array().into_iter().flatten();
    let notes: Vec<&str> = notes.filter_map(Value::as_str).collect();
    assert!(!notes.iter().any(|note| note.contains("not possible")), "{cell}");
    if cell["metric"] == "bandwidth" {
        let kernels = ["copy", "scale", "add", "triad"];
        let rates = kernels.map(|kernel| cell["quantities"][kernel].as_f64().unwrap());
        let mean = rates.iter().sum::<f64>() / 4.0;
        assert!((mean / value - 1.0).abs() < 1e-5, "{cell}");
    }
}

/// Every remote cell over its row's local one.
fn check_ratios(events: &[Value]) {
    let value = |metric: &str, cell: (u64, u64)| {
        let mut found = samples_of(events, metric).into_iter();
        found.find(|of| pair(of) == cell).unwrap()["values"][0].as_f64().unwrap()
    };
    let derived = events_of_kind(events, "derived");
    assert_eq!(derived.len(), 3 * 4, "{derived:?}");
    for ratio in derived {
        let (row, column) = pair(ratio);
        assert_ne!(row, column);
        let metric = ratio["metric"].as_str().unwrap().strip_suffix("_ratio").unwrap();
        let wanted = value(metric, (row, column)) / value(metric, (row, row));
        let found = ratio["value"].as_f64().unwrap();
        assert!((found / wanted - 1.0).abs() < 1e-6, "{ratio}: {wanted}");
        assert_eq!(ratio["at"]["distance"], DISTANCES[row as usize][column as usize], "{ratio}");
        assert_eq!(ratio["at"]["local_distance"], 10, "{ratio}");
    }
}

/// The node without memory to speak of is answered for, and nothing else is missing.
fn check_absences(events: &[Value]) {
    let outcomes = events_of_kind(events, "outcome");
    let absent: Vec<_> =
        outcomes.iter().filter(|outcome| outcome["outcome"] != "measured").collect();
    let cells: Vec<(u64, u64)> = absent.iter().map(|outcome| pair(outcome)).collect();
    assert_eq!(cells, [(0, 3), (1, 3)], "{absent:?}");
    for outcome in absent {
        assert_eq!(outcome["outcome"], "skipped");
        let reason = outcome["reason"].as_str().unwrap();
        assert!(reason.contains("node 3 has") && reason.contains("free memory"), "{reason}");
    }
}

/// With the memory of nodes 0 and 1 and a CPU of node 0 one row of two columns is left.
fn check_plan(plan: &str) {
    for words in [
        "none of node 1's CPUs (2-3) is among those to measure on",
        "this process may not use node 2's memory, only that of nodes 0-1",
        "this process may not use node 3's memory",
        "2 series",
    ] {
        let plain = plan.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain.contains(words), "{words}:\n{plan}");
    }
}

/// Two nodes; one has CPUs and no memory.
const HOLLOW: &str = "\
-cpu max -smp 3,sockets=3,cores=1,threads=1 -m 640M -object memory-backend-ram,id=m1,size=640M
-numa node,nodeid=0,cpus=0-1 -numa node,nodeid=1,cpus=2,memdev=m1 -numa dist,src=0,dst=1,val=21
-numa dist,src=1,dst=0,val=21";
const HOLLOW_SCRIPT: &str = "
plumb run memory.latency memory.fault memory.mlp --preset rehearsal --cpu 0 \
  --set memory.latency.footprint=16KiB,4MiB --out /tmp/record.jsonl > /tmp/report 2>&1
echo \"run=$?\"
cat /tmp/report
echo '[record'; cat /tmp/record.jsonl; echo 'record]'
echo '[plan'; plumb plan memory.numa --preset rehearsal --verbose 2>&1; echo 'plan]'
";

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn a_cpu_on_a_node_without_memory_uses_the_nearest_node_that_has_some() {
    let machine = Machine { hardware: HOLLOW, ..Machine::PLAIN };
    let printed = guest::run(&machine, HOLLOW_SCRIPT);
    assert!(printed.contains("run=0\n"), "{printed}");
    let events = events(&printed, "record");
    let samples = events_of_kind(&events, "samples");
    for experiment in ["memory.latency", "memory.fault", "memory.mlp"] {
        let is_own = |sample: &&Value| sample["series"].as_str().unwrap().starts_with(experiment);
        let notes = samples.iter().copied().filter(is_own).flat_map(|of| of["notes"].as_array());
        let is_told = |note: &Value| note.to_string().contains("the memory is on node 1");
        assert!(notes.flatten().any(is_told), "{experiment}: {printed}");
    }
    let outcomes = events_of_kind(&events, "outcome");
    assert!(!outcomes.iter().any(|outcome| outcome["outcome"] == "failed"), "{outcomes:?}");
    assert!(part(&printed, "plan").contains("node 0 has no memory"), "{printed}");
}
