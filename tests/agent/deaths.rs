//! Ends that are killed, silent or cut off in the middle of a round: the round fails with the reason, the rest
//! goes on.

use crate::lab::{
    ECHO, Lab, end, halted, is_measuring, is_there, offspring, rounds, signal, wait_for,
};
use crate::relay::Relay;
use std::net::TcpListener;
use std::time::{Duration, Instant};

#[test]
fn an_agent_that_is_killed_in_the_middle_of_a_round() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo(address, "standard");
    let worker = halted(&agent, &lab);
    agent.signal("KILL");
    let answer = run.wait();
    assert!(!is_there(worker), "a worker outlives its agent");
    // What was measured counts: the run has not failed.
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = lab.events();
    let (ok, void) = rounds(&events);
    assert!(ok >= 1, "{events:?}");
    assert_eq!(void.len(), 3, "{void:?}");
    assert!(void[0].contains("closed the connection"), "{void:?}");
    assert!(void[1].contains("nobody listens there"), "{void:?}");
    // It is tried once.
    assert_eq!(void[1], void[2]);
}

#[test]
fn a_worker_that_is_killed_at_the_far_end_costs_its_round() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo(address, "quick");
    signal("KILL", halted(&agent, &lab));
    let answer = run.wait();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = lab.events();
    let (ok, void) = rounds(&events);
    assert!(ok >= 6 && void.len() == 1, "{ok} {void:?}");
    for reason in void {
        assert!(reason.contains("the far end failed"), "{reason}");
        assert!(reason.contains("signal: 9"), "{reason}");
    }
}

#[test]
fn a_session_that_is_killed_in_the_middle_of_a_round() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo(address, "standard");
    halted(&agent, &lab);
    run.signal("KILL");
    assert_eq!(run.wait().code, None);
    wait_for("the end of the worker", || {
        offspring(agent.pid()).is_empty().then_some(())
    });
    let next = lab.rehearse(address);
    assert_eq!(next.code, Some(0), "{next:?}");
}

#[test]
fn a_connection_that_is_cut_is_made_again_at_the_next_round() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let relay = Relay::to(address);
    let run = lab.start_echo(relay.address, "quick");
    let worker = halted(&agent, &lab);
    relay.cut();
    // The agent ends it with its session.
    wait_for("the end of the worker", || {
        (!is_there(worker)).then_some(())
    });
    let answer = run.wait();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(relay.count(), 2);
    let events = lab.events();
    let (ok, void) = rounds(&events);
    assert_eq!((end(&events), void.len()), ("complete", 1), "{void:?}");
    assert!(
        ok >= 6 && void[0].contains("closed the connection"),
        "{void:?}"
    );
}

#[test]
fn an_agent_that_is_silent_fails_its_rounds_in_their_time() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo(address, "standard");
    is_measuring(&lab);
    agent.signal("STOP");
    let answer = run.wait();
    agent.signal("CONT");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let (ok, void) = rounds(&lab.events());
    assert!(ok >= 1 && void.len() == 3, "{void:?}");
    let is_silent = |reason: &String| reason.contains("did not answer");
    assert!(void.iter().all(is_silent), "{void:?}");
    // Once for the time of a round's end, once for that of a handshake.
    assert!(answer.took < Duration::from_secs(45), "{answer:?}");
    // It has not been harmed by it.
    let next = lab.rehearse(address);
    assert_eq!(next.code, Some(0), "{next:?}");
}

#[test]
fn an_interruption_waits_for_nobody() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    // In the middle of a round …
    let run = lab.start_echo(address, "standard");
    is_measuring(&lab);
    agent.signal("STOP");
    let begin = Instant::now();
    run.signal("INT");
    let answer = run.wait();
    assert!(begin.elapsed() < Duration::from_secs(5), "{answer:?}");
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert_eq!(end(&lab.events()), "interrupted");
    agent.signal("CONT");
    // … and while an agent is waited for that says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let run = lab.start_echo(silent.local_addr().unwrap(), "quick");
    let accepted = silent.accept().unwrap();
    let begin = Instant::now();
    run.signal("INT");
    let answer = run.wait();
    assert!(begin.elapsed() < Duration::from_secs(3), "{answer:?}");
    assert_eq!(answer.code, Some(4), "{answer:?}");
    drop(accepted);
}

#[test]
fn a_run_goes_on_against_the_same_far_end() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo(address, "standard");
    is_measuring(&lab);
    run.signal("INT");
    assert_eq!(run.wait().code, Some(4));
    let before = rounds(&lab.events()).0;
    // Without its far end it does not go on, and is not harmed.
    let port = address.port();
    drop(agent);
    let resume = ["run", "--resume", "last"];
    let answer = lab.plumb(&resume);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.said.contains("nobody listens there"), "{answer:?}");
    let with_peer = lab.plumb(&[&resume[..], &["--peer", "tcp://127.0.0.1:1"]].concat());
    assert_eq!(with_peer.code, Some(2), "{with_peer:?}");
    let listen = format!("127.0.0.1:{port}");
    let key = lab.text("key");
    let args = ["agent", "--listen", &listen, "--key-file", &key];
    let agent = lab.start(std::process::Command::new(crate::lab::plumb()).args(args));
    wait_for("the agent", || {
        agent.said().contains("listening").then_some(())
    });
    let answer = lab.plumb(&resume);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = lab.events();
    assert_eq!(end(&events), "complete");
    assert!(rounds(&events).0 > before, "{before}");
    let header = &crate::lab::of(&events, "header")[0]["peers"][0];
    let segment = &crate::lab::of(&events, "segment")[0]["peers"][0];
    for fact in ["name", "identity", "cpus", "address"] {
        assert_eq!(header[fact], segment[fact], "{fact}");
    }
    assert_eq!(header["name"], "peer");
    assert!(ECHO[2].ends_with("far=peer"));
}
