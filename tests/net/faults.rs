//! An end, or the cable, that goes away in the middle of a case: the case fails in time and says why, nothing
//! stays behind, and the agent serves the next session.

use crate::agents::{Agent, Recorded, url};
use crate::lab::{End, Lab, Program};
use crate::plumb::{signal, wait_for, workers};
use std::time::{Duration, Instant};

/// One case that lasts: transfers of 16 MiB, on a cable that takes seconds for each.
const LASTING: &[&str] = &[
    "--set",
    "net.bandwidth.transfer=fixed_16M",
    "--set",
    "net.bandwidth.direction=up",
];
/// Bytes of payload that only a bandwidth case moves.
const MIDDLE_BYTES: u64 = 4_000_000;
const BITS_PER_S: u64 = 50_000_000;
/// What is gone without a word is found out by the kernel's own timers, and then by the next round.
const SILENCE: Duration = Duration::from_secs(90);
/// An end that was killed is known at once.
const KNOWN: Duration = Duration::from_secs(30);

/// A lab with a run in the middle of a bandwidth case.
fn in_the_middle() -> (Lab, Agent, Program) {
    let lab = Lab::new();
    lab.shape(BITS_PER_S, 32_768);
    let agent = Agent::start(&lab);
    let run = lab.start_run("net.bandwidth", &url(), LASTING);
    lab.wait_for_bytes(MIDDLE_BYTES);
    (lab, agent, run)
}

/// The case has failed, and the reason says what happened.
#[track_caller]
fn has_failed(run: &Recorded, words: &[&str]) {
    let reasons = run.ended("net.bandwidth", "failed");
    let [reason] = &reasons[..] else {
        panic!("{reasons:?}: {:?}", run.answer);
    };
    println!("the case failed: {reason}");
    assert!(words.iter().any(|word| reason.contains(word)), "{reason}");
}

#[test]
fn a_cable_that_is_cut() {
    let (lab, mut agent, run) = in_the_middle();
    lab.cut();
    let cut = Instant::now();
    let run = lab.recorded(run, SILENCE);
    println!("the run ended {:?} after the cut", cut.elapsed());
    has_failed(
        &run,
        &["timed out", "unreachable", "No route", "in time", "answer"],
    );
    lab.mend();
    // The agent knows it no later.
    wait_for("the end of the session at the agent", || {
        workers(agent.program.pid()).is_empty().then_some(())
    });
    agent.serves(&lab);
    agent.ends();
    lab.is_left_clean();
}

#[test]
fn an_agent_that_is_killed() {
    let (lab, agent, run) = in_the_middle();
    signal("KILL", agent.program.pid());
    let run = lab.recorded(run, KNOWN);
    has_failed(&run, &["agent", "far end"]);
    // What it had started has gone with it.
    wait_for("the end of the agent's worker", || {
        lab.processes(End::Far).is_empty().then_some(())
    });
    drop(agent);
    let mut next = Agent::start(&lab);
    next.serves(&lab);
    next.ends();
    lab.is_left_clean();
}

#[test]
fn a_far_worker_that_is_killed() {
    let (lab, mut agent, run) = in_the_middle();
    // Rounds are tried again: so is this.
    let pid = agent.program.pid();
    let begin = Instant::now();
    let mut run = run;
    while run.is_running() {
        for worker in workers(pid) {
            if lab.arrived_bytes() > MIDDLE_BYTES {
                // It may have ended meanwhile.
                let _ = metal::process::kill(worker, 9);
            }
        }
        assert!(begin.elapsed() < KNOWN, "{}", run.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let run = lab.recorded(run, KNOWN);
    has_failed(&run, &["far end", "signal", "killed"]);
    agent.serves(&lab);
    agent.ends();
    lab.is_left_clean();
}

#[test]
fn a_near_end_that_is_killed() {
    let (lab, mut agent, run) = in_the_middle();
    signal("KILL", run.pid());
    let _ = run.ended(KNOWN);
    wait_for("the end of the far worker", || {
        workers(agent.program.pid()).is_empty().then_some(())
    });
    wait_for("the end of what the near end started", || {
        lab.processes(End::Near).is_empty().then_some(())
    });
    agent.serves(&lab);
    agent.ends();
    lab.is_left_clean();
}
