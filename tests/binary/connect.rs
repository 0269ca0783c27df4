//! Connections where ports are few, in network namespaces of their own: sources that rotate need
//! almost none, and on a host that has fewer nothing is planned.

use crate::plumb::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

/// A rehearsal in a fresh network namespace with this range of ports; `None` where none can be
/// made.
fn within(here: &Here, range: &str) -> Option<Answer> {
    if !can_unshare() {
        return None;
    }
    let script = format!(
        "ip link set lo up && echo '{range}' >/proc/sys/net/ipv4/ip_local_port_range && \
         exec {PLUMB} run net.connect --preset rehearsal --set net.connect.connections=30"
    );
    let mut command = here.other("unshare");
    Some(answer(command.args(["-n", "sh", "-c", &script]).output().unwrap()))
}

fn can_unshare() -> bool {
    let tried = Command::new("unshare").args(["-n", "sh", "-c", "ip link set lo up"]).output();
    tried.is_ok_and(|output| output.status.success())
}

fn outcomes(here: &Here) -> Vec<Value> {
    of(&events(&here.record()), "outcome").into_iter().cloned().collect()
}

#[test]
fn over_loopback_hundreds_of_connections_need_ten_ports() {
    let here = Here::new();
    // Listening sockets and lines have one each; more than thirty connections of each case share
    // what is left.
    let Some(answer) = within(&here, "40000 40019") else {
        return skips::test("network-namespace");
    };
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let outcomes = outcomes(&here);
    assert!(outcomes.len() >= 2, "{outcomes:?}");
    for outcome in outcomes {
        assert_eq!(outcome["outcome"], "measured", "{outcome}");
    }
}

#[test]
fn with_one_port_nothing_is_planned_and_the_range_is_named() {
    let here = Here::new();
    let Some(answer) = within(&here, "40000 40000") else {
        return skips::test("network-namespace");
    };
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("ip_local_port_range (40000 to 40000, 0 reserved"), "{answer:?}");
    assert!(here.entries("store").iter().all(|name| !name.ends_with(".jsonl")), "{answer:?}");
}

/// Ports at which a process' children listen on loopback.
fn doors(parent: u32) -> Vec<u16> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1) == Some(&parent.to_string())
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut sockets = BTreeSet::new();
    for pid in pids.filter(is_child) {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        sockets.extend(links.filter_map(|link| {
            let socket = link.to_str()?.strip_prefix("socket:[")?;
            Some(socket.strip_suffix(']')?.to_owned())
        }));
    }
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // sl local remote state … inode
        let is_ours = *words.get(3)? == "0A" && sockets.contains(*words.get(9)?);
        let (_, port) = words.get(1)?.split_once(':')?;
        is_ours.then(|| u16::from_str_radix(port, 16).ok())?
    };
    table.lines().filter_map(port).collect()
}

/// Knocks at the doors of a run's workers until it is over, with all that strangers may say, and
/// keeps many open; how many connections that were.
fn knock(parent: u32, is_over: &AtomicBool) -> usize {
    const HELD: usize = 300;
    let mut random = fastrand::Rng::with_seed(3);
    let mut held = VecDeque::new();
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        for port in doors(parent) {
            let mut noise =
                |bytes: usize| -> Vec<u8> { (0..bytes).map(|_| random.u8(..)).collect() };
            for said in [Vec::new(), noise(28), noise(5000), b"plmd\x01\x02".to_vec()] {
                let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
                    continue;
                };
                // It may be dropped while it speaks.
                let _ = stream.write_all(&said);
                held.push_back(stream);
                count += 1;
            }
        }
        while held.len() > HELD {
            held.pop_front();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    count
}

/// The workers' ports are open to everybody on the way: all cases are measured all the same.
#[test]
fn strangers_at_the_ports_of_a_run_cost_no_case() {
    let here = Here::new();
    let args = ["run", "net.rtt", "net.bandwidth", "--preset", "quick"];
    let child = here.command(&args).spawn().unwrap();
    let (parent, is_over) = (child.id(), AtomicBool::new(false));
    let (answer, strangers) = std::thread::scope(|scope| {
        let strangers = scope.spawn(|| knock(parent, &is_over));
        let output = child.wait_with_output().unwrap();
        is_over.store(true, Ordering::Relaxed);
        (answer(output), strangers.join().unwrap())
    });
    assert!(strangers > 100, "{strangers} strangers: {answer:?}");
    let outcomes = outcomes(&here);
    assert!(outcomes.len() >= 5, "{answer:?}");
    for outcome in outcomes {
        assert_eq!(outcome["outcome"], "measured", "{outcome}");
    }
    for round in of(&events(&here.record()), "round") {
        assert!(!round.to_string().contains("\"void\""), "{round}");
    }
}
