//! Ends that are killed, silent or cut off in the middle of a round: the round fails with the
//! reason, the rest goes on.

use crate::lab::{
    ECHO, Lab, PATIENCE, halted, is_measuring, is_there, offspring, rounds, wait_for,
};
use crate::plumb::{self, prelude::*};
use crate::relay::Relay;
use std::net::TcpListener;

/// A round whose far end is silent is given up after so long.
const ROUND_TIME: Duration = Duration::from_secs(20);

#[test]
fn an_agent_that_is_killed_in_the_middle_of_a_round() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    // So short a session waits three seconds for it.
    let run = lab.start_echo_for(address, "standard", "1m");
    let worker = halted(&agent, &lab);
    agent.signal("KILL");
    let answer = run.wait();
    assert!(!is_there(worker), "a worker outlives its agent");
    // What was measured counts, and the rest can still be measured.
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(answer.said.contains("is lost") && answer.said.contains("--resume"), "{answer:?}");
    let events = lab.events();
    assert_eq!(end(&events), "interrupted");
    let (ok, void) = rounds(&events);
    assert!(ok >= 1, "{events:?}");
    let reasons_with = |words: &str| void.iter().filter(|reason| reason.contains(words)).count();
    assert_eq!(reasons_with("closed the connection"), 1, "{void:?}");
    // And then it is left alone.
    let gone: Vec<&String> =
        void.iter().filter(|reason| reason.contains("nothing listens on that port")).collect();
    assert!(gone.len() >= 2, "{void:?}");
    assert!(gone[0].contains("reconnecting failed"), "{void:?}");
    assert!(gone.iter().all(|reason| *reason == gone[0]), "{void:?}");
    let key = lab.text("key");
    let listen = address.to_string();
    let args = ["agent", "--listen", &listen, "--key-file", &key];
    let _again = lab.start(lab.other(PLUMB).args(args));
    wait_for("the agent", || std::net::TcpStream::connect(address).ok());
    let resumed = lab.resume(address);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let events = lab.events();
    assert_ne!(end(&events), "interrupted");
    assert!(rounds(&events).0 > ok);
}

/// One that is away for less than a part of the session's time costs the round that lost it, and no
/// other.
#[test]
fn an_agent_that_comes_back_is_waited_for() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo_for(address, "standard", "20m");
    halted(&agent, &lab);
    let key = lab.text("key");
    // It has its address back once that was asked for in vain.
    drop(agent);
    let meanwhile = wait_for("the port", || TcpListener::bind(address).ok());
    let asked = meanwhile.accept().unwrap();
    drop((asked, meanwhile));
    let listen = address.to_string();
    let args = ["agent", "--listen", &listen, "--key-file", &key];
    let _again = lab.start(lab.other(PLUMB).args(args));
    run.ends(0);
    let events = lab.events();
    let (ok, void) = rounds(&events);
    assert!(ok >= 6 && !void.is_empty(), "{ok} {void:?}");
    let is_away = |reason: &String| reason.contains("reconnecting failed");
    assert!(!void.iter().any(is_away), "{void:?}");
}

#[test]
fn a_worker_that_is_killed_at_the_far_end_costs_its_round() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo(address, "quick");
    signal("KILL", halted(&agent, &lab));
    run.ends(0);
    let events = lab.events();
    let (ok, void) = rounds(&events);
    assert!(ok >= 6, "{ok} {void:?}");
    let is_it =
        |reason: &&String| reason.contains("the far end failed") && reason.contains("signal: 9");
    assert_eq!(void.iter().filter(is_it).count(), 1, "{void:?}");
}

#[test]
fn a_session_that_is_killed_in_the_middle_of_a_round() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo(address, "standard");
    halted(&agent, &lab);
    run.signal("KILL");
    assert_eq!(run.wait().code, None);
    wait_for("the end of the worker", || offspring(agent.pid()).is_empty().then_some(()));
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
    wait_for("the end of the worker", || (!is_there(worker)).then_some(()));
    run.ends(0);
    assert_eq!(relay.count(), 2);
    let events = lab.events();
    let (ok, void) = rounds(&events);
    assert_eq!(end(&events), "complete", "{void:?}");
    let is_it = |reason: &&String| reason.contains("closed the connection");
    assert_eq!(void.iter().filter(is_it).count(), 1, "{void:?}");
    assert!(ok >= 6, "{ok} {void:?}");
}

