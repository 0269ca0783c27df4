//! Nodes of a sweep as processes on this host, over loopback: rehearsals and drawn figures.

use crate::plumb::prelude::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// A sweep on this host.
struct Sweep {
    here: Here,
    meet: String,
    size: u32,
}

/// What the nodes of most tests measure: little, and quickly.
const LITTLE: &str = "--preset rehearsal --pair net.rtt:far=peer --seed 7 --steps 2 clock.read";
/// Waits that end soon.
const SOON: &str =
    "--join-within 20s --back-within 2s --answer-within 10s --alone-within 60s --patience 20s";

impl Sweep {
    fn new(size: u32) -> Sweep {
        let here = Here::new();
        here.ends(0, &["agent", "--new-key", "key"]);
        // Free a moment ago: whoever takes it meanwhile fails the test, and says so.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        Sweep { here, meet: free.local_addr().unwrap().to_string(), size }
    }

    fn place(&self, rank: u32, key: &str) -> String {
        format!("--rank {rank} --size {} --meet {} --key-file {key}", self.size, self.meet)
    }

    fn node(&self, rank: u32, key: &str, more: &str) -> Program {
        let line = format!("fleet node {} {more}", self.place(rank, key));
        // What a node that is killed leaves there goes with the test.
        self.here.start(self.here.command(&line).env("TMPDIR", self.here.path("")))
    }

    fn start(&self, rank: u32, options: &str) -> Program {
        let own = if rank == 0 { "--out sweep.jsonl --name first" } else { "" };
        self.node(rank, "key", &format!("{own} {SOON} {options}"))
    }

    fn resume(&self, options: &str) -> Program {
        let place = self.place(0, "key");
        let line = format!("fleet resume sweep.jsonl {place} {SOON} {options}");
        self.here.start(&mut self.here.command(&line))
    }

    fn record(&self) -> PathBuf {
        self.here.path("sweep.jsonl")
    }

    /// The whole lines of the record.
    fn events(&self) -> Vec<Value> {
        crate::network::whole_events(&self.record())
    }

    fn events_of_kind(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// Waits until a phase has begun.
    fn wait_for_phase(&self, phase: &str) {
        wait_for(phase, || {
            let begun = |event: &Value| event["phase"] == phase;
            self.events_of_kind("phase").iter().any(begun).then_some(())
        });
    }

    fn phases(&self) -> Vec<String> {
        let ended = self.events_of_kind("phase").into_iter().filter(|event| event["ended"] == true);
        ended.map(|event| event["phase"].as_str().unwrap().to_owned()).collect()
    }

    /// Options that have figures drawn.
    fn drawn(&self, takes_s: f64) -> String {
        let text = format!(r#"{{"seed":3,"figures":3,"slow":{{"2":0.5}},"takes_s":{takes_s}}}"#);
        fs::write(self.here.path("drawn.json"), text).unwrap();
        "--figures drawn.json".to_owned()
    }
}

const PHASES: [&str; 5] = ["meet", "alone", "pairs", "suspects", "gather"];

fn end(program: Program) -> Answer {
    let ended = program.ended_within(Duration::from_secs(120));
    Answer { code: ended.code, out: String::new(), err: ended.said }
}

/// All nodes of a sweep end well.
fn all_end(programs: Vec<Program>) {
    for (rank, program) in programs.into_iter().enumerate() {
        let answer = end(program);
        assert_eq!(answer.code, Some(0), "node {rank}: {}", answer.err);
    }
}

/// An address that leads to another one, and back: what arrives from there within a third of a second
/// arrives at once.
fn bundled(to: String) -> String {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = door.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for near in door.incoming() {
            // A connection that leads nowhere yet is closed: the node comes again.
            let (Ok(near), Ok(far)) = (near, TcpStream::connect(&to)) else { continue };
            let (up, down) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut &up, &mut &far));
            std::thread::spawn(move || {
                let mut bytes = [0; 1 << 16];
                while let Ok(1..) = down.peek(&mut bytes) {
                    std::thread::sleep(Duration::from_millis(300));
                    let read = (&down).read(&mut bytes)?;
                    (&near).write_all(&bytes[..read])?;
                }
                near.shutdown(Shutdown::Both)
            });
        }
    });
    at
}

#[test]
fn an_order_that_arrives_with_the_welcome_is_carried_out() {
    let mut sweep = Sweep::new(2);
    let options = sweep.drawn(0.0);
    let rank0 = sweep.start(0, &options);
    sweep.meet = bundled(sweep.meet);
    all_end(vec![rank0, sweep.start(1, &options)]);
    assert_eq!(sweep.phases(), PHASES);
    assert_eq!(sweep.events_of_kind("absent"), Vec::<Value>::new());
}

