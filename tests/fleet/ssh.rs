//! Real ssh: hosts that take part, and hosts that do not.

use crate::network::whole_events;
use crate::plumb::prelude::*;
use crate::server::Servers;
use std::os::unix::fs::symlink;

/// What a sweep measures here: little.
const SWEEP: &str = "clock.read:clock=instant --preset=rehearsal \
     --pair=net.rtt:far=peer,protocol=tcp,message=64 --steps=1 --join-within=30s";

impl Servers {
    /// Puts this plumb at a host.
    fn has_plumb(&self, host: usize) {
        symlink(PLUMB, self.path(host, "plumb")).unwrap();
    }

    /// A sweep over the hosts of a list.
    fn sweep(&self, list: &str, more: &[&str]) -> Command {
        fs::write(self.network.here.path("nodes.txt"), list).unwrap();
        let mut command = self.command(PLUMB);
        command.args(["fleet", "run", "--hosts", "nodes.txt", "--out", "sweep.jsonl"]);
        command.args(SWEEP.words()).args(more);
        command
    }

    /// Nothing runs at the hosts but their servers, and nothing is left in their directories.
    #[track_caller]
    fn are_left_clean(&self) {
        for host in self.network.hosts() {
            wait_for("the end of what ssh started", || {
                let commands = self
                    .network
                    .processes(host)
                    .into_iter()
                    .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok());
                commands.into_iter().all(|line| !line.contains("fleet\0node")).then_some(())
            });
            wait_for("the end of what nodes wrote", || {
                names(&self.path(host, "tmp")).is_empty().then_some(())
            });
        }
    }
}

/// Three hosts take part; of the others each gets a line with the way out.
#[test]
fn hosts_that_cannot_take_part_get_a_line_and_the_sweep_goes_on() {
    let servers = Servers::start(7);
    for host in [1, 2, 3] {
        servers.has_plumb(host);
    }
    // One that lets in others, one that does not answer, one with another version, and one with none.
    servers.admits(4, "stranger");
    for server in servers.processes(5) {
        signal("STOP", server);
    }
    servers.program(6, "plumb", "#!/bin/sh\necho plumb 0.0.9\n");
    let list = "n[1-2] rack=r1\nn3 rack=r2\nn[4-7]\n";
    let answer = ends(0, servers.sweep(list, &[]));
    for parts in [
        ["n4 takes no part", "ssh n4"],
        ["n5 takes no part", "ssh n5"],
        ["n6 takes no part: it has plumb 0.0.9", "--copy"],
        ["n7 takes no part", "--plumb PATH"],
    ] {
        let is_one = |line: &&str| parts.iter().all(|part| line.contains(part));
        assert_eq!(answer.err.lines().filter(is_one).count(), 1, "{parts:?}: {answer:?}");
    }
    let events = whole_events(&servers.network.here.path("sweep.jsonl"));
    let nodes: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event["event"] == "node")
        .map(|node| (node["name"].as_str().unwrap(), node["labels"]["rack"].as_str().unwrap()))
        .collect();
    for node in [("n1", "r1"), ("n2", "r1"), ("n3", "r2")] {
        assert!(nodes.contains(&node), "{nodes:?}");
    }
    assert_eq!(events[0]["starter"], "ssh");
    assert!(events.iter().any(|event| event["event"] == "pair"), "{answer:?}");
    assert_eq!(events.last().unwrap()["event"], "end", "{answer:?}");
    servers.are_left_clean();
}

/// On request the binary goes to hosts that lack it, and is removed after.
#[test]
fn a_binary_is_sent_on_request_and_nothing_stays() {
    let servers = Servers::start(2);
    servers.program(2, "plumb", "#!/bin/sh\necho plumb 0.0.9\n");
    let list = "n1\nn2\n";
    let refused = ends(3, servers.sweep(list, &[]));
    assert!(refused.err.contains("0 of 2 hosts can take part"), "{refused:?}");
    ends(0, servers.sweep(list, &["--copy"]));
    servers.are_left_clean();
}

/// A starter that is killed takes all nodes with it.
#[test]
fn nodes_end_with_their_connection() {
    let servers = Servers::start(2);
    for host in [1, 2] {
        servers.has_plumb(host);
    }
    let mut command = servers.sweep("n1\nn2\n", &["--pair=net.bandwidth:far=peer"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    wait_for("a node that measures", || {
        let events = whole_events(&servers.network.here.path("sweep.jsonl"));
        events.iter().any(|event| event["event"] == "node").then_some(())
    });
    child.kill().unwrap();
    ended(child);
    servers.are_left_clean();
}

/// Lists of hosts that are refused.
#[test]
fn a_list_that_is_none_names_the_line() {
    let here = Here::new();
    fs::write(here.path("nodes.txt"), "n1\nn2 rack\n").unwrap();
    let refused = here.ends(2, &["fleet", "run", "--hosts", "nodes.txt"]);
    assert!(refused.err.contains("nodes.txt: line 2"), "{refused:?}");
    let missing = here.ends(2, &["fleet", "run", "--hosts", "none.txt"]);
    assert!(missing.err.contains("none.txt"), "{missing:?}");
}