#[test]
fn an_agent_that_is_silent_fails_its_rounds_in_their_time() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo_for(address, "standard", "1m");
    is_measuring(&lab);
    agent.signal("STOP");
    let answer = run.wait();
    agent.signal("CONT");
    assert_eq!(answer.code, Some(4), "{answer:?}");
    let (ok, void) = rounds(&lab.events());
    assert!(ok >= 1 && void.len() >= 3, "{void:?}");
    let is_silent = |reason: &String| reason.contains("did not answer");
    assert!(void.iter().all(is_silent), "{void:?}");
    // Twice for the time of a round's beginning and end, and some times for that of a handshake: of
    // three rounds that each waited for all of them it would take more.
    assert!(answer.took < PATIENCE, "{answer:?}");
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
    // It has not been waited for until a round is given up.
    assert!(begin.elapsed() < ROUND_TIME, "{answer:?}");
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert_eq!(end(&lab.events()), "interrupted");
    agent.signal("CONT");
    // … and while an agent is waited for that says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let run = lab.start_echo(silent.local_addr().unwrap(), "quick");
    let accepted = silent.accept().unwrap();
    let begin = Instant::now();
    run.signal("INT");
    let answer = run.ends(4);
    // The handshake's time was not over: then it would have been told of.
    assert!(!answer.said.contains("did not answer"), "{answer:?}");
    assert!(begin.elapsed() < ROUND_TIME, "{answer:?}");
    drop(accepted);
}

#[test]
fn a_run_goes_on_against_the_same_far_end() {
    let lab = Lab::new();
    let (agent, address) = lab.agent();
    let run = lab.start_echo(address, "standard");
    is_measuring(&lab);
    run.signal("INT");
    run.ends(4);
    let before = rounds(&lab.events()).0;
    // Without its far end it does not go on, and is not harmed.
    let port = address.port();
    drop(agent);
    let far = format!("tcp://{address}");
    let resume = ["run", "--resume", "last", "--peer", &far];
    // A record contacts nobody by itself, not even one of the store.
    let alone = lab.ends(2, &resume[..3]);
    assert!(alone.said.contains(&format!("--peer {far}")), "{alone:?}");
    let answer = lab.ends(3, &resume);
    // The way out where a connection is refused.
    assert!(answer.said.contains(&format!("agent --listen {address}")), "{answer:?}");
    lab.ends(2, &["run", "--resume", "last", "--peer", "tcp://127.0.0.1:1"]);
    let listen = format!("127.0.0.1:{port}");
    let key = lab.text("key");
    let args = ["agent", "--listen", &listen, "--key-file", &key];
    let agent = lab.start(lab.other(PLUMB).args(args));
    wait_for("the agent", || agent.said().contains("listening").then_some(()));
    lab.ends(0, &resume);
    let events = lab.events();
    assert_eq!(end(&events), "complete");
    assert!(rounds(&events).0 > before, "{before}");
    let header = &events_of_kind(&events, "header")[0]["peers"][0];
    let segment = &events_of_kind(&events, "segment")[0]["peers"][0];
    for fact in ["name", "identity", "cpus", "address"] {
        assert_eq!(header[fact], segment[fact], "{fact}");
    }
    assert_eq!(header["name"], "peer");
    assert!(ECHO[2].ends_with("far=peer"));
}

#[test]
fn a_stopped_worker_costs_one_round() {
    let here = Here::new();
    let set = "selftest.pulse.duration=400ms";
    let args = ["run", "selftest.pulse", "--preset", "rehearsal", "--set", set];
    let session = here.command(&args).spawn().unwrap();
    here.wait_for(|event| is(event, "plan"));
    signal("STOP", wait_for_worker(session.id()));
    // The session waits for the round's deadline, and goes on.
    ended_with(0, session);
    let events = here.complete();
    assert_eq!(plumb::rounds(&events, "selftest.pulse"), (1, 1));
    let void = events_of_kind(&events, "round")[0];
    assert!(void["reason"].as_str().unwrap().contains("stopped"), "{void}");
}
