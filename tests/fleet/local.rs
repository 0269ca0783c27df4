//! Nodes of a sweep as processes on this host, over loopback: rehearsals, and what a node must survive.

use crate::plumb::prelude::*;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the nodes measure: little, and quickly.
pub const LITTLE: &str = "--preset rehearsal --pair net.rtt:far=peer,protocol=tcp,message=64 --steps 2 \
     --bisection 0 --incast 0 --outcast 0 --alone 10s --slot 8s cpu.peak:op=fma,type=f64,threads=1";
/// Time until the start: all nodes listen by then, also beside other tests.
const LEAD_S: u64 = 8;

struct Sweep {
    here: Here,
    hosts: usize,
    start: u64,
}

impl Sweep {
    fn new(hosts: usize) -> Sweep {
        let here = Here::new();
        here.ends(0, &["agent", "--new-key", "key"]);
        // Free a moment ago: whoever takes them meanwhile fails the test, and says so.
        let free: Vec<TcpListener> =
            (0..hosts).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |listener: &TcpListener| format!("{}\n", listener.local_addr().unwrap());
        fs::write(here.path("hosts"), free.iter().map(address).collect::<String>()).unwrap();
        here.make_dir("out");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        Sweep { here, hosts, start: now + LEAD_S }
    }

    /// A node with this key. What is measured on one node does not wait for the others.
    fn command(&self, rank: usize, key: &str) -> Command {
        let place = format!("fleet run --hosts hosts --rank {rank} --key-file {key}");
        let what = format!("--out out/%r.jsonl --start-at {} {LITTLE}", self.start);
        let mut command = self.here.command(&format!("{place} {what}"));
        command.env("PLUMB_LOCK", self.here.path(&format!("lock-{rank}")));
        command
    }

    fn start_all(&self) -> Vec<Program> {
        (0..self.hosts).map(|rank| self.here.start(&mut self.command(rank, "key"))).collect()
    }

    fn name(&self, rank: usize) -> String {
        let hosts = fs::read_to_string(self.here.path("hosts")).unwrap();
        hosts.lines().nth(rank).unwrap().to_owned()
    }

    fn lines(&self, rank: usize) -> Vec<Value> {
        let text =
            fs::read_to_string(self.here.path(&format!("out/{rank}.jsonl"))).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// What the lines of all nodes say of one kind.
    fn said(&self, kind: &str) -> Vec<Value> {
        let lines = (0..self.hosts).flat_map(|rank| self.lines(rank));
        lines.filter_map(|line| line.get(kind).cloned()).collect()
    }

    fn wait_for_first_lines(&self) {
        let begun = || (0..self.hosts).all(|rank| !self.lines(rank).is_empty());
        wait_for("the first lines", || begun().then_some(()));
    }

    fn report(&self) -> Value {
        self.here.ends(0, "fleet report out -f json").json()
    }
}

#[track_caller]
fn all_end(nodes: impl IntoIterator<Item = Program>) {
    for node in nodes {
        let ended = node.ended_within(PATIENCE);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

fn named<'report>(report: &'report Value, list: &str) -> Vec<&'report Value> {
    report[list].as_array().unwrap().iter().map(|one| &one["node"]).collect()
}

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn three_nodes_measure_themselves_and_each_other() {
    let sweep = Sweep::new(3);
    for node in sweep.start_all() {
        let ended = node.ended_within(PATIENCE);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.said.contains("fewer than six nodes: no node can be accused"), "{ended:?}");
    }
    for clock in sweep.said("clock") {
        assert!(clock["offset_s"].as_f64().unwrap().abs() < 1.0 && clock["is_corrected"] == false);
    }
    // Two slots of one pair each.
    let counts = ["clock", "end", "pair", "served"].map(|kind| sweep.said(kind).len());
    assert_eq!(counts, [3, 3, 2, 2]);
    let report = sweep.report();
    assert_eq!((&report["lost"], &report["notes"]), (&json!([]), &json!([])), "{report}");
    let text = sweep.here.ends(0, "fleet report out").out;
    assert!(text.contains("fewer than six are alike"), "{text}");
    // A node speaks for itself alone: a file with another's name is not counted beside the real one.
    fs::copy(sweep.here.path("out/1.jsonl"), sweep.here.path("out/copy.jsonl")).unwrap();
    let notes = sweep.report()["notes"].clone();
    assert_eq!(notes.as_array().unwrap().len(), 1, "{notes}");
    assert!(notes[0].as_str().unwrap().contains("has another file"), "{notes}");
}

