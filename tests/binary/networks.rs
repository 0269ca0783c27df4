//! Networks that lack something, in namespaces of their own: the plan skips what needs it, with the
//! way out, and the run measures the rest.

use crate::plumb::prelude::*;
use std::collections::BTreeMap;

const UP: &str = "ip link set lo up";
const AGAIN: &str = "`ip link set lo down; ip link set lo up`";
const WIDEN: &str = "`sysctl -w net.ipv4.ip_local_port_range='1024 65535'`";
const EIGHT: &str = "echo 40000 40007 >/proc/sys/net/ipv4/ip_local_port_range";
const RESERVED: &str = "echo 40000-40007 >/proc/sys/net/ipv4/ip_local_reserved_ports";
const ALL: &[&str] = &["net.ping v4", "net.rtt", "selftest.echo"];

/// What becomes of experiments in a namespace that commands prepare; `None` where none can be made.
fn outcomes(prepares: &str, starts: &str) -> Option<BTreeMap<String, (String, String)>> {
    let here = Here::new();
    let run = "run net.ping net.rtt selftest.echo clock.read --set net.ping.ip=v4,v6";
    let script = format!("{prepares} && exec {starts} {PLUMB} {run} --preset rehearsal");
    let output = here.other("unshare").args(["-n", "sh", "-c", &script]).output().unwrap();
    let answer = answer(output);
    if answer.err.contains("unshare") {
        return None;
    }
    assert_eq!(answer.code, Some(0), "{prepares}: {answer:?}");
    let events = events(&here.record());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let outcome = |one: &Value| {
        let name = format!("{} {}", text(&one["experiment"]), text(&one["case"]["ip"]));
        (name.trim_end().to_owned(), (text(&one["outcome"]), text(&one["reason"])))
    };
    Some(events_of_kind(&events, "outcome").into_iter().map(outcome).collect())
}

#[test]
fn what_a_network_lacks_is_skipped_in_the_plan_and_the_rest_is_measured() {
    let has_v6 = Path::new("/proc/net/if_inet6").exists();
    for (prepares, starts, skipped, way_out) in [
        (UP.to_owned(), "", &[][..], ""),
        ("true".to_owned(), "", ALL, "`ip link set lo up`"),
        // Addresses and routes are still there.
        (format!("{UP} && ip link set lo down"), "", ALL, "`ip link set lo up`"),
        (format!("{UP} && ip address del 127.0.0.1/8 dev lo"), "", ALL, AGAIN),
        (format!("{UP} && ip route flush table local"), "", ALL, AGAIN),
        (format!("{UP} && {EIGHT}"), "", &["net.rtt"], WIDEN),
        (format!("{UP} && {EIGHT} && {RESERVED}"), "", &ALL[1..], WIDEN),
        // It has CAP_NET_RAW, but the network is its parent's.
        (UP.to_owned(), "unshare -Ur", &["net.ping"], "ping_group_range"),
    ] {
        let Some(found) = outcomes(&prepares, starts) else {
            return skips::test("network-namespace");
        };
        // Echoes by IPv6 need neither IPv4's address nor a port.
        let lacks_v6 = !has_v6 || way_out == "`ip link set lo up`";
        for (name, (outcome, reason)) in found {
            let is_skipped = skipped.contains(&&*name) || (name == "net.ping v6" && lacks_v6);
            let expected = if is_skipped { "skipped" } else { "measured" };
            assert_eq!(outcome, expected, "{prepares}: {name}: {reason}");
            let is_by_v4 = is_skipped && name != "net.ping v6";
            assert!(!is_by_v4 || reason.contains(way_out), "{prepares}: {name}: {reason}");
        }
    }
}
