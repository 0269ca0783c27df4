//! A real Slurm runs the job script that plumb ships: several nodes, the faults planted in them, and
//! what a sweep finds.

use crate::cluster::Cluster;
use crate::network::{Special, name};
use crate::plumb::group::Group;
use crate::plumb::prelude::*;
use std::collections::BTreeSet;
use std::rc::Rc;

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

/// What is planted in a sweep of [`NODES`], by node.
#[derive(Default)]
struct Planted {
    slow: Option<usize>,
    slow_link: Option<usize>,
    ahead: Option<usize>,
    full: Option<usize>,
    /// In mid-sweep.
    killed: Option<usize>,
    frozen: Option<usize>,
    cut: Option<usize>,
}

impl Planted {
    fn all(&self) -> BTreeSet<String> {
        let all = [self.slow, self.slow_link, self.ahead, self.full];
        let all = all.into_iter().chain([self.killed, self.frozen, self.cut]).flatten();
        all.map(name).collect()
    }
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

fn texts<'value>(values: &'value Value, member: &str) -> BTreeSet<&'value str> {
    values.as_array().unwrap().iter().filter_map(|value| value[member].as_str()).collect()
}

/// A sweep as the script makes it; its report.
fn swept(planted: &Planted) -> Value {
    let groups: Vec<Rc<Group>> = (0..=NODES)
        .map(|node| {
            let percent = if planted.slow == Some(node) { QUOTA / 2 } else { QUOTA };
            Rc::new(Group::percent(percent, PERIOD_US).expect("a control group"))
        })
        .collect();
    let special = |node: usize| Special { group: Some(groups[node].clone()) };
    let mut cluster = Cluster::start(NODES, special);
    for node in cluster.network.hosts() {
        let is_slow = planted.slow_link == Some(node);
        cluster.network.shape(node, if is_slow { RATE / 10 } else { RATE });
    }
    for (node, fault) in [(planted.ahead, "ahead"), (planted.full, "full")] {
        let Some(node) = node else { continue };
        fs::write(cluster.network.here.path(&name(node)).join(fault), "").unwrap();
    }
    let (job, out) = submitted(&cluster, NODES, SWEEP);
    wait_within(PATIENCE, "three slots", || {
        let slots = cluster.network.hosts().flat_map(|node| lines(&out, node));
        slots.filter_map(|line| line["pair"]["slot"].as_u64()).any(|slot| slot >= 3).then_some(())
    });
    planted.cut.into_iter().for_each(|node| cluster.network.cut(node));
    planted.killed.into_iter().for_each(|node| cluster.kill(node));
    planted.frozen.into_iter().for_each(|node| groups[node].freeze());
    let dead = [planted.full, planted.killed, planted.frozen];
    let whole: Vec<usize> =
        cluster.network.hosts().filter(|node| !dead.contains(&Some(*node))).collect();
    let ends = wait_within(PATIENCE, "the end of the sweep", || {
        let end_s = |node: &usize| {
            lines(&out, *node).iter().find_map(|line| line["end"]["wall_s"].as_f64())
        };
        whole.iter().map(end_s).collect::<Option<Vec<f64>>>()
    });
    assert!(ends.iter().all(|end_s| *end_s <= 1.2 * PLANNED_S), "{ends:?}");
    // What waits for the lost nodes is Slurm alone.
    for node in [planted.killed, planted.frozen].into_iter().flatten() {
        let node = format!("nodename={}", name(node));
        cluster.says("scontrol", &["update", &node, "state=down", "reason=test"]);
    }
    planted.cut.into_iter().for_each(|node| cluster.network.mend(node));
    // The script itself is at the first node.
    if planted.killed != Some(1) {
        ended(&cluster, &job);
        let said = log(&cluster, &job);
        assert!(said.contains("VERDICT") && !out.join("key").exists(), "{said}");
    }
    let text = cluster.says(PLUMB, &["fleet", "report", out.to_str().unwrap()]);
    // No healthy pair is missing.
    let bad = planted.all();
    for node in whole.iter().filter(|node| !bad.contains(&name(**node))) {
        for absent in
            lines(&out, *node).iter().filter_map(|line| line["absent"]["partner"].as_str())
        {
            assert!(bad.contains(absent), "{node}: {absent}\n{text}");
        }
    }
    // plumb drains no node by itself.
    assert!(!cluster.says("sinfo", &["-h", "-o", "%T"]).contains("drain"), "{text}");
    let report = cluster.says(PLUMB, &["fleet", "report", "-f", "json", out.to_str().unwrap()]);
    serde_json::from_str(&report).unwrap()
}

/// Every fault is named, and no healthy node is accused.
#[track_caller]
fn finds(planted: &Planted) {
    let report = swept(planted);
    let names = |nodes: &[Option<usize>]| -> BTreeSet<String> {
        nodes.iter().flatten().map(|node| name(*node)).collect()
    };
    let verdicts = report["verdicts"].as_array().unwrap().iter();
    let accused = verdicts.filter(|verdict| verdict["state"] == "accused");
    let accused: BTreeSet<String> =
        accused.map(|verdict| verdict["node"].as_str().unwrap().to_owned()).collect();
    assert_eq!(accused, names(&[planted.slow, planted.slow_link]), "{report:#}");
    let lost = names(&[planted.killed, planted.frozen, planted.full]);
    assert_eq!(texts(&report["lost"], "node"), lost.iter().map(String::as_str).collect());
    let unreached = names(&[planted.cut]);
    assert_eq!(texts(&report["unreached"], "node"), unreached.iter().map(String::as_str).collect());
    let clocks = report["clocks"].to_string();
    assert_eq!(planted.ahead.is_some(), clocks.contains("is 1 h 0 min ahead"), "{clocks}");
}

#[test]
fn a_job_finds_a_slow_node_a_slow_link_and_a_wrong_clock() {
    let (slow, slow_link, ahead) = (Some(2), Some(4), Some(7));
    finds(&Planted { slow, slow_link, ahead, ..Planted::default() });
}

#[test]
fn a_job_survives_what_breaks() {
    let (full, killed, frozen, cut) = (Some(3), Some(5), Some(8), Some(6));
    finds(&Planted { full, killed, frozen, cut, ..Planted::default() });
}

/// The node that has the script.
#[test]
fn a_job_survives_its_first_node() {
    finds(&Planted { killed: Some(1), ..Planted::default() });
}

/// A healthy job ends after its sweep with a report, and needs no step of suspects.
#[test]
fn a_small_job_ends_with_its_report() {
    let cluster = Cluster::start(3, |_| Special::default());
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
