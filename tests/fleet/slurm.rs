//! A real Slurm runs the job script that plumb ships: several nodes, the faults planted in them, and
//! what a sweep finds.

use crate::cluster::Cluster;
use crate::network::{Special, name};
use crate::plumb::prelude::*;
use std::collections::BTreeSet;

/// No step of a test takes longer; none is expected to come near it.
const PATIENCE: Duration = Duration::from_secs(900);
/// Every cable lets out so many bits a second, and the slow one a tenth.
const RATE: u64 = 400_000_000;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/fleet.sbatch");
/// What a node measures by itself, and a pair: little, for many nodes share the CPUs of one machine.
const SWEEP: &str = "cpu.peak:op=fma,type=f64,threads=1 --preset=quick \
     --pair=net.bandwidth:far=peer,protocol=tcp,message=128KiB,transfer=steady --seed=7 --all-pairs \
     --bisection=1 --incast=0 --outcast=0 --alone=15s --slot=12s --dir=/mnt";

const SLOW: usize = 4;
const KILLED: usize = 5;
const CUT: usize = 6;

/// Submits the script as it is shipped, and the directory of its files.
fn submitted(cluster: &Cluster, nodes: usize, options: &str) -> (String, PathBuf) {
    let mut command = cluster.command("timeout");
    command.args(["60", "sbatch", "--parsable", &format!("--nodes={nodes}")]);
    command
        .env("PLUMB", PLUMB)
        .env("LEAD", "10")
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

/// A node that dies and a cable that is cut in mid-sweep: both cost their own figures alone, and the
/// slow link is found.
#[test]
fn a_job_finds_what_is_planted_and_survives_what_breaks() {
    let mut cluster = Cluster::start(9, |_| Special::default());
    for node in cluster.network.hosts() {
        cluster.network.shape(node, if node == SLOW { RATE / 10 } else { RATE });
    }
    let (job, out) = submitted(&cluster, 9, SWEEP);
    wait_within(PATIENCE, "four slots", || {
        let slots = cluster.network.hosts().flat_map(|node| lines(&out, node));
        slots.filter_map(|line| line["pair"]["slot"].as_u64()).any(|slot| slot >= 4).then_some(())
    });
    cluster.network.cut(CUT);
    cluster.kill(KILLED);
    let others: Vec<usize> =
        cluster.network.hosts().filter(|node| ![CUT, KILLED].contains(node)).collect();
    wait_within(PATIENCE, "the end of the sweep", || {
        let is_over =
            |node: &usize| lines(&out, *node).iter().any(|line| line.get("end").is_some());
        others.iter().all(is_over).then_some(())
    });
    // What waits for the lost nodes is Slurm alone.
    cluster.network.mend(CUT);
    let killed = format!("nodename={}", name(KILLED));
    cluster.says("scontrol", &["update", &killed, "state=down", "reason=test"]);
    ended(&cluster, &job);
    let report = cluster.says(PLUMB, &["fleet", "report", "-f", "json", out.to_str().unwrap()]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let said = log(&cluster, &job);
    let lost = texts(&report["lost"], "node");
    assert!(lost.contains(&*name(KILLED)), "{report:#}\n{said}");
    assert!(
        lost.iter().all(|node| [name(KILLED), name(CUT)].contains(&(*node).to_owned())),
        "{lost:?}\n{said}"
    );
    // No healthy pair is missing.
    for node in &others {
        for absent in
            lines(&out, *node).iter().filter_map(|line| line["absent"]["partner"].as_str())
        {
            assert!(
                [name(KILLED), name(CUT)].contains(&absent.to_owned()),
                "{node}: {absent}\n{said}"
            );
        }
    }
    let accused: BTreeSet<&str> = report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|verdict| verdict["state"] == "accused")
        .map(|verdict| verdict["node"].as_str().unwrap())
        .collect();
    assert_eq!(accused, BTreeSet::from([&*name(SLOW)]), "{report:#}\n{said}");
    assert!(said.contains("VERDICT"), "{said}");
    // Nothing stays at the nodes, nor the secret.
    assert!(!out.join("key").exists());
    // plumb drains no node by itself.
    assert!(!cluster.says("sinfo", &["-h", "-o", "%T"]).contains("drain"), "{said}");
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
