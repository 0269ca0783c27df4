//! Agents that are started elsewhere: by a command, and by a real ssh.

use crate::lab::{ECHO, Lab, is_measuring, is_there, offspring, rounds, wait_for};
use crate::plumb::prelude::*;
use crate::sshd::Sshd;
use std::collections::BTreeSet;

fn failed(answer: &Ended, words: &str) {
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.said.contains(words), "no `{words}`: {answer:?}");
}

/// Agents among the offspring of a process.
fn agents(of: u32) -> BTreeSet<u32> {
    let is_agent = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(PLUMB.as_bytes()) && line.ends_with(b"\0agent\0")
    };
    offspring(of).into_iter().filter(is_agent).collect()
}

fn ssh_of(run: &Program) -> u32 {
    let is_ssh = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "ssh\n")
    };
    offspring(run.pid()).into_iter().find(is_ssh).expect("ssh is there")
}

#[test]
fn a_command_that_starts_one() {
    let lab = Lab::new();
    let binary = PLUMB;
    let peer = format!("b=exec:'{binary}' agent --data 127.0.0.1");
    let set = ["--set", "selftest.echo.far=b,loopback", "--set", ECHO[4]];
    lab.ends(0, &[&["run", ECHO[0], "--preset", "rehearsal", "--peer", &peer], &set[..]].concat());
    let events = lab.events();
    assert_eq!((end(&events), rounds(&events).0), ("complete", 2));
    let there = &events_of_kind(&events, "header")[0]["peers"][0];
    assert_eq!((&there["name"], &there["address"]), (&"b".into(), &"127.0.0.1".into()));
    assert!(there["host"]["cpu"]["cpus"].is_array() && there["calibration"].is_object());
    assert!(there["environment"]["kernel"].is_string(), "{there}");
    let options = &events_of_kind(&events, "header")[0]["options"];
    assert_eq!(options["peers"][0], peer.as_str());
    // Both ends of a round say what happened around them.
    for round in events_of_kind(&events, "round") {
        assert!(round["environment"]["far_involuntary_switches"].is_number(), "{round}");
    }
}

#[test]
fn a_command_that_starts_none() {
    let lab = Lab::new();
    let plan = |peer: &str| lab.plumb(&["plan", ECHO[0], "--peer", peer]);
    failed(&plan("exec:/nowhere/plumb agent"), "not found");
    failed(&plan("exec:true"), "cannot start the agent");
    failed(&plan("exec:echo something went wrong >&2; exit 7"), "something went wrong");
    failed(&plan("exec:echo Welcome to node7"), r#"it sent "Welcome to node7"#);
    let binary = PLUMB;
    failed(&plan(&format!("exec:'{binary}' agent")), "--data ADDR");
    // None of them is a recorded machine's.
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts/graviton3");
    lab.ends(2, &["plan", ECHO[0], "--peer", "exec:true", "--host-tree", tree]);
}

#[test]
fn by_ssh_in_vain() {
    let lab = Lab::new();
    let sshd = Sshd::start(&lab, &["127.0.0.1"], "");
    fs::write(lab.path("nobody"), "").unwrap();
    lab.ssh("unknown", "id", "nobody", "");
    lab.ssh("strange", "stranger", "known", "");
    let port = sshd.port;
    let plan = |dir: &str, peer: &str| {
        lab.start(&mut lab.with_ssh(dir, PLUMB, &["plan", ECHO[0], "--peer", peer])).wait()
    };
    let there = format!("ssh://127.0.0.1:{port}");
    failed(&plan("ssh", &format!("{there}/nowhere/plumb")), "`/nowhere/plumb` is not found there");
    failed(&plan("ssh", &format!("{there}/etc/passwd")), "cannot be run there");
    failed(&plan("unknown", &there), "its host key is unknown");
    failed(&plan("strange", &there), "ssh-copy-id");
    failed(&plan("ssh", "ssh://127.0.0.1:1"), "Connection refused");
    failed(&plan("ssh", "ssh://no.such.host.invalid"), "ssh no.such.host.invalid");
    let key = lab.text("key");
    let args = ["plan", ECHO[0], "--key-file", &key, "--peer", "tcp://no.such.host.invalid:1"];
    failed(&lab.plumb(&args), "cannot resolve the host");
}

/// Without a terminal a remote process outlives the ssh that started it, unless it looks at its
/// input.
#[test]
fn an_agent_ends_with_the_ssh_that_started_it() {
    let lab = Lab::new();
    let sshd = Sshd::start(&lab, &["127.0.0.1"], "");
    let peer = format!("ssh://127.0.0.1:{}{}", sshd.port, PLUMB);
    let args = [&["run"], &ECHO[..], &["--preset", "quick", "--peer", &peer]].concat();
    let run = lab.start(&mut lab.with_ssh("ssh", PLUMB, &args));
    is_measuring(&lab);
    let agent = agents(sshd.pid()).pop_first().expect("one is there");
    signal("KILL", ssh_of(&run));
    wait_for("the end of the agent", || (!is_there(agent)).then_some(()));
    // The next round begins with another one.
    run.ends(0);
    let events = lab.events();
    let there = &events_of_kind(&events, "header")[0]["peers"][0];
    assert_eq!((&there["address"], &there["url"]), (&"127.0.0.1".into(), &peer.as_str().into()));
    assert_eq!(end(&events), "complete");
    let (ok, void) = rounds(&events);
    let is_it = |reason: &&String| reason.contains("signal: 9");
    assert_eq!(void.iter().filter(is_it).count(), 1, "{void:?}");
    assert!(ok >= 6, "{ok} {void:?}");
    wait_for("the end of all", || agents(sshd.pid()).is_empty().then_some(()));
    // A session that is killed takes its ssh and its agent with it.
    let run = lab.start(&mut lab.with_ssh("ssh", PLUMB, &args));
    wait_for("an agent", || agents(sshd.pid()).pop_first());
    run.signal("KILL");
    run.wait();
    wait_for("the end of all", || agents(sshd.pid()).is_empty().then_some(()));
}

/// What carries the agent's words, not those of the experiment, is killed or silent: the round is
/// void by its time, and the run goes on with another.
#[test]
fn an_agent_by_ssh_that_dies_or_is_cut_off_in_the_middle_of_a_transfer() {
    let lab = Lab::new();
    let sshd = Sshd::start(&lab, &["127.0.0.1"], "");
    let peer = format!("ssh://127.0.0.1:{}{}", sshd.port, PLUMB);
    let line = format!(
        "run net.bandwidth:far=peer --set net.bandwidth.transfer=fixed_16M --preset quick --peer {peer}"
    );
    // What is told when the agent dies, and when no word of it comes any more.
    for (is_dead, words) in [(true, "closed the connection"), (false, "did not answer")] {
        let count = lab.records().len();
        let run = lab.start(&mut lab.with_ssh("ssh", PLUMB, &line.words()));
        wait_for("a record", || (lab.records().len() > count).then_some(()));
        is_measuring(&lab);
        if is_dead {
            let agent = agents(sshd.pid()).pop_first().expect("one is there");
            signal("KILL", agent);
        } else {
            signal("STOP", ssh_of(&run));
        }
        run.ends(0);
        let events = lab.events();
        let (ok, void) = rounds(&events);
        let is_it =
            |reason: &&String| reason.contains("the far end peer (ssh:") && reason.contains(words);
        assert_eq!(void.iter().filter(is_it).count(), 1, "{words}: {void:?}");
        assert!(ok >= 6, "{ok} {void:?}");
        wait_for("the end of all", || agents(sshd.pid()).is_empty().then_some(()));
    }
}
