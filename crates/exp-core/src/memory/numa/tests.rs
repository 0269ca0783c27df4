use super::node_pairs::workers;
use super::{EXPERIMENT, ID, Pair};
use crate::memory::rehearsal;
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::{bare_site, on_a_thread};
use bench::measure::Written;
use bench::prelude::*;
use host::{Host, Root};
use session::fixtures::{check, offered, refused};

fn pair(cpu_node: u64, memory_node: u64) -> Pair {
    Pair { cpu_node, memory_node }
}

/// Four sockets of two nodes each, eight CPUs on four cores a node and 16 MiB of cache, and two
/// nodes of memory only, of which the last is full.
fn large() -> Site {
    let mut tree = String::from(
        "== facts.txt\narch=x86_64\n== sys/devices/system/cpu/online\n0-63\n\
         == sys/devices/system/cpu/possible\n0-63\n== sys/devices/system/node/online\n0-9\n",
    );
    for cpu in 0..64 {
        let (core, sibling) = (cpu % 32, (cpu + 32) % 64);
        let node = core / 4;
        let dir = format!("sys/devices/system/cpu/cpu{cpu}");
        let siblings = format!("{},{}", cpu.min(sibling), cpu.max(sibling));
        let of_node = cpus(node);
        tree += &format!(
            "== {dir}/topology/physical_package_id\n{}\n== {dir}/topology/core_id\n{core}\n\
             == {dir}/topology/thread_siblings_list\n{siblings}\n\
             == {dir}/topology/core_cpus_list\n{siblings}\n\
             == {dir}/cache/index3/level\n3\n== {dir}/cache/index3/type\nUnified\n\
             == {dir}/cache/index3/size\n16384K\n\
             == {dir}/cache/index3/shared_cpu_list\n{of_node}\n",
            node / 2
        );
    }
    for node in 0..10 {
        let distances: Vec<String> = (0..10)
            .map(|other| match (node, other) {
                _ if node == other => "10",
                (8.., _) | (_, 8..) => "17",
                _ if node / 2 == other / 2 => "12",
                _ if node % 2 == other % 2 => "21",
                _ => "31",
            })
            .map(str::to_owned)
            .collect();
        let list = match node {
            8.. => String::new(),
            _ => cpus(node),
        };
        let free = if node == 9 { 20 << 10 } else { 60 << 20 };
        let dir = format!("sys/devices/system/node/node{node}");
        tree += &format!(
            "== {dir}/cpulist\n{list}\n== {dir}/distance\n{}\n== {dir}/meminfo\n\
             Node {node} MemTotal: 67108864 kB\nNode {node} MemFree: {free} kB\n\
             Node {node} Inactive(file): 3072 kB\n",
            distances.join(" ")
        );
    }
    let host = Host::read(&Root::tree(&tree));
    Site {
        cpus: (0..64).collect(),
        memory_bytes: 400 << 30,
        case_ns: 12_000_000,
        host,
        ..bare_site()
    }
}

/// The CPUs of a node, as the kernel lists them.
fn cpus(node: usize) -> String {
    format!("{}-{},{}-{}", 4 * node, 4 * node + 3, 4 * node + 32, 4 * node + 35)
}

fn cells(series: &[Series]) -> Vec<(u64, u64)> {
    let cases = series.iter().flat_map(|series| &series.cases);
    let pairs = cases.map(|case| Pair::from_id(&case.id).expect("a pair"));
    let mut cells: Vec<_> = pairs.map(|pair| (pair.cpu_node, pair.memory_node)).collect();
    cells.sort_unstable();
    cells
}

#[test]
fn eight_nodes_and_memory_without_cpus_are_rows_and_columns() {
    let site = large();
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let all: Vec<_> = (0..8).flat_map(|row| (0..9).map(move |column| (row, column))).collect();
    assert_eq!(cells(&offer.series), all, "node 8 is a column and no row");
    let absent: Vec<String> = offer.skipped.iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(absent.len(), 8);
    for (id, skip) in &offer.skipped {
        assert_eq!(Pair::from_id(id).expect("a pair").memory_node, 9);
        assert!(skip.needed.is_some());
    }
    let cost: Duration = offer.series.iter().map(|of| EXPERIMENT.round_cost(&site, of)).sum();
    assert!(cost < Duration::from_secs(3), "{cost:?}");
    assert_eq!(workers(&site, &pair(2, 0)), (8, 4));
    assert_eq!(workers(&site, &pair(8, 0)), (0, 0));
    // Its own, the other half of the socket, memory only, and the next further one.
    let quick = check(&EXPERIMENT, &site, Preset::Quick);
    assert_eq!(cells(&quick.series), [(0, 0), (0, 1), (0, 2), (0, 8)]);
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &[("memory_node", "3,4")]);
    assert_eq!(cells(&offer.series).len(), 16, "what is asked for is not thinned");
}

