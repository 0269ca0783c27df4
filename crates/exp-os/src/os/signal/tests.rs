use super::*;
use session::fixtures::smoke;

#[test]
fn it_measures_and_puts_everything_back() {
    assert_eq!(SIGUSR1, signal_hook::consts::SIGUSR1);
    let samples = smoke(&EXPERIMENT);
    assert_eq!(samples.len(), 4);
    // Everything is put back: the next round starts as the first did.
    let catcher = Catcher::new(SIGUSR1).expect("nobody has it any more");
    assert!(!catcher.is_blocked().expect("asks"));
}
