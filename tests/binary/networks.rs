//! Networks that lack something, in namespaces of their own: the plan skips what needs it, with the
//! way out, and the run measures the rest.

use crate::plumb::prelude::*;
use std::collections::BTreeSet;

/// (Commands that prepare the namespace, what plumb is started by, experiments that are skipped,
/// their way out.)
type Network = (&'static str, &'static str, &'static [&'static str], &'static str);

const AGAIN: &str = "`ip link set lo down; ip link set lo up`";
const WIDEN: &str = "`sysctl -w net.ipv4.ip_local_port_range='1024 65535'`";
const PORTS: &str = "ip link set lo up && echo 40000 40007 >/proc/sys/net/ipv4/ip_local_port_range";
const NETWORKS: &[Network] = &[
    ("ip link set lo up", "", &[], ""),
    ("true", "", &["net.ping", "net.rtt", "selftest.echo"], "`ip link set lo up`"),
    (
        // Addresses and routes are still there.
        "ip link set lo up && ip link set lo down",
        "",
        &["net.ping", "net.rtt", "selftest.echo"],
        "`ip link set lo up`",
    ),
    (
        "ip link set lo up && ip address del 127.0.0.1/8 dev lo",
        "",
        &["net.ping", "net.rtt", "selftest.echo"],
        AGAIN,
    ),
    (
        "ip link set lo up && ip route del local 127.0.0.0/8 dev lo table local && \
         ip route del local 127.0.0.1 dev lo table local",
        "",
        &["net.ping", "net.rtt", "selftest.echo"],
        AGAIN,
    ),
    (PORTS, "", &["net.rtt"], WIDEN),
    (
        "ip link set lo up && echo 40000 40007 >/proc/sys/net/ipv4/ip_local_port_range && \
         echo 40000-40007 >/proc/sys/net/ipv4/ip_local_reserved_ports",
        "",
        &["net.rtt", "selftest.echo"],
        WIDEN,
    ),
    // It has CAP_NET_RAW, but the network is its parent's.
    ("ip link set lo up", "unshare -Ur", &["net.ping"], "ping_group_range"),
];

#[test]
fn what_a_network_lacks_is_skipped_in_the_plan_and_the_rest_is_measured() {
    for (prepares, starts, skipped, way_out) in NETWORKS {
        let here = Here::new();
        let selected = "net.ping net.rtt selftest.echo clock.read --preset rehearsal";
        let script = format!("{prepares} && exec {starts} {PLUMB} run {selected}");
        let output = here.other("unshare").args(["-n", "sh", "-c", &script]).output().unwrap();
        let answer = answer(output);
        if answer.err.contains("unshare") {
            return skips::part("network-namespace", "networks that lack something");
        }
        assert_eq!(answer.code, Some(0), "{prepares}: {answer:?}");
        let events = events(&here.record());
        let mut found = BTreeSet::new();
        for outcome in of(&events, "outcome") {
            let experiment = outcome["experiment"].as_str().unwrap();
            match outcome["outcome"].as_str().unwrap() {
                "skipped" => {
                    let reason = outcome["reason"].as_str().unwrap();
                    assert!(reason.contains(way_out), "{prepares}: {reason}");
                    found.insert(experiment);
                }
                other => assert_eq!(other, "measured", "{prepares}: {outcome}"),
            }
        }
        assert_eq!(found, skipped.iter().copied().collect(), "{prepares}");
        let void = of(&events, "round").into_iter().find(|round| !round["void"].is_null());
        assert_eq!(void, None, "{prepares}");
    }
}

/// Echoes by IPv6 need no address of IPv4.
#[test]
fn a_loopback_of_ipv6_alone_has_its_echoes() {
    if !Path::new("/proc/net/if_inet6").exists() {
        return skips::test("ipv6");
    }
    let here = Here::new();
    let script = format!(
        "ip link set lo up && ip address del 127.0.0.1/8 dev lo && \
         exec {PLUMB} run net.ping --set net.ping.ip=v4,v6 --preset rehearsal"
    );
    let answer = answer(here.other("unshare").args(["-n", "sh", "-c", &script]).output().unwrap());
    if answer.err.contains("unshare") {
        return skips::test("network-namespace");
    }
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = events(&here.record());
    let outcomes = of(&events, "outcome").into_iter();
    let outcomes: Vec<(&str, &str)> = outcomes
        .map(|one| (one["case"]["ip"].as_str().unwrap(), one["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(outcomes, [("v4", "skipped"), ("v6", "measured")]);
}
