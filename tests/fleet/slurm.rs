//! A real Slurm: several nodes, the faults planted in them, and what a sweep finds.

use crate::cluster::Cluster;
use crate::network::{Special, name, whole_events};
use crate::plumb::group::Group;
use crate::plumb::prelude::*;
use std::rc::Rc;

/// No step of a test takes longer; none is expected to come near it.
const PATIENCE: Duration = Duration::from_secs(900);
/// Every cable lets out so many bits a second, and the slow one a tenth.
const RATE: u64 = 400_000_000;
/// What a node measures by itself, and a pair: little, for many nodes share the CPUs of one machine.
const SWEEP: &str = "\
cpu.peak:op=fma,type=f64,threads=1 --preset=quick
--pair=net.bandwidth:far=peer,protocol=tcp,message=128KiB,transfer=steady --seed=7
--all-pairs --bisection=1 --incast=1 --outcast=1 --node=--patience=20s --join-within=30s
--back-within=3s --alone-within=20s --pair-within=20s --answer-within=5s --scratch=/mnt
--time=7m --plumb";

/// Node 7 is another machine: its processor has another name.
const OTHER: usize = 7;
/// Where [`LONG`] is set, this node may use one CPU of its two, in each tenth of a second, and nodes
/// measure what shows it: a rate over 20 s, which other programs of this machine disturb as much.
const HALF: usize = 2;
const LONG: &str = "PLUMB_FLEET_LONG";
const SLOW: usize = 4;
const KILLED: usize = 5;
const CUT: usize = 6;

fn is_long() -> bool {
    std::env::var_os(LONG).is_some()
}

/// The options of the sweep.
fn sweep() -> Vec<&'static str> {
    let long = ["cpu.sustained:type=f64,threads=all", "--preset=standard", "--alone-within=2m"];
    let long = |option: &'static str| match option {
        option if option.starts_with("cpu.") => long[0],
        "--preset=quick" => long[1],
        "--alone-within=20s" => long[2],
        "--pair-within=20s" => "--pair-within=1m",
        "--time=7m" => "--time=20m",
        option => option,
    };
    if is_long() { SWEEP.split_whitespace().map(long).collect() } else { SWEEP.words() }
}

fn cluster() -> Cluster {
    let half = is_long().then(|| Rc::new(Group::percent(100, 100_000).expect("a control group")));
    // The slow node has five peers before any is lost.
    let mut cluster = Cluster::start(7, |node| match node {
        HALF => Special { group: half.clone(), ..Special::default() },
        OTHER => Special {
            files: vec![(PathBuf::from("/proc/cpuinfo"), other_processor())],
            ..Special::default()
        },
        _ => Special::default(),
    });
    // The node sees it where it is bound.
    fs::remove_file(other_processor()).unwrap();
    cluster.takes_turns = is_long();
    for node in cluster.network.hosts() {
        let rate = if node == SLOW { RATE / 10 } else { RATE };
        cluster.network.shape(node, rate);
    }
    cluster
}

