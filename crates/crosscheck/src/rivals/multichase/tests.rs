use super::{CHASE, CHASE_LOADED, HAND_OVER, LOAD, MIB, RIVAL, parse};
use crate::tests::{conditions, said};
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;

const LOADED: &str = include_str!("../../testdata/multichase/2025-08-loaded.txt");
const PINGPONG: &str = include_str!("../../testdata/multichase/2025-08-pingpong.txt");

#[test]
fn recorded_outputs_are_read() {
    let chases = [
        (include_str!("../../testdata/multichase/2016-chase.txt"), 15673.8),
        (include_str!("../../testdata/multichase/2025-08-chase.txt"), 17426.1),
    ];
    for (text, ns) in chases {
        assert_eq!(parse(&said(text), CHASE), Ok(ns));
    }
    assert_eq!(parse(&said(LOADED), CHASE_LOADED), Ok(1080.528));
    assert_eq!(parse(&said(LOADED), LOAD), Ok(862.0 * MIB as f64));
    assert_eq!(parse(&said(PINGPONG), HAND_OVER), Ok(547.8));
}

#[test]
fn what_it_does_not_say_is_an_error() {
    for what in [CHASE, CHASE_LOADED, LOAD, HAND_OVER, "anything else"] {
        assert!(parse(&said(""), what).is_err(), "{what}");
        assert!(parse(&said("usage: ./multichase [options]"), what).is_err(), "{what}");
    }
    // Its other program's output, one with more than one number, and one whose lines were never
    // handed over.
    let verbose = include_str!("../../testdata/multichase/2025-08-verbose.txt");
    let starved = include_str!("../../testdata/multichase/2025-08-pingpong-starved.txt");
    assert!(parse(&said(verbose), CHASE).is_err());
    assert!(parse(&said(LOADED), CHASE).is_err());
    assert!(parse(&said(starved), HAND_OVER).is_err());
    assert!(parse(&said(&format!("{PINGPONG} 1:  5.0\n")), HAND_OVER).is_err());
    let names = LOADED.lines().next().unwrap();
    assert!(parse(&said(names), LOAD).is_err());
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
