//! Connections where ports are few, in network namespaces of their own: sources that rotate need almost none,
//! and a host that has none left voids the round and says what to do.

use crate::plumb::{Answer, Here, answer, events, of};
use serde_json::Value;

/// A rehearsal in a fresh network namespace with this range of ports; `None` where none can be made.
fn within(here: &Here, range: &str) -> Option<Answer> {
    if !can_unshare() {
        return None;
    }
    let plumb = env!("CARGO_BIN_EXE_plumb");
    let script = format!(
        "ip link set lo up && echo '{range}' >/proc/sys/net/ipv4/ip_local_port_range && \
         exec {plumb} run net.connect --preset rehearsal --set net.connect.connections=30"
    );
    let mut command = here.other("unshare");
    Some(answer(
        command.args(["-n", "sh", "-c", &script]).output().unwrap(),
    ))
}

fn can_unshare() -> bool {
    let tried = std::process::Command::new("unshare")
        .args(["-n", "sh", "-c", "ip link set lo up"])
        .output();
    tried.is_ok_and(|output| output.status.success())
}

fn outcomes(here: &Here) -> Vec<Value> {
    of(&events(&here.record()), "outcome")
        .into_iter()
        .cloned()
        .collect()
}

#[test]
fn over_loopback_hundreds_of_connections_need_four_ports() {
    let here = Here::new();
    // Listening sockets and lines have one each; more than thirty connections of each case share what is left.
    let Some(answer) = within(&here, "40000 40007") else {
        println!("skipped: no network namespace can be made here");
        return;
    };
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let outcomes = outcomes(&here);
    assert!(outcomes.len() >= 2, "{outcomes:?}");
    for outcome in outcomes {
        assert_eq!(outcome["outcome"], "measured", "{outcome}");
    }
}

#[test]
fn without_a_port_left_the_round_is_void_and_says_the_way_out() {
    let here = Here::new();
    // The far end listens at the only one.
    let Some(answer) = within(&here, "40000 40000") else {
        println!("skipped: no network namespace can be made here");
        return;
    };
    assert_ne!(answer.code, Some(0), "{answer:?}");
    let events = events(&here.record());
    let rounds = of(&events, "round");
    assert!(!rounds.is_empty());
    for round in rounds {
        let text = round.to_string();
        assert!(text.contains("void"), "{text}");
        assert!(text.contains("EADDRNOTAVAIL"), "{text}");
        assert!(text.contains("ip_local_port_range"), "{text}");
    }
    for outcome in of(&events, "outcome") {
        assert_eq!(outcome["outcome"], "failed", "{outcome}");
    }
}