/// A file that says so.
fn other_processor() -> PathBuf {
    let path = std::env::temp_dir().join(format!("plumb-fleet-cpuinfo-{}", std::process::id()));
    let own = fs::read_to_string("/proc/cpuinfo").unwrap();
    let lines = own.lines().map(|line| match line.split_once(':') {
        Some((name, _)) if name.trim() == "model name" => format!("{name}: Another processor"),
        _ => line.to_owned(),
    });
    fs::write(&path, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    path
}

/// The rank of a node, which is its number less one.
fn rank(node: usize) -> u64 {
    node as u64 - 1
}

/// The script as printed, a node that dies, and a cable that is cut in mid-sweep: both cost their own
/// figures alone, and the slow link is found.
#[test]
fn a_job_finds_what_is_planted_and_survives_what_breaks() {
    let mut cluster = cluster();
    let script =
        cluster.says(PLUMB, &[&["fleet", "slurm", "-N7"], &sweep()[..], &[PLUMB]].concat());
    fs::write(cluster.path("plumb.sbatch"), &script).unwrap();
    let job = cluster.says("sbatch", &["--parsable", "plumb.sbatch"]);
    let record = cluster.path(&format!("plumb-fleet-{}.jsonl", job.trim()));
    wait_within(PATIENCE, "pairs that are measured", || {
        let steps = whole_events(&record);
        let last =
            events_of_kind(&steps, "pair").iter().filter_map(|pair| pair["step"].as_u64()).max();
        (last? >= 4).then_some(())
    });
    cluster.network.cut(CUT);
    cluster.kill(KILLED);
    let events = wait_within(PATIENCE, "the end of the sweep", || {
        let events = whole_events(&record);
        (!events_of_kind(&events, "end").is_empty()).then_some(events)
    });
    // What waits for the lost nodes is Slurm alone.
    cluster.network.mend(CUT);
    for node in [KILLED, CUT] {
        let node = format!("nodename={}", name(node));
        cluster.says("scontrol", &["update", &node, "state=down", "reason=test"]);
    }
    wait_within(PATIENCE, "the end of the job", || {
        let queue = cluster.says("squeue", &["-h", "-j", job.trim(), "-t", "all", "-o", "%T"]);
        ["COMPLETING", "COMPLETED", "FAILED"].contains(&queue.trim()).then_some(())
    });
    let log = fs::read_to_string(cluster.path(&format!("plumb-fleet-{}.log", job.trim())));
    let log = log.unwrap_or_default();

    let lost: Vec<u64> = events_of_kind(&events, "absent")
        .iter()
        .filter(|absent| absent["lost"] == true)
        .map(|absent| absent["rank"].as_u64().unwrap())
        .collect();
    assert!(lost.contains(&rank(KILLED)) && lost.contains(&rank(CUT)), "{lost:?}\n{log}");
    assert!(lost.iter().all(|of| [rank(KILLED), rank(CUT)].contains(of)), "{lost:?}\n{log}");
    // The rest is complete: each of the others has its figures, and no pair of them is missing.
    let rest: Vec<u64> =
        cluster.network.hosts().filter(|node| ![KILLED, CUT].contains(node)).map(rank).collect();
    for one in &rest {
        let mut figures = events_of_kind(&events, "figure").into_iter();
        assert!(figures.any(|figure| figure["rank"] == *one), "{one}\n{log}");
    }
    let missing = events_of_kind(&events, "absent").into_iter().filter(|absent| {
        let ends = [&absent["rank"], &absent["to"]].map(Value::as_u64);
        !ends.iter().flatten().any(|end| [rank(KILLED), rank(CUT)].contains(end))
    });
    assert_eq!(missing.count(), 0, "{log}");
    let strata: Vec<u64> = events_of_kind(&events, "node")
        .iter()
        .filter(|node| node["stratum"].to_string().contains("Another processor"))
        .map(|node| node["rank"].as_u64().unwrap())
        .collect();
    assert!(!strata.is_empty() && strata.iter().all(|of| *of == rank(OTHER)), "{strata:?}\n{log}");

    let judged = cluster.says(PLUMB, &["fleet", "report", "-f", "json", record.to_str().unwrap()]);
    let mut expected = vec![rank(SLOW)];
    expected.extend(is_long().then_some(rank(HALF)));
    expected.sort_unstable();
    assert_eq!(accused(&judged), expected, "{judged}");
    only_on_request(&cluster, record.to_str().unwrap());

    // Nothing stays at the nodes, nor the secret.
    for node in cluster.network.hosts().filter(|node| *node != KILLED) {
        wait_within(PATIENCE, "the end of a node's copies", || {
            let mut left = names(&cluster.network.here.path(&name(node)));
            left.retain(|name| name != "plumb.lock");
            left.is_empty().then_some(())
        });
    }
    let secrets: Vec<String> =
        names(&cluster.path("")).into_iter().filter(|name| name.ends_with(".key")).collect();
    assert!(secrets.is_empty(), "{secrets:?}");
}

/// Ranks of the nodes that a report accuses, confirmed; of a link the end that is not the slow node.
fn accused(report: &str) -> Vec<u64> {
    let report: Value = serde_json::from_str(report).unwrap();
    let verdicts = report["verdicts"].as_array().unwrap().iter();
    let confirmed = verdicts.filter(|verdict| verdict["charge"] != "suspect");
    let ranks = confirmed.map(|verdict| match &verdict["at"]["link"] {
        Value::Array(ends) => {
            let ends: Vec<u64> = ends.iter().map(|end| end.as_u64().unwrap()).collect();
            if ends.contains(&rank(SLOW)) { rank(SLOW) } else { ends[0] }
        }
        _ => verdict["at"]["node"].as_u64().unwrap(),
    });
    let mut ranks: Vec<u64> = ranks.collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// A node drains where the user says so, and not before.
#[track_caller]
fn only_on_request(cluster: &Cluster, record: &str) {
    let slow = name(SLOW);
    let state = || cluster.says("scontrol", &["show", "node", &slow]);
    assert!(!state().contains("DRAIN"), "{}", state());
    cluster.says(PLUMB, &["fleet", "slurm", "--drain", record]);
    assert!(!state().contains("DRAIN"), "{}", state());
    cluster.says(PLUMB, &["fleet", "slurm", "--drain", record, "--yes"]);
    assert!(state().contains("DRAIN") && state().contains("plumb: net.bandwidth"), "{}", state());
}

/// Submitted and followed by PLUMB, with the report at the end.
#[test]
fn a_run_submits_a_job_and_ends_with_its_report() {
    let cluster = Cluster::start(3, |_| Special::default());
    let options =
        ["--preset=rehearsal", "--pair=net.rtt:far=peer,protocol=tcp,message=64", "--steps=1"];
    let sweep = ["fleet", "run", "--slurm", "-N3", "--scratch=/mnt", "--plumb", PLUMB];
    let mut command = cluster.command("timeout");
    command.args(["100", PLUMB]).args(sweep).args(["clock.read:clock=instant"]).args(options);
    let answer = ends(0, command);
    for part in ["job 1 has the record", "meet: ended", "pairs: ended", "the sweep took"] {
        assert!(answer.err.contains(part), "{part}: {answer:?}");
    }
    assert!(!answer.out.is_empty(), "{answer:?}");
    let states = cluster.says("sinfo", &["-h", "-o", "%T"]);
    assert!(!states.contains("drain"), "{states}");
}