#[test]
fn three_nodes_meet_measure_themselves_and_their_pairs() {
    let sweep = Sweep::new(3);
    all_end((0..3).map(|rank| sweep.start(rank, LITTLE)).collect());
    assert_eq!(sweep.phases(), PHASES);
    for rank in 0..3 {
        let own = |event: &&Value| event["rank"] == rank;
        assert!(sweep.events_of_kind("figure").iter().filter(own).count() > 0, "node {rank}");
        let nodes = sweep.events_of_kind("node");
        let record = nodes.iter().filter(own).find_map(|node| node["record"].as_str());
        assert!(PathBuf::from(record.unwrap()).is_file(), "{record:?}");
    }
    let pairs = sweep.events_of_kind("pair");
    for step in 0..2 {
        assert!(pairs.iter().any(|pair| pair["step"] == step), "{step}");
    }
    assert!(
        pairs.iter().all(|pair| pair["experiment"] == "net.rtt" && pair["case"]["far"] == "peer")
    );
    assert_eq!(sweep.events_of_kind("end")[0]["interrupted"], false);
    assert_eq!(sweep.events_of_kind("absent"), Vec::<Value>::new());
    assert!(sweep.events_of_kind("header")[0].get("simulated").is_none());
}

#[test]
fn who_does_not_belong_to_the_sweep_is_not_let_in_and_costs_nothing() {
    let sweep = Sweep::new(3);
    let figures = sweep.drawn(0.0);
    let own = format!("--out sweep.jsonl {figures} --join-within 12s");
    sweep.here.ends(0, &["agent", "--new-key", "other"]);
    let first = sweep.node(0, "key", &own);
    let second = sweep.start(1, &format!("{figures} --name second"));
    wait_for("the second", || {
        sweep.events_of_kind("node").iter().any(|node| node["rank"] == 1).then_some(())
    });
    let stranger = end(sweep.node(2, "other", &figures));
    assert_eq!(stranger.code, Some(3), "{}", stranger.err);
    assert!(stranger.err.contains("another secret"), "{}", stranger.err);
    let double = end(sweep.node(1, "key", &format!("{figures} --name double")));
    assert_eq!(double.code, Some(3), "{}", double.err);
    assert!(double.err.contains("rank 1") && double.err.contains("second"), "{}", double.err);
    let measures = end(sweep.node(2, "key", "--patience 5s"));
    assert!(measures.err.contains("figures are measured"), "{}", measures.err);
    let first = end(first);
    assert_eq!(first.code, Some(0), "{}", first.err);
    for line in ["it has another secret", "two nodes have rank 1", "rank 2"] {
        assert!(first.err.contains(line), "{line}: {}", first.err);
    }
    assert_eq!(end(second).code, Some(0));
    let absent = sweep.events_of_kind("absent");
    assert!(absent.iter().any(|of| of["rank"] == 2 && of["lost"] == true), "{absent:?}");
    assert_eq!(sweep.events_of_kind("header")[0]["simulated"], true);
}

/// A node that is killed leaves its keys and records; the next one on its machine removes them.
#[test]
fn the_next_node_removes_what_a_killed_one_left() {
    let sweep = Sweep::new(1);
    let left = || {
        let work = |name: &String| name.starts_with("plumb-sweep-");
        sweep.here.entries("").into_iter().filter(work).collect::<Vec<_>>()
    };
    let mut first = sweep.start(0, LITTLE);
    wait_for("a work directory", || (left().len() == 1).then_some(()));
    first.kill();
    let killed = left();
    assert_eq!(killed.len(), 1);
    fs::remove_file(sweep.record()).unwrap();
    let next = end(sweep.start(0, LITTLE));
    assert_eq!(next.code, Some(0), "{}", next.err);
    assert!(next.err.contains(&killed[0]), "{}", next.err);
    assert_eq!(left(), [""; 0]);
}

#[test]
fn a_node_that_does_not_come_is_listed_and_the_sweep_goes_on() {
    let sweep = Sweep::new(3);
    let figures = sweep.drawn(0.0);
    let options = format!("{figures} --patience 20s --join-within 2s");
    let own = format!("--out sweep.jsonl {options}");
    let programs = vec![sweep.node(0, "key", &own), sweep.node(1, "key", &options)];
    all_end(programs);
    let absent = sweep.events_of_kind("absent");
    assert!(absent.iter().any(|of| of["rank"] == 2 && of["phase"] == "meet"), "{absent:?}");
    assert_eq!(sweep.phases(), PHASES);
}

#[test]
fn a_node_that_is_killed_costs_its_own_figures_in_each_phase() {
    for phase in ["meet", "alone", "pairs"] {
        let sweep = Sweep::new(4);
        let options = sweep.drawn(0.5);
        let mut programs: Vec<Program> = (0..3).map(|rank| sweep.start(rank, &options)).collect();
        let mut victim = sweep.start(3, &options);
        sweep.wait_for_phase(phase);
        victim.kill();
        drop(victim);
        if phase == "meet" {
            // It may have been killed before it joined.
            programs.push(sweep.start(3, &options));
            all_end(programs);
        } else {
            all_end(programs);
            let lost = sweep.events_of_kind("absent");
            assert!(lost.iter().any(|of| of["rank"] == 3 && of["lost"] == true), "{phase}");
        }
        for rank in 0..3 {
            let own = |node: &Value| node["rank"] == rank && node["record"].is_string();
            assert!(sweep.events_of_kind("node").iter().any(own), "{phase}: node {rank}");
        }
        assert_eq!(sweep.phases(), PHASES, "{phase}");
    }
}

