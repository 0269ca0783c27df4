//! A sweep beside its plan: the same steps, and (where [`SIZES`] is set) how long they took.

use crate::network::{Network, address, name, whole_events};
use crate::plumb::prelude::*;
use metal::process::rusage_children;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Numbers of nodes, which then measure all that a sweep has by default.
const SIZES: &str = "PLUMB_FLEET_SIZES";
/// What the test measures: each kind of step.
const FEW: &str = "\
--pair=net.bandwidth:far=peer,protocol=tcp,transfer=steady --steps=1 --bisection=1
--incast=1 --outcast=1 --seed=7 --preset=rehearsal cpu.peak:op=fma,type=f64,threads=1";
/// What the script measures by itself: short, so that the pairs are the most.
const SHORT: &str = "--preset=quick --seed=7 cpu.peak:op=fma,type=f64,threads=1";
/// Every cable lets out so many bits a second: less than what the CPUs of this machine limit.
const RATE: u64 = 200_000_000;

#[test]
fn a_sweep_has_the_steps_of_its_plan() {
    match std::env::var(SIZES) {
        Ok(sizes) => {
            let rows = sizes.split_whitespace().map(|size| row(size.parse().unwrap(), SHORT));
            let table: String = rows.collect();
            println!("{HEAD}{table}");
        }
        Err(_) => drop(row(4, FEW)),
    }
}

const HEAD: &str = "\
| nodes | steps | alone, s (plan) | pairs, s (plan) | a step, s | whole, s (plan) | CPU time, s | load |
|---|---|---|---|---|---|---|---|
";

/// A sweep over so many namespaces, with the steps that its plan has; times of both.
#[expect(clippy::print_stdout, reason = "the script shows the network beside the times")]
fn row(size: usize, options: &str) -> String {
    let network = Network::new(size);
    network.hosts().for_each(|host| network.shape(host, RATE));
    let here = &network.here;
    let plan = here.ends(0, &format!("fleet plan -N {size} --json {options}")).json();
    here.ends(0, &["agent", "--new-key", "key"]);
    let before_s = cpu_s();
    let start = |host: usize| {
        let (rank, meet, name) = (host - 1, address(1), name(host));
        let line = format!(
            "fleet node --rank {rank} --size {size} --meet {meet}:7412 --key-file key \
             --out sweep.jsonl --name {name} {options}"
        );
        let mut command = network.command(host, PLUMB);
        // Each measures as if it had the machine to itself, as nodes of a fleet do.
        command.args(line.words()).env("PLUMB_LOCK", here.path(&format!("{name}.lock")));
        command.spawn().unwrap()
    };
    let children: Vec<_> = network.hosts().map(start).collect();
    for child in children {
        ended_with(0, child);
    }
    let used_s = cpu_s() - before_s;
    if std::env::var_os(SIZES).is_some() {
        let report = here.ends(0, &["fleet", "report", "sweep.jsonl", "--full"]).out;
        let (_, network) = report.split_once("\nThe network").unwrap();
        println!("{size} nodes{}", network.split("\n\n").next().unwrap());
    }
    let events = whole_events(&here.path("sweep.jsonl"));
    let missing: Vec<&Value> =
        events.iter().filter(|event| event["event"] == "absent" && event["to"].is_u64()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let planned = plan["phases"].as_array().unwrap();
    let mut steps = 0;
    for phase in planned.iter().filter(|phase| phase["phase"] == "pairs") {
        assert_eq!(measured(&events, &phase["purpose"]), phase["steps"], "{phase}");
        steps += phase["steps"].as_u64().unwrap();
    }
    far_ends_send_in_outcasts_alone(&events);
    let took = |phase: &str| {
        let of = |ended: bool| {
            let is_it = |event: &&Value| event["phase"] == phase && event["ended"] == ended;
            events.iter().find(is_it).and_then(|event| event["at_s"].as_f64()).unwrap()
        };
        of(true) - of(false)
    };
    let expected = |phase: &str| -> f64 {
        let of = planned.iter().filter(|of| of["phase"] == phase);
        of.filter_map(|of| of["expected_s"].as_f64()).sum()
    };
    let whole_s = events.last().unwrap()["wall_s"].as_f64().unwrap();
    let planned_s: f64 = planned.iter().filter_map(|of| of["expected_s"].as_f64()).sum();
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let mut row = format!("| {size} | {steps} ");
    for (measured, planned) in
        ["alone", "pairs"].map(|phase| (took(phase), expected(phase))).into_iter()
    {
        let _ = write!(row, "| {measured:.1} ({planned:.1}) ");
    }
    let step_s = took("pairs") / steps as f64;
    let load = load.split(' ').next().unwrap();
    let _ = writeln!(row, "| {step_s:.1} | {whole_s:.1} ({planned_s:.1}) | {used_s:.0} | {load} |");
    row
}

fn far_ends_send_in_outcasts_alone(events: &[Value]) {
    for pair in events.iter().filter(|event| event["event"] == "pair") {
        if pair["experiment"] == "net.bandwidth" {
            let expected = if pair["purpose"] == "outcast" { "down" } else { "up" };
            assert_eq!(pair["case"]["direction"], expected, "{pair}");
        }
    }
}

/// Steps of a purpose in a record.
fn measured(events: &[Value], purpose: &Value) -> Value {
    let of = events.iter().filter(|event| event["event"] == "pair" && event["purpose"] == *purpose);
    let steps: BTreeSet<u64> = of.map(|pair| pair["step"].as_u64().unwrap()).collect();
    steps.len().into()
}

fn cpu_s() -> f64 {
    let used = rusage_children();
    (used.utime_ns + used.stime_ns) as f64 * 1e-9
}
