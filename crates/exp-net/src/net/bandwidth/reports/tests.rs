use super::{Exchanges, ONE, TIMES_MAX, exchanges, lies_there};
use crate::net::ends::tests::streams;
use std::io::Write;
use std::time::Duration;

#[test]
fn a_message_lies_there_when_all_of_it_does() {
    let (mut sender, receiver) = streams();
    sender.write_all(&[1; 100]).expect("sends");
    let lies = |bytes, ms| lies_there(&receiver, bytes, Duration::from_millis(ms));
    assert!(lies(100, 5000).expect("asks"));
    assert!(!lies(101, 1).expect("asks"));
}

#[test]
fn a_window_goes_on_after_what_was_lost_in_it() {
    // The second is lost, and its wait is longer than the window.
    let run = Duration::from_millis(5);
    let Exchanges { times, count: all, window_ns, lost } = exchanges(run, ONE, |number| {
        if number == 1 {
            std::thread::sleep(2 * run);
        }
        Ok(number != 1)
    })
    .expect("most come back");
    assert!(window_ns >= 15e6 && lost == 1, "{window_ns} {lost}");
    assert!(all > 1 && times.len() as u64 == all.min(TIMES_MAX as u64), "{all}");
}
