//! The built binary against a real server in user space: a mounted SSHFS. (tests/emulated mounts NFS
//! and SMB.)
//! Server and plumb are in network namespaces of their own, so these tests need root; scripts/test
//! installs the server. Figures mean nothing here; what is read, counted, predicted, refused and
//! given up is real.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod lab;
#[expect(dead_code, reason = "the other labs use the rest")]
#[path = "../harness/namespace.rs"]
mod namespace;
#[expect(dead_code, reason = "the other crates' tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod sshfs;

use crate::plumb::prelude::*;
use lab::Lab;

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

fn text_of(events: &[Value], kind: &str) -> String {
    events_of_kind(events, kind).into_iter().map(|event| format!("{event}\n")).collect()
}

/// Rounds of an experiment that do not count.
fn lost_rounds(events: &[Value], experiment: &str) -> usize {
    let void =
        events_of_kind(events, "round").into_iter().filter(|round| round["status"] == "void");
    void.filter(|round| round["series"].as_str().unwrap().starts_with(experiment)).count()
}

fn measured(events: &[Value], experiment: &str) -> bool {
    events_of_kind(events, "outcome")
        .iter()
        .any(|event| event["experiment"] == experiment && event["outcome"] == "measured")
}