/// A node that is frozen before it serves, the first one or another, costs its own slots: all other pairs
/// are measured, and no node waits for it.
#[test]
fn a_frozen_node_costs_its_own_pairs() {
    let frozen = [0, 1].map(|bad| {
        let sweep = Sweep::new(4);
        let mut nodes = sweep.start_all();
        sweep.wait_for_first_lines();
        let frozen = nodes.remove(bad);
        frozen.signal("STOP");
        // The agent by which it is asked for its clock.
        let pid = frozen.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().for_each(|child| signal("STOP", child.parse().unwrap()));
        (bad, sweep, nodes, frozen)
    });
    for (bad, sweep, nodes, frozen) in frozen {
        all_end(nodes);
        let (report, name) = (sweep.report(), sweep.name(bad));
        assert_eq!(named(&report, "lost"), [&json!(name)], "{report}");
        // Each slot has two pairs, one of them of the frozen node.
        assert_eq!(sweep.said("pair").len(), 2);
        for absent in sweep.said("absent").iter().filter(|absent| absent["slot"].is_u64()) {
            assert_eq!(absent["partner"], name, "{absent}");
        }
        drop(frozen);
    }
}

/// Connections that say nothing, far more than an agent holds, keep no partner out.
#[test]
fn silent_connections_keep_no_node_out() {
    let sweep = Sweep::new(2);
    let nodes = sweep.start_all();
    sweep.wait_for_first_lines();
    let hosts = [0, 1].map(|rank| sweep.name(rank));
    let silent: Vec<TcpStream> =
        (0..2400).filter_map(|at| TcpStream::connect(&hosts[at % 2]).ok()).collect();
    all_end(nodes);
    drop(silent);
    assert_eq!(["pair", "end"].map(|kind| sweep.said(kind).len()), [1, 2]);
}

/// A full disk, a clock that is an hour off and another key cost their own file or slots, and are named.
#[test]
fn faults_of_nodes_cost_their_own_part() {
    let (full, ahead, stranger) = (1, 2, 3);
    let sweep = Sweep::new(4);
    sweep.here.ends(0, "agent --new-key other");
    let first = sweep.here.start(&mut sweep.command(0, "key"));
    let mut late = sweep.command(ahead, "key");
    let late = sweep.here.start(late.env("PLUMB_CLOCK_OFFSET_S", "3600"));
    let other = sweep.here.start(&mut sweep.command(stranger, "other"));
    let node = sweep.command(full, "key");
    let fill =
        "mount -t tmpfs -o size=4k none out && head -c 4096 /dev/zero >out/fill; exec \"$@\"";
    let mut command = sweep.here.other("unshare");
    command.args(["--mount", "sh", "-c", fill, "sh", PLUMB]).args(node.get_args());
    command.envs(node.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let node = sweep.here.start(&mut command);
    all_end([first, late, other]);
    let ended = node.ended_within(PATIENCE);
    assert!(ended.code == Some(3) && ended.said.contains("cannot write out/1.jsonl"), "{ended:?}");
    let report = sweep.report();
    assert_eq!(named(&report, "lost"), [&json!(sweep.name(full))], "{report}");
    let lines = [0, ahead].into_iter().flat_map(|rank| sweep.lines(rank));
    for absent in lines.filter_map(|line| line.get("absent").cloned()) {
        assert_eq!(absent["partner"], sweep.name(stranger), "{absent}");
    }
    assert_eq!(report["clocks"].as_array().unwrap().len(), 1, "{report}");
    let clock = report["clocks"][0].as_str().unwrap();
    assert!(
        clock.starts_with(&sweep.name(ahead)) && clock.contains("is 1 h 0 min ahead"),
        "{clock}"
    );
    // Each slot has two pairs, one of them of the stranger: the node without a file measures or serves too.
    let served = sweep.said("served").into_iter().filter(|served| served["sessions"] != 0);
    let slots = sweep.said("pair").into_iter().chain(served).map(|part| part["slot"].as_u64());
    assert_eq!(slots.collect::<BTreeSet<_>>(), [Some(0), Some(1)].into(), "{report}");
}

/// Three ranks by a real launcher of MPI, without a rank of their own.
#[test]
fn mpirun_gives_ranks() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        return skips::part("program", "mpirun");
    }
    let sweep = Sweep::new(3);
    let mut mpi = sweep.here.other("mpirun");
    mpi.args("--allow-run-as-root --oversubscribe --bind-to none -np 3 sh -c".words());
    mpi.arg("PLUMB_LOCK=$PWD/lock-$OMPI_COMM_WORLD_RANK exec \"$@\"").args(["sh", PLUMB]);
    let node = sweep.command(0, "key");
    let mut args: Vec<&OsStr> = node.get_args().collect();
    let rank = args.iter().position(|arg| *arg == "--rank").unwrap();
    args.drain(rank..rank + 2);
    mpi.args(args);
    ends(0, mpi);
    for rank in 0..3 {
        let lines = sweep.lines(rank);
        let node = &lines[0]["node"];
        assert_eq!((&node["rank"], &node["starter"]), (&json!(rank), &json!("mpi")), "{lines:?}");
    }
    assert_eq!(sweep.said("end").len(), 3);
}
