//! A real Slurm runs the job script that plumb ships: several nodes, the faults planted in them, and
//! what a sweep finds.

use crate::cluster::Cluster;
use crate::network::name;
use crate::plumb::group::Group;
use crate::plumb::prelude::*;
use std::collections::BTreeSet;

/// No step of a test takes longer; none is expected to come near it.
const PATIENCE: Duration = Duration::from_secs(1500);
/// Every cable lets out so many bits a second, and the slow one a tenth.
const RATE: u64 = 100_000_000;
/// Every node has so many percent of one CPU, and the slow one half of that.
const QUOTA: u32 = 10;
const PERIOD_US: u32 = 100_000;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/fleet.sbatch");
/// What a node measures by itself, and a pair: little, for many nodes share the CPUs of one machine.
const SWEEP: &str = "cpu.sustained:type=f64 --preset=standard \
     --pair=net.bandwidth:far=peer,protocol=tcp,message=128KiB,transfer=steady --seed=7 --steps=8 \
     --bisection=1 --incast=0 --outcast=0 --alone=60s --slot=20s --dir=/mnt";
/// From the start: what a node measures by itself, and nine slots.
const PLANNED_S: f64 = 60.0 + 9.0 * 20.0;
const NODES: usize = 12;

/// plumb, with what is planted at a node: a clock that is ahead, or a full disk in the place of the
/// sweep's directory.
const WRAPPER: &str = r#"#!/bin/sh
out=plumb-fleet-$SLURM_JOB_ID
if [ "$1 $2" = "fleet run" ]; then
  [ ! -e /mnt/ahead ] || export PLUMB_CLOCK_OFFSET_S=3600
  if [ -e /mnt/full ]; then
    cp $out/key /mnt/key
    exec unshare --mount sh -c 'mount -t tmpfs -o size=8k none $0 && cp /mnt/key $0/key
      head -c 8192 /dev/zero >$0/fill; exec PLUMB "$@"' $out "$@"
  fi
fi
exec PLUMB "$@"
"#;

