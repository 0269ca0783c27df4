//! The agent as a user without any rights, and with a list of keys.

use crate::lab::{ECHO, Lab};
use std::fs;

/// The user nobody.
const NOBODY: &str = "65534";

#[test]
fn an_agent_runs_as_nobody() {
    if metal::process::geteuid() != 0 {
        return skips::test("root");
    }
    let lab = Lab::new();
    let (agent, address) = lab.agent_of(NOBODY);
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    assert!(of("Uid:").split_whitespace().all(|uid| uid == NOBODY), "{status}");
    assert_eq!(of("CapEff:").trim_matches('0'), "", "{status}");
    let net = lab.rehearse_family("net", address);
    assert_eq!(net.code, Some(0), "{net:?}");
    let echo = lab.rehearse(address);
    assert_eq!(echo.code, Some(0), "{echo:?}");
}

#[test]
fn a_host_whose_line_is_taken_out_is_not_let_in_to_its_next_session() {
    let lab = Lab::new();
    let own = fs::read_to_string(lab.path("key")).unwrap();
    lab.new_key("other");
    let other = fs::read_to_string(lab.path("other")).unwrap();
    let list = |lines: &[String]| {
        fs::write(lab.path("key"), lines.concat()).unwrap();
        if lab.path("others-key").exists() {
            fs::write(lab.path("others-key"), lines.concat()).unwrap();
        }
    };
    let named = |key: &str, name: &str| format!("{} {name}\n", key.trim());
    // The agent's list; a run has its own key alone.
    fs::copy(lab.path("key"), lab.path("own")).unwrap();
    list(&["# who may\n".to_owned(), named(&other, "node8"), named(&own, "node7")]);
    let (agent, address) = lab.agent();
    let plan = |key: &str| {
        let peer = format!("tcp://{address}");
        lab.plumb(&["plan", ECHO[0], "--peer", &peer, "--key-file", &lab.text(key)])
    };
    for key in ["own", "other"] {
        let answer = plan(key);
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
    assert!(agent.said().contains("key node7") && agent.said().contains("key node8"));
    list(&[named(&other, "node8")]);
    assert_eq!(plan("own").code, Some(3));
    assert_eq!(plan("other").code, Some(0));
    list(&[named(&other, "node8"), named(&own, "node7")]);
    assert_eq!(plan("own").code, Some(0));
}