#[test]
fn a_node_that_gets_a_signal_ends_what_it_started_and_says_so() {
    let sweep = Sweep::new(3);
    // More than a moment's work.
    let long = format!("{LITTLE} os.syscall");
    let programs: Vec<Program> = (0..2).map(|rank| sweep.start(rank, &long)).collect();
    let third = sweep.start(2, &long);
    sweep.wait_for_phase("alone");
    third.signal("TERM");
    let answer = end(third);
    assert_eq!(answer.code, Some(4), "{}", answer.err);
    all_end(programs);
    let absent = sweep.events_of_kind("absent");
    let own = |of: &&Value| of["rank"] == 2 && of["lost"] == true;
    let why = absent.iter().find(own).unwrap()["why"].as_str().unwrap().to_owned();
    assert!(why.contains("a signal ended it"), "{why}");
}

#[test]
fn rank_0_is_killed_or_stopped_and_the_sweep_goes_on_to_the_same_figures() {
    let keys = |sweep: &Sweep| {
        let of = |event: &Value| {
            format!("{} {} {} {}", event["rank"], event["from"], event["to"], event["value"])
        };
        let mut all: Vec<String> = sweep
            .events_of_kind("figure")
            .iter()
            .chain(&sweep.events_of_kind("pair"))
            .map(of)
            .collect();
        all.sort();
        all.dedup();
        all
    };
    let whole = |how: Option<(&str, &str)>| {
        let sweep = Sweep::new(3);
        let options = sweep.drawn(0.3);
        let asked = format!("{options} --seed 9");
        let mut first = sweep.start(0, &asked);
        let others: Vec<Program> = (1..3).map(|rank| sweep.start(rank, &options)).collect();
        if let Some((signal, phase)) = how {
            sweep.wait_for_phase(phase);
            match signal {
                "KILL" => {
                    first.kill();
                    drop(first);
                    drop(others);
                }
                signal => {
                    first.signal(signal);
                    let answer = end(first);
                    assert_eq!(answer.code, Some(4), "{}", answer.err);
                    assert!(answer.err.contains("plumb fleet resume"), "{}", answer.err);
                    assert_eq!(sweep.events_of_kind("end")[0]["interrupted"], true);
                    drop(others);
                }
            }
            let mut again = vec![sweep.resume(&options)];
            again.extend((1..3).map(|rank| sweep.start(rank, &options)));
            all_end(again);
        } else {
            all_end(std::iter::once(first).chain(others).collect());
        }
        keys(&sweep)
    };
    let undisturbed = whole(None);
    for how in [("KILL", "meet"), ("KILL", "alone"), ("KILL", "pairs"), ("TERM", "pairs")] {
        assert_eq!(whole(Some(how)), undisturbed, "{how:?}");
    }
}

/// A file system of little room, until it is dropped.
struct Tiny(PathBuf);

impl Tiny {
    fn new(path: PathBuf) -> Tiny {
        fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16k", "tiny"]).arg(&path);
        assert!(mount.status().unwrap().success());
        Tiny(path)
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_on_one_node_costs_that_node_alone() {
    let sweep = Sweep::new(3);
    let tiny = Tiny::new(sweep.here.path("tiny"));
    let full = format!("{LITTLE} --records {}", tiny.0.display());
    let options = [LITTLE, &full, LITTLE];
    all_end((0..3).zip(options).map(|(rank, options)| sweep.start(rank, options)).collect());
    let absent = sweep.events_of_kind("absent");
    let own = |of: &&Value| of["rank"] == 1 && of["phase"] == "alone";
    let why = absent.iter().find(own).map(|of| of["why"].as_str().unwrap().to_owned());
    assert!(why.unwrap_or_default().contains("No space left"), "{absent:?}");
    assert!(absent.iter().all(|of| of["rank"] == 1 && of["lost"] == false), "{absent:?}");
    // It is still a partner of the others.
    assert!(sweep.events_of_kind("pair").iter().any(|pair| pair["from"] == 1 || pair["to"] == 1));
    assert_eq!(sweep.phases(), PHASES);
}

#[test]
fn a_plan_has_its_phases_and_measures_nothing() {
    let here = Here::new();
    let answer = here.ends(0, &["fleet", "plan", "-N", "64", "--preset", "quick"]);
    for phase in PHASES {
        assert!(answer.out.contains(phase), "{}", answer.out);
    }
    assert!(answer.out.contains("12 steps"), "{}", answer.out);
    // The suspects have a time as well: none where nothing stands out, up to what the looks allow.
    let plan = here.ends(0, &["fleet", "plan", "-N", "64", "--preset", "quick", "--json"]).json();
    for phase in plan["phases"].as_array().unwrap() {
        let seconds = |name: &str| phase[name].as_f64().unwrap();
        let (least, most) = (seconds("expected_s"), seconds("expected_up_to_s"));
        match phase["phase"].as_str() {
            Some("suspects") => assert!(least == 0.0 && most > 0.0, "{phase}"),
            _ => assert!(least == most && most > 0.0, "{phase}"),
        }
        assert!(most < seconds("at_most_s"), "{phase}");
    }
}
