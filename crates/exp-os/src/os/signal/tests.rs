use super::*;
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment as _, Known};
use record::key::{CaseId, Key};
use session::fixtures::smoke;

#[test]
fn the_derived_prediction_comes_from_the_measured_call() {
    let site = recorded("vm-granite-rapids");
    let case = |operation: &str| Case::new(CaseId::new().with("operation", operation));
    let of = |operation: &str, known: &Known| {
        EXPERIMENT.predict(&site, Some(known), &case(operation), &CARD.metrics[0])
    };
    let mut known = Known::default();
    assert!(of("catch", &known).is_none());
    let getpid = CaseId::new().with("call", "getpid");
    known.insert(Key::new("os.syscall", &getpid, "latency"), 95.0);
    let range = of("catch", &known).and_then(|catch| catch.range);
    assert!(range.expect("derived").low > 2.0 * 90.0);
    assert!(of("nothing", &known).is_none());
}

#[test]
fn it_measures_and_puts_everything_back() {
    assert_eq!(SIGUSR1, signal_hook::consts::SIGUSR1);
    let samples = smoke(&EXPERIMENT);
    assert_eq!(samples.len(), 4);
    // Everything is put back: the next round starts as the first did.
    let catcher = Catcher::new(SIGUSR1).expect("nobody has it any more");
    assert!(!catcher.is_blocked().expect("asks"));
}
