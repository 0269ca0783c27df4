//! Nodes of a sweep as processes on this host, over loopback: rehearsals, and what a node must survive.

use crate::plumb::prelude::*;
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the nodes measure: little, and quickly.
pub const LITTLE: &str = "--preset rehearsal --pair net.rtt:far=peer,protocol=tcp,message=64 --steps 2 \
     --bisection 0 --incast 0 --outcast 0 --alone 10s --slot 8s cpu.peak:op=fma,type=f64,threads=1";
/// Time until the start: all nodes listen by then, also beside other tests.
const LEAD_S: u64 = 8;

/// A sweep on this host.
pub struct Sweep {
    pub here: Here,
    hosts: usize,
    start: u64,
}

impl Sweep {
    pub fn new(hosts: usize) -> Sweep {
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

    pub fn command(&self, rank: usize, more: &str) -> Command {
        let place = format!(
            "fleet run --hosts hosts --rank {rank} --key-file key --out out/%r.jsonl --start-at {} {LITTLE} {more}",
            self.start
        );
        let mut command = self.here.command(&place);
        // What is measured on one node does not wait for the others.
        command.env("PLUMB_LOCK", self.here.path(&format!("lock-{rank}")));
        command
    }

    pub fn start(&self, rank: usize) -> Program {
        self.here.start(&mut self.command(rank, ""))
    }

    pub fn start_all(&self) -> Vec<Program> {
        (0..self.hosts).map(|rank| self.start(rank)).collect()
    }

    pub fn lines(&self, rank: usize) -> Vec<Value> {
        let text =
            fs::read_to_string(self.here.path(&format!("out/{rank}.jsonl"))).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn report(&self) -> Value {
        self.here.ends(0, &["fleet", "report", "out", "-f", "json"]).json()
    }
}

fn has(lines: &[Value], what: &str) -> usize {
    lines.iter().filter(|line| line.get(what).is_some()).count()
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
    let all: Vec<Vec<Value>> = (0..3).map(|rank| sweep.lines(rank)).collect();
    for lines in &all {
        assert!(has(lines, "figure") > 0 && has(lines, "end") == 1, "{lines:?}");
        let clock = lines.iter().find_map(|line| line.get("clock")).unwrap();
        assert!(clock["offset_s"].as_f64().unwrap().abs() < 1.0 && clock["is_corrected"] == false);
    }
    // Two slots of one pair each.
    let pairs = all.iter().map(|lines| has(lines, "pair")).sum::<usize>();
    let served = all.iter().map(|lines| has(lines, "served")).sum::<usize>();
    assert_eq!((pairs, served), (2, 2), "{all:?}");
    let report = sweep.report();
    assert_eq!((&report["lost"], &report["notes"]), (&json!([]), &json!([])), "{report}");
    let text = sweep.here.ends(0, &["fleet", "report", "out"]).out;
    assert!(text.contains("fewer than six are alike"), "{text}");
}

/// A far end that is frozen before it listens costs its own slots: all other pairs are measured.
#[test]
fn a_frozen_node_costs_its_own_pairs() {
    frozen_costs_its_own_pairs(1);
}

/// The first node is as any other.
#[test]
fn a_frozen_first_node_costs_its_own_pairs() {
    frozen_costs_its_own_pairs(0);
}

fn frozen_costs_its_own_pairs(bad: usize) {
    let sweep = Sweep::new(4);
    let mut nodes = sweep.start_all();
    wait_for("the first lines", || (0..4).all(|rank| !sweep.lines(rank).is_empty()).then_some(()));
    let frozen = nodes.remove(bad);
    frozen.signal("STOP");
    // The agent by which it is asked for its clock.
    let pid = frozen.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().for_each(|child| signal("STOP", child.parse().unwrap()));
    let code = nodes.into_iter().map(|node| node.ended_within(PATIENCE).code);
    assert!(code.collect::<Vec<_>>().iter().all(|code| *code == Some(0)));
    let name = |rank: usize| {
        let hosts = fs::read_to_string(sweep.here.path("hosts")).unwrap();
        hosts.lines().nth(rank).unwrap().to_owned()
    };
    let report = sweep.report();
    let lost: Vec<&str> = report["lost"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lost| lost["node"].as_str().unwrap())
        .collect();
    assert_eq!(lost, [name(bad)], "{report}");
    // Each slot has two pairs, one of them of the frozen node.
    let mut pairs = 0;
    for rank in (0..4).filter(|rank| *rank != bad) {
        let lines = sweep.lines(rank);
        pairs += has(&lines, "pair");
        let absents = lines.iter().filter_map(|line| line.get("absent"));
        for absent in absents.filter(|absent| absent.get("slot").is_some()) {
            assert_eq!(absent["partner"], name(bad), "{absent}");
        }
    }
    assert_eq!(pairs, 2);
    drop(frozen);
}

/// No node waits for rank 0, whatever becomes of it.
#[test]
fn nodes_do_not_wait_for_the_first_one() {
    let sweep = Sweep::new(3);
    let nodes: Vec<Program> = [1, 2].map(|rank| sweep.start(rank)).into();
    let began = Instant::now();
    for node in nodes {
        assert_eq!(node.ended_within(PATIENCE).code, Some(0));
    }
    // By the clock: the lead, ten seconds alone and two slots of eight, and what ending takes.
    let planned = Duration::from_secs(LEAD_S + 10 + 16);
    assert!(began.elapsed() < planned + Duration::from_secs(20), "{:?}", began.elapsed());
    let report = sweep.report();
    assert_eq!(report["lost"].as_array().unwrap().len(), 1, "{report}");
}

/// Connections that say nothing, far more than an agent holds, keep no partner out.
#[test]
fn silent_connections_keep_no_node_out() {
    let sweep = Sweep::new(2);
    let nodes = sweep.start_all();
    wait_for("the first lines", || (0..2).all(|rank| !sweep.lines(rank).is_empty()).then_some(()));
    let hosts = fs::read_to_string(sweep.here.path("hosts")).unwrap();
    let silent: Vec<TcpStream> = (0..1200)
        .flat_map(|_| hosts.lines().map(TcpStream::connect).collect::<Vec<_>>())
        .flatten()
        .collect();
    for node in nodes {
        assert_eq!(node.ended_within(PATIENCE).code, Some(0));
    }
    drop(silent);
    let lines: Vec<Value> = (0..2).flat_map(|rank| sweep.lines(rank)).collect();
    assert_eq!((has(&lines, "pair"), has(&lines, "end")), (1, 2), "{lines:?}");
}

/// A node speaks for itself alone: its file has no place for another's figures, and a file with
/// another's name is not counted beside the real one.
#[test]
fn a_node_cannot_speak_for_another() {
    let sweep = Sweep::new(2);
    for node in sweep.start_all() {
        assert_eq!(node.ended_within(PATIENCE).code, Some(0));
    }
    fs::copy(sweep.here.path("out/1.jsonl"), sweep.here.path("out/copy.jsonl")).unwrap();
    let report = sweep.report();
    let notes = report["notes"].as_array().unwrap();
    assert!(
        notes.len() == 1 && notes[0].as_str().unwrap().contains("has another file"),
        "{report}"
    );
}

/// One whose clock is an hour off follows its peers, and is named.
#[test]
fn a_clock_that_is_off_is_corrected_and_named() {
    let sweep = Sweep::new(4);
    let mut nodes: Vec<Program> = [0, 1, 3].map(|rank| sweep.start(rank)).into();
    let mut command = sweep.command(2, "");
    command.env("PLUMB_CLOCK_OFFSET_S", "3600");
    nodes.push(sweep.here.start(&mut command));
    for node in nodes {
        let ended = node.ended_within(PATIENCE);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let report = sweep.report();
    let clocks = report["clocks"].as_array().unwrap();
    assert_eq!(clocks.len(), 1, "{report}");
    assert!(clocks[0].as_str().unwrap().contains("is 1 h 0 min ahead of 3 peers"), "{report}");
    let pairs: usize = (0..4).map(|rank| has(&sweep.lines(rank), "pair")).sum();
    assert_eq!((pairs, &report["lost"]), (4, &json!([])), "{report}");
}

/// A node whose disk is full serves and measures to the end, and says so.
#[test]
fn a_full_disk_costs_the_file_and_no_pair() {
    let sweep = Sweep::new(2);
    let first = sweep.start(0);
    let node = sweep.command(1, "");
    let mut full = sweep.here.other("unshare");
    let fill =
        "mount -t tmpfs -o size=4k none out && head -c 4096 /dev/zero >out/fill; exec \"$@\"";
    full.args(["--mount", "sh", "-c", fill, "sh", PLUMB]).args(node.get_args());
    full.envs(node.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let full = sweep.here.start(&mut full);
    assert_eq!(first.ended_within(PATIENCE).code, Some(0));
    let ended = full.ended_within(PATIENCE);
    assert!(ended.code == Some(3) && ended.said.contains("cannot write out/1.jsonl"), "{ended:?}");
    let lines = sweep.lines(0);
    let served = lines.iter().filter(|line| line["served"]["sessions"].as_u64() > Some(0));
    assert_eq!(has(&lines, "pair") + served.count(), 1, "{lines:?}");
    let report = sweep.report();
    assert_eq!(report["lost"].as_array().unwrap().len(), 1, "{report}");
}

/// Another key is no partner.
#[test]
fn a_node_with_another_key_is_no_partner() {
    let sweep = Sweep::new(2);
    sweep.here.ends(0, &["agent", "--new-key", "other"]);
    let first = sweep.start(0);
    let mut command = sweep.command(1, "");
    command.env("PLUMB_FLEET_KEY", fs::read_to_string(sweep.here.path("other")).unwrap());
    let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut stranger = sweep.here.other(PLUMB);
    stranger.args(args.iter().filter(|arg| *arg != "--key-file" && *arg != "key"));
    stranger.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let stranger = sweep.here.start(&mut stranger);
    for node in [first, stranger] {
        assert_eq!(node.ended_within(PATIENCE).code, Some(0));
    }
    let lines: Vec<Value> = (0..2).flat_map(|rank| sweep.lines(rank)).collect();
    assert_eq!(has(&lines, "pair"), 0, "{lines:?}");
    let said = lines.iter().filter_map(|line| line["absent"]["why"].as_str());
    assert!(said.clone().any(|why| why.contains("no partner")), "{:?}", said.collect::<Vec<_>>());
}

/// What cannot be meant is one line, before anything is measured.
#[test]
fn what_cannot_be_meant_is_one_line() {
    let here = Here::new();
    here.ends(0, &["agent", "--new-key", "key"]);
    fs::write(here.path("hosts"), "127.0.0.1:1\n127.0.0.1:2\n").unwrap();
    fs::write(here.path("twice"), "n1\nn2\nn1\n").unwrap();
    let run = |more: &str| format!("fleet run --key-file key --rank 0 {more}");
    for (args, part) in [
        (run("--hosts twice --out -"), "n1 is listed twice"),
        (run("--hosts hosts --size 3 --out -"), "the list has 2 hosts, but 3 nodes"),
        (run("--hosts hosts --out absent/%h.jsonl"), "cannot write absent/127.0.0.1_1.jsonl"),
        (run("--hosts hosts --into absent"), "cannot write absent"),
        (run("--hosts absent --out -"), "cannot read the list of hosts absent"),
        (run("--out -"), "--hosts FILE"),
        ("fleet run --hosts hosts --rank 0 --out -".to_owned(), "a sweep needs a secret"),
        ("fleet report absent".to_owned(), "cannot read absent"),
        ("fleet report .".to_owned(), "has no file of a sweep"),
    ] {
        let refused = here.ends(2, &args);
        assert!(refused.err.contains(part), "{args}: {refused:?}");
        assert_eq!(refused.err.lines().count(), 1, "{args}: {refused:?}");
    }
}

#[test]
fn a_start_in_the_past_is_one_line_here_and_in_the_report() {
    let sweep = Sweep { start: 1_000_000_000, ..Sweep::new(1) };
    let refused = ends(2, sweep.command(0, ""));
    assert!(refused.err.contains("in the past: give a later --start-at"), "{refused:?}");
    let text = sweep.here.ends(0, &["fleet", "report", "out"]).out;
    assert!(text.contains("its file has no end") && text.contains("in the past"), "{text}");
}

/// Three ranks by a real launcher of MPI, without a rank of their own.
#[test]
fn mpirun_gives_ranks() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        return skips::part("program", "mpirun");
    }
    let sweep = Sweep::new(3);
    let node = sweep.command(0, "");
    let mut args: Vec<String> =
        node.get_args().map(|arg| arg.to_str().unwrap().to_owned()).collect();
    let rank = args.iter().position(|arg| arg == "--rank").unwrap();
    args.drain(rank..rank + 2);
    let mut mpi = sweep.here.other("mpirun");
    mpi.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
        "-np",
        "3",
        "sh",
        "-c",
    ]);
    mpi.arg("PLUMB_LOCK=$PWD/lock-$OMPI_COMM_WORLD_RANK exec \"$@\"")
        .args(["sh", PLUMB])
        .args(args);
    ends(0, mpi);
    for rank in 0..3 {
        let lines = sweep.lines(rank);
        assert_eq!(lines[0]["node"]["rank"], rank, "{lines:?}");
        assert_eq!(
            (&lines[0]["node"]["starter"], has(&lines, "end")),
            (&json!("mpi"), 1),
            "{lines:?}"
        );
    }
}
