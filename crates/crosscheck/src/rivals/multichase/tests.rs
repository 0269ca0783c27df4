use super::{CHASE, CHASE_LOADED, HAND_OVER, LOAD, MIB, RIVAL};
use crate::tests::{conditions, reads, refuses, text};
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;

#[test]
fn recorded_outputs_are_read() {
    let told = [
        ("2016-chase.txt", CHASE, 15673.8),
        ("2025-08-chase.txt", CHASE, 17426.1),
        ("2025-08-loaded.txt", CHASE_LOADED, 1080.528),
        ("2025-08-loaded.txt", LOAD, 862.0 * MIB as f64),
        ("2025-08-pingpong.txt", HAND_OVER, 547.8),
    ];
    reads(&RIVAL, &told);
}

#[test]
fn what_it_does_not_say_is_an_error() {
    for what in [CHASE, CHASE_LOADED, LOAD, HAND_OVER, "anything else"] {
        refuses(&RIVAL, what, &["", "usage: ./multichase [options]"]);
    }
    // Its other program's output, one with more than one number, and one whose lines were never
    // handed over.
    let [verbose, starved, loaded, pingpong] =
        ["verbose", "pingpong-starved", "loaded", "pingpong"]
            .map(|what| text(&RIVAL, &format!("2025-08-{what}.txt")));
    refuses(&RIVAL, CHASE, &[&verbose, &loaded]);
    refuses(&RIVAL, HAND_OVER, &[&starved, &format!("{pingpong} 1:  5.0\n")]);
    refuses(&RIVAL, LOAD, &[loaded.lines().next().unwrap()]);
}

/// It would switch transparent huge pages on for the whole machine.
#[test]
fn settings_of_the_kernel_are_left_alone() {
    let mut conditions = conditions(&recorded("vm-granite-rapids"), Preset::Standard, 2);
    conditions.host.memory.thp.enabled = Some("never".to_owned());
    for pairing in (RIVAL.pairings)(&conditions) {
        let asks = pairing.theirs.args.iter().any(|arg| arg == "-H");
        assert!(!asks || pairing.skip.is_some(), "{}", pairing.name);
    }
}
