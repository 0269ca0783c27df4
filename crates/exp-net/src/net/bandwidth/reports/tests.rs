use super::lies_there;
use crate::net::wire::tests::streams;
use std::io::Write;
use std::time::Duration;

#[test]
fn a_message_lies_there_when_all_of_it_does() {
    let (mut sender, receiver) = streams();
    let receiver = receiver.into();
    sender.write_all(&[1; 100]).expect("sends");
    let lies = |bytes, ms| lies_there(&receiver, bytes, Duration::from_millis(ms));
    assert!(lies(100, 5000).expect("asks"));
    assert!(!lies(101, 1).expect("asks"));
}
