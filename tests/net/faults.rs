//! A worker, or the cable, that goes away in the middle of a case: the case fails in its time and
//! says why, nothing stays behind, and the agent serves the next session. (Agents and sessions that
//! are killed: tests/agent.)

use crate::agents::{Agent, Recorded, url};
use crate::lab::{Lab, PATIENCE};
use crate::launchers::serve_ssh;
use crate::plumb::prelude::*;

/// One case that lasts: transfers of 16 MiB, on a cable that takes seconds for each.
const LASTING: &str = "transfer=fixed_16M direction=up";
/// Bytes of payload that only a bandwidth case moves.
const MIDDLE_BYTES: u64 = 4_000_000;
const BITS_PER_S: u64 = 50_000_000;
/// What the case may take by net.bandwidth's own limits, however its other end goes: one transfer
/// (TRANSFER_MAX), and the call for a second try of it (the ends' PATIENCE).
const CASE: Duration = Duration::from_secs(15 + 10);
/// What further rounds say of an agent that is gone, and then why.
const LOST: &str = "the connection was lost, and reconnecting failed";

/// A lab with a run in the middle of a bandwidth case.
fn in_the_middle() -> (Lab, Agent, Program) {
    let lab = Lab::new();
    lab.shape(BITS_PER_S, 32_768);
    let agent = Agent::start(&lab);
    let run = lab.start_run("net.bandwidth", &url(), LASTING);
    lab.wait_for_bytes(MIDDLE_BYTES);
    (lab, agent, run)
}

/// The round that is in its middle loses an end: it is given up in this time, for a reason that has
/// all of these words.
#[track_caller]
fn is_void_in(lab: &Lab, limit: Duration, words: &[&str], lose: impl FnOnce()) {
    let before = lab.rounds().len();
    let since = Instant::now();
    lose();
    let round = wait_within(PATIENCE, "the round's end", || lab.rounds().into_iter().nth(before));
    let waited = since.elapsed();
    println!("{waited:?} later: {round}");
    assert_eq!(round["status"], "void", "{round}");
    has_all(round["reason"].as_str().unwrap(), words);
    assert!(waited < limit, "{waited:?}: {round}");
}

/// The case has failed, for a reason that has all of these words.
#[track_caller]
fn has_failed(run: &Recorded, words: &[&str]) {
    let reasons = run.ended("net.bandwidth", "failed");
    let [reason] = &reasons[..] else { panic!("{reasons:?}: {:?}", run.answer) };
    println!("the case failed: {reason}");
    has_all(reason, words);
}

#[track_caller]
fn has_all(reason: &str, words: &[&str]) {
    for word in words {
        assert!(reason.contains(word), "no `{word}`: {reason}");
    }
}

#[test]
fn a_cable_that_is_cut() {
    let (lab, agent, run) = in_the_middle();
    let words = ["cannot connect to the far end", "connection timed out"];
    is_void_in(&lab, CASE, &words, || lab.cut());
    let run = lab.recorded(run);
    has_failed(&run, &[LOST, "no answer from"]);
    lab.mend();
    // The agent knows it no later.
    wait_within(PATIENCE, "the end of the session at the agent", || {
        workers(agent.program.pid()).is_empty().then_some(())
    });
    agent.serves_and_leaves(&lab);
}

#[test]
fn a_cable_that_is_cut_under_ssh() {
    let lab = Lab::new();
    lab.shape(BITS_PER_S, 32_768);
    let (server, url) = serve_ssh(&lab);
    let run = lab.start_run("net.bandwidth", &url, LASTING);
    lab.wait_for_bytes(MIDDLE_BYTES);
    let words = ["cannot connect to the far end", "connection timed out"];
    is_void_in(&lab, CASE, &words, || lab.cut());
    let run = lab.recorded(run);
    has_failed(&run, &[LOST, "cannot start the agent", "timed out"]);
    lab.mend();
    drop(server);
    lab.is_left_clean();
}

#[test]
fn a_far_worker_that_is_killed() {
    let (lab, agent, mut run) = in_the_middle();
    let killed = ["the far end peer", "the worker ended without a result", "signal: 9 (SIGKILL)"];
    let pid = agent.program.pid();
    let kill = || {
        for worker in workers(pid) {
            // It may have ended meanwhile.
            let _ = metal::process::kill(worker, 9);
        }
    };
    is_void_in(&lab, CASE, &killed, kill);
    // Rounds are tried again: so is this, whenever it is in the middle.
    let mut before = lab.arrived_bytes();
    while run.is_running() {
        if lab.arrived_bytes() > before + MIDDLE_BYTES {
            kill();
            before = lab.arrived_bytes();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let run = lab.recorded(run);
    has_failed(&run, &killed);
    agent.serves_and_leaves(&lab);
}