#[test]
fn what_a_process_may_not_use_is_skipped_with_what_would_help() {
    let mut site = large();
    site.cpus.retain(|cpu| cpu % 32 / 4 != 5);
    site.host.numa.allowed = Some(vec![0, 1, 2, 3, 4, 5]);
    site.host.numa.nodes[3].total_bytes = Some(0);
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    // No CPU of the node, a node that may not be used, and one without memory: only the first two
    // can be helped.
    for (row, column, can_be_helped) in [(5, 0, true), (0, 7, true), (0, 3, false)] {
        let id = pair(row, column).id();
        let (_, skip) = offer.skipped.iter().find(|(of, _)| *of == id).expect("skipped");
        assert_eq!(skip.needed.is_some(), can_be_helped, "{skip:?}");
    }
    let offer = offered(&EXPERIMENT, &site, Preset::Standard, &[("cpu_node", "0,8,77")]);
    assert!(cells(&offer.series).iter().all(|(row, _)| *row == 0));
    for row in [8, 77] {
        assert!(offer.skipped.iter().any(|(id, _)| id.int("cpu_node") == Some(row)));
    }
    site.memory_bytes = 1 << 20;
    let skip = refused(&EXPERIMENT, &site, Preset::Quick, &[("memory_node", "0")]);
    assert!(skip.needed.is_some());
}

#[test]
fn ratios_are_over_the_same_row_and_stand_beside_the_distances() {
    let site = large();
    let mut values = Known::default();
    for (row, column, ns) in
        [(0, 0, 100.0), (0, 2, 170.0), (1, 1, 90.0), (1, 8, 225.0), (2, 3, 1.0)]
    {
        values.insert(Key::new(ID, &pair(row, column).id(), "latency"), ns);
    }
    let found = EXPERIMENT.derive(&site, &Known::default(), &values);
    let told: Vec<_> = found
        .iter()
        .map(|of| (of.case.clone(), of.metric, of.value, of.at["distance"].clone()))
        .collect();
    let wanted = [
        (pair(0, 2).id(), "latency_ratio", 1.7, Value::from(21)),
        (pair(1, 8).id(), "latency_ratio", 2.5, Value::from(17)),
    ];
    assert_eq!(told, wanted, "row 2 has no local figure");
    assert!(found.iter().all(|of| of.at["local_distance"] == Value::from(10)));
}

/// A rehearsal of one case on this machine, whose CPUs are said to be of a node.
fn rehearse(cpu_node: u64) -> Written {
    let cpus = metal::place::allowed().expect("CPUs");
    let list = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mut case = Case::new(pair(cpu_node, metal::place::current_node() as u64).id());
    case.at.put("node_cpus", list.clone());
    case.at.put("team", list);
    let settings = [("footprint", 4_u64 << 20), ("ring", 1 << 20), ("cpus", 2)];
    let settings = settings.map(|(name, value)| (name.to_owned(), Value::from(value)));
    let series = Series::new(ID, Order::Shuffled, vec![case]);
    let series = Series { settings: settings.into(), ..series };
    let order = rehearsal(series.clone());
    on_a_thread(|| {
        let mut bench = Bench::new(order).expect("the CPU is allowed");
        EXPERIMENT.measure(&series, &mut bench).expect("a round");
        bench.finish().expect("nothing is sent")
    })
}

#[test]
fn a_round_yields_every_metric_with_what_it_was_made_of() {
    let (samples, .., done) = rehearse(metal::place::current_node() as u64);
    if metal::place::online_nodes() > 1 {
        // Here CPUs of several nodes were said to be of one.
        assert_eq!(done.failed.len(), 1);
        return skips::test("one-node");
    }
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    let of = |metric: &str| samples.iter().find(|samples| samples.metric == metric).expect(metric);
    for metric in ["bandwidth", "node_bandwidth", "latency"] {
        let samples = of(metric);
        assert!(samples.raw.samples()[0] > 0.0, "{samples:?}");
        assert_eq!(samples.core_hz, None);
        assert_eq!(samples.at["verified"], Value::from("move_pages,getcpu"));
        assert!(samples.at["footprint"].int().expect("bytes") > 3 << 20);
    }
    for metric in ["bandwidth", "node_bandwidth"] {
        let samples = of(metric);
        let rates = ["copy", "scale", "add", "triad"].map(|kernel| samples.quantities[kernel]);
        let mean = rates.iter().sum::<f64>() / 4.0;
        assert!((samples.raw.samples()[0] / mean - 1.0).abs() < 1e-5, "{samples:?}");
    }
    let one = of("bandwidth");
    let (low, high) = (one.quantities["cpu_low"], one.quantities["cpu_high"]);
    let value = one.raw.samples()[0];
    assert!(low <= value * (1.0 + 1e-6) && value <= high * (1.0 + 1e-6), "{one:?}");
}

#[test]
fn cpus_of_another_node_than_the_case_says_fail_it_with_both_named() {
    let (samples, .., done) = rehearse(777);
    assert!(samples.is_empty(), "{samples:?}");
    let reason = &done.failed[0].reason;
    assert!(reason.contains("777"), "{reason}");
}
