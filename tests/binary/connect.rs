//! Connections where ports are few, in network namespaces of their own: sources that rotate need
//! almost none, and on a host that has fewer nothing is planned.

use crate::plumb::prelude::*;

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
    events_of_kind(&events(&here.record()), "outcome").into_iter().cloned().collect()
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
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.err.contains("ip_local_port_range"), "{answer:?}");
    assert!(here.entries("store").iter().all(|name| !name.ends_with(".jsonl")), "{answer:?}");
}