/// What is planted in a sweep of [`NODES`]: `slow` (half of its quota), `slow link`, `ahead` (its clock),
/// `full` (its disk), and in mid-sweep `killed`, `frozen` or `cut` (its cable), each with its node.
type Planted = [(&'static str, usize)];

fn with(planted: &Planted, faults: &[&str]) -> Vec<usize> {
    let is_one = |(fault, _): &&(&str, usize)| faults.contains(fault);
    planted.iter().filter(is_one).map(|(_, node)| *node).collect()
}

fn names(nodes: &[usize]) -> BTreeSet<String> {
    nodes.iter().map(|node| name(*node)).collect()
}

/// Submits the script as it is shipped, and the directory of its files.
fn submitted(cluster: &Cluster, nodes: usize, options: &str) -> (String, PathBuf) {
    let wrapper = WRAPPER.replace("PLUMB \"", &format!("{PLUMB} \""));
    write_script(&cluster.path("plumb"), wrapper);
    let mut command = cluster.command("timeout");
    command.args(["60", "sbatch", "--parsable", &format!("--nodes={nodes}")]);
    command
        .env("PLUMB", cluster.path("plumb"))
        .env("LEAD", "15")
        .env("STEPS", "4")
        .env("TMPDIR", "/mnt")
        .arg(SCRIPT)
        .args(options.words());
    let job = ends(0, command).out.trim().to_owned();
    let out = cluster.path(&format!("plumb-fleet-{job}"));
    (job, out)
}

/// The lines of a node's file that are whole.
fn lines(out: &Path, node: usize) -> Vec<Value> {
    let text = fs::read_to_string(out.join(format!("{}.jsonl", name(node)))).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn log(cluster: &Cluster, job: &str) -> String {
    fs::read_to_string(cluster.path(&format!("plumb-fleet-{job}.log"))).unwrap_or_default()
}

fn ended(cluster: &Cluster, job: &str) {
    wait_within(PATIENCE, "the end of the job", || {
        let queue = cluster.says("squeue", &["-h", "-j", job, "-t", "all", "-o", "%T"]);
        ["COMPLETED", "FAILED", "TIMEOUT"].contains(&queue.trim()).then_some(())
    });
}

fn texts<'value>(
    values: impl IntoIterator<Item = &'value Value>,
    member: &str,
) -> BTreeSet<String> {
    values.into_iter().filter_map(|value| Some(value[member].as_str()?.to_owned())).collect()
}

/// A sweep as the script makes it; its report.
fn swept(planted: &Planted) -> Value {
    let group = |node: usize| {
        let is_slow = with(planted, &["slow"]).contains(&node);
        let percent = if is_slow { QUOTA / 2 } else { QUOTA };
        Group::percent(percent, PERIOD_US).expect("a control group")
    };
    let mut cluster = Cluster::start(NODES, (0..=NODES).map(group).collect());
    for node in cluster.network.hosts() {
        let is_slow = with(planted, &["slow link"]).contains(&node);
        cluster.network.shape(node, if is_slow { RATE / 10 } else { RATE });
    }
    for (fault, node) in planted {
        fs::write(cluster.network.here.path(&name(*node)).join(fault), "").unwrap();
    }
    let (job, out) = submitted(&cluster, NODES, SWEEP);
    wait_within(PATIENCE, "three slots", || {
        let slots = cluster.network.hosts().flat_map(|node| lines(&out, node));
        slots.filter_map(|line| line["pair"]["slot"].as_u64()).any(|slot| slot >= 3).then_some(())
    });
    for (fault, node) in planted {
        match *fault {
            "cut" => cluster.network.cut(*node),
            "killed" => cluster.kill(*node),
            "frozen" => cluster.groups[*node].freeze(),
            _ => {}
        }
    }
    let dead = with(planted, &["full", "killed", "frozen"]);
    let whole: Vec<usize> = cluster.network.hosts().filter(|node| !dead.contains(node)).collect();
    let ends = wait_within(PATIENCE, "the end of the sweep", || {
        let end_s = |node: &usize| {
            lines(&out, *node).iter().find_map(|line| line["end"]["wall_s"].as_f64())
        };
        whole.iter().map(end_s).collect::<Option<Vec<f64>>>()
    });
    assert!(ends.iter().all(|end_s| *end_s <= 1.2 * PLANNED_S), "{ends:?}");
    // What waits for the lost nodes is Slurm alone.
    for node in with(planted, &["killed", "frozen"]) {
        let node = format!("nodename={}", name(node));
        cluster.says("scontrol", &["update", &node, "state=down", "reason=test"]);
    }
    with(planted, &["cut"]).into_iter().for_each(|node| cluster.network.mend(node));
    // The script itself is at the first node.
    if !with(planted, &["killed"]).contains(&1) {
        ended(&cluster, &job);
        let said = log(&cluster, &job);
        assert!(said.contains("VERDICT") && !out.join("key").exists(), "{said}");
    }
    // No healthy pair is missing.
    let bad = names(&planted.iter().map(|(_, node)| *node).collect::<Vec<usize>>());
    for node in whole.into_iter().filter(|node| !bad.contains(&name(*node))) {
        let lines = lines(&out, node);
        let absent = texts(lines.iter().map(|line| &line["absent"]), "partner");
        assert!(absent.is_subset(&bad), "{node}: {absent:?}");
    }
    // plumb drains no node by itself; Slurm may, where a task cannot be killed.
    assert!(!cluster.says("sinfo", &["-h", "-o", "%E"]).contains("plumb"));
    let out = out.to_str().unwrap();
    serde_json::from_str(&cluster.says(PLUMB, &["fleet", "report", "-f", "json", out])).unwrap()
}

/// Every fault is named, and no healthy node is accused.
#[track_caller]
fn finds(planted: &Planted) {
    let report = swept(planted);
    let verdicts = report["verdicts"].as_array().unwrap().iter();
    let accused = texts(verdicts.filter(|verdict| verdict["state"] == "accused"), "node");
    let list = |name: &str| texts(report[name].as_array().unwrap(), "node");
    for (found, faults) in [
        (accused, &["slow", "slow link"][..]),
        (list("lost"), &["killed", "frozen", "full"]),
        (list("unreached"), &["cut"]),
    ] {
        assert_eq!(found, names(&with(planted, faults)), "{faults:?}: {report:#}");
    }
    let clocks = report["clocks"].to_string();
    let is_ahead = !with(planted, &["ahead"]).is_empty();
    assert_eq!(is_ahead, clocks.contains("is 1 h 0 min ahead"), "{clocks}");
}

#[test]
fn a_job_finds_a_slow_node_a_slow_link_and_a_wrong_clock() {
    finds(&[("slow", 2), ("slow link", 4), ("ahead", 7)]);
}

#[test]
fn a_job_survives_what_breaks() {
    finds(&[("full", 3), ("killed", 5), ("frozen", 8), ("cut", 6)]);
}

#[test]
fn a_job_survives_its_first_node() {
    finds(&[("killed", 1)]);
}

/// A healthy job ends after its sweep with a report, and needs no step of suspects.
#[test]
fn a_small_job_ends_with_its_report() {
    let cluster = Cluster::start(3, Vec::new());
    let (job, out) = submitted(&cluster, 3, crate::local::LITTLE);
    ended(&cluster, &job);
    let said = log(&cluster, &job);
    assert!(said.contains("fewer than six are alike"), "{said}");
    for node in cluster.network.hosts() {
        let lines = lines(&out, node);
        assert_eq!(lines[0]["node"]["starter"], "slurm", "{said}");
        assert!(lines.iter().any(|line| line.get("end").is_some()), "{said}");
    }
}
