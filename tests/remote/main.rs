//! The built binary against real servers in user space: NFS without a mount, and a mounted SSHFS.
//! Server and plumb are in network namespaces of their own, so these tests need root; scripts/test
//! installs the servers. Figures mean nothing here; what is read, counted, predicted, refused and
//! given up is real.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::print_stdout, reason = "what plumb said stands with a test that fails")]

mod lab;
mod nfs;
#[expect(dead_code, reason = "the other crates' tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod sshfs;

use lab::Lab;
use serde_json::Value;
use std::fs;

/// The events of the only record that the lab has, which is then gone.
fn take_events(lab: &Lab) -> Vec<Value> {
    let records = lab.records();
    assert_eq!(records.len(), 1, "{records:?}");
    let events = plumb::events(&records[0]);
    fs::remove_file(&records[0]).unwrap();
    events
}

/// Samples of a metric of fs.remote, of all its cases.
fn samples<'run>(events: &'run [Value], metric: &str) -> Vec<&'run Value> {
    let of = events.iter().filter(|event| event["event"] == "samples");
    of.filter(|event| event["metric"] == metric)
        .filter(|event| event["series"].as_str().unwrap().starts_with("fs.remote"))
        .collect()
}

fn quantity(samples: &Value, name: &str) -> f64 {
    samples["quantities"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name}: {}", samples["quantities"]))
}

/// Text of all events of a kind.
fn text_of(events: &[Value], kind: &str) -> String {
    let of = events.iter().filter(|event| event["event"] == kind);
    of.map(|event| format!("{event}\n")).collect()
}

/// Rounds of an experiment that do not count.
fn lost_rounds(events: &[Value], experiment: &str) -> usize {
    let void = plumb::of(events, "round").into_iter().filter(|round| round["status"] == "void");
    void.filter(|round| round["series"].as_str().unwrap().starts_with(experiment)).count()
}

/// Whether some case of an experiment was measured.
fn measured(events: &[Value], experiment: &str) -> bool {
    let mut outcomes = events.iter().filter(|event| event["event"] == "outcome");
    outcomes.any(|event| event["experiment"] == experiment && event["outcome"] == "measured")
}
