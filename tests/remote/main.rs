//! The built binary against real servers in user space: NFS and SMB without a mount, and a mounted
//! SSHFS.
//! Server and plumb are in network namespaces of their own, so these tests need root; scripts/test
//! installs the servers. Figures mean nothing here; what is read, counted, predicted, refused and
//! given up is real.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::print_stdout, reason = "what plumb said stands with a test that fails")]

mod lab;
#[expect(dead_code, reason = "the other labs use the rest")]
#[path = "../harness/namespace.rs"]
mod namespace;
mod nfs;
#[expect(dead_code, reason = "the other crates' tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod smb;
mod sshfs;

use crate::plumb::prelude::*;
use lab::{Lab, SERVER};

/// What is in a file that is read.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 % 251) as u8).collect()
}

/// One rehearsal of a file of this length without a mount: both patterns, and everything that
/// stands beside them.
fn check_reads(events: &[Value], bytes: usize, library: &str) {
    for metric in ["latency", "latency_per_block", "bandwidth", "iops", "cpu"] {
        assert_eq!(samples(events, metric).len(), 2, "{metric}");
    }
    for one in samples(events, "latency") {
        assert_eq!(one["case"]["mode"], "library");
        assert_eq!(one["case"]["size"], "whole");
        let asked = quantity(one, "asked_bytes");
        // Every block came over the connection, with the heads of its answer.
        assert!(quantity(one, "server_bytes") > asked && asked >= 8.0 * 4096.0, "{one}");
        assert!(quantity(one, "tcp_rtt_ns") > 0.0, "{one}");
        assert!(quantity(one, "tcp_min_rtt_ns") <= quantity(one, "tcp_rtt_ns"), "{one}");
        assert_eq!(quantity(one, "cache_share"), 0.0);
        assert_eq!(quantity(one, "file_bytes"), bytes as f64);
        assert!(one["notes"].to_string().contains(library), "{one}");
    }
}

/// A server that is held or killed after the first round: fs.remote fails with the reason, soon,
/// and the rest is measured.
fn check_lost(lab: &Lab, server: &mut Program, end: fn(&mut Program), path: &str) {
    let run = lab.client(&lab::plumb(&format!(
        "run fs.remote clock.read --preset quick --set 'fs.remote.path={path}'"
    )));
    lab.wait_for_round("fs.remote");
    let begin = Instant::now();
    end(server);
    let Ended { code, said, .. } = run.wait();
    println!("{code:?} after {:?}: {said}", begin.elapsed());
    let events = take_events(lab);
    // In the middle of a round, or between two: then the next one cannot begin.
    assert_eq!(lost_rounds(&events, "fs.remote"), 3, "{said}");
    assert!(said.contains(SERVER), "{said}");
    assert!(measured(&events, "clock.read"), "{said}");
}

/// The events of the only record that the lab has, which is then gone.
fn take_events(lab: &Lab) -> Vec<Value> {
    let records = lab.records();
    assert_eq!(records.len(), 1, "{records:?}");
    let events = events(&records[0]);
    fs::remove_file(&records[0]).unwrap();
    events
}

/// Samples of a metric of fs.remote, of all its cases.
fn samples<'run>(events: &'run [Value], metric: &str) -> Vec<&'run Value> {
    let mut of = samples_of(events, metric);
    of.retain(|one| one["series"].as_str().unwrap().starts_with("fs.remote"));
    of
}

fn quantity(samples: &Value, name: &str) -> f64 {
    samples["quantities"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name}: {}", samples["quantities"]))
}

/// Text of all events of a kind.
fn text_of(events: &[Value], kind: &str) -> String {
    of(events, kind).into_iter().map(|event| format!("{event}\n")).collect()
}

/// Rounds of an experiment that do not count.
fn lost_rounds(events: &[Value], experiment: &str) -> usize {
    let void = of(events, "round").into_iter().filter(|round| round["status"] == "void");
    void.filter(|round| round["series"].as_str().unwrap().starts_with(experiment)).count()
}

/// Whether some case of an experiment was measured.
fn measured(events: &[Value], experiment: &str) -> bool {
    of(events, "outcome")
        .iter()
        .any(|event| event["experiment"] == experiment && event["outcome"] == "measured")
}
