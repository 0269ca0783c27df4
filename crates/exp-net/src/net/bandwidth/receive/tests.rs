use super::{Numbers, Ordering, Plan, Watch, catch, is_new, stream};
use crate::net::bandwidth::shape::{Ask, RUN_MAX};
use crate::net::wire::tests::streams;
use metal::socket::Wait;
use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;

#[test]
fn what_a_slow_way_still_holds_is_no_loss() {
    const GAP: Duration = Duration::from_millis(20);
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    sender.connect(receiver.local_addr().expect("bound")).expect("connects");
    // Far shorter than the gaps.
    receiver.set_read_timeout(Some(Duration::from_millis(2))).expect("sets");
    let receiver = receiver.into();
    let watch = Watch::new(1, Duration::from_millis(1));
    let found = std::thread::scope(|scope| {
        let caught = scope.spawn(|| catch(&receiver, &mut [0; 17], 0, 0, &watch));
        for number in 0..8_u64 {
            if number == 4 {
                // The sender says that it is done before what it sent has come.
                watch.sent[0].store(8, Ordering::Relaxed);
                watch.draining.store(true, Ordering::Release);
            }
            let mut datagram = [1; 16];
            datagram[..8].copy_from_slice(&number.to_le_bytes());
            sender.send(&datagram).expect("sends");
            std::thread::sleep(GAP);
        }
        caught.join().expect("no panic").expect("receives")
    });
    assert_eq!(found.datagrams.map(|counts| counts.unique), Some(8));
}

#[test]
fn whole_messages_are_waited_for_where_they_come_between_two_points() {
    let watch = Watch::new(1, Duration::from_millis(1));
    let second = Duration::from_secs(1);
    assert_eq!(watch.wait_for(4096, 4_096_000, second), Wait::Whole);
    assert_eq!(watch.wait_for(4096, 4_095_999, second), Wait::Block);
    assert_eq!(watch.wait_for(4096, 0, second), Wait::Block);
}

#[test]
fn a_stream_counts_to_its_last_byte_however_it_comes() {
    const ROOM: usize = 4096;
    let (mut sender, receiver) = streams();
    // So long that every call waits for a whole buffer.
    let watch = Watch::new(1, Duration::from_secs(1000));
    let found = std::thread::scope(|scope| {
        let pulled =
            scope.spawn(|| stream(&receiver.into(), &mut [0; ROOM], &watch.logs[0], &watch));
        // Pieces that make whole buffers only together, and a rest.
        for _ in 0..100 {
            sender.write_all(&[7; 1000]).expect("sends");
            std::thread::sleep(Duration::from_micros(200));
        }
        drop(sender);
        pulled.join().expect("no panic").expect("receives")
    });
    assert_eq!(found.bytes, 100_000);
    // The first call takes what is there, the others a buffer each, the last the rest.
    let whole = 100_000_u64.div_ceil(ROOM as u64);
    assert!((whole..=whole + 1).contains(&found.calls), "{}", found.calls);
}

#[test]
fn a_long_way_takes_longer_and_none_takes_for_ever() {
    let ask = Ask { run_ns: 32_000_000, interval_ns: 0 };
    let near = Plan::for_request(&ask, Duration::from_micros(20));
    assert_eq!(near.block, Duration::from_millis(1));
    assert_eq!(near.run, Duration::from_millis(32));
    assert!(near.most < Duration::from_millis(200));
    let far = Plan::for_request(&ask, Duration::from_millis(40));
    assert_eq!(far.block, Duration::from_millis(80));
    assert_eq!(far.run, Duration::from_millis(1280));
    let moon = Plan::for_request(&ask, Duration::from_millis(2600));
    assert!(moon.run <= RUN_MAX && moon.most <= RUN_MAX);
}

#[test]
fn only_datagrams_of_the_message_s_length_and_a_sane_number_count() {
    let mut numbers = Numbers::new();
    let numbered = |number: u64| {
        let mut datagram = number.to_le_bytes().to_vec();
        datagram.extend([1; 8]);
        datagram
    };
    assert!(is_new(&numbered(0), 16, &mut numbers));
    assert!(!is_new(&numbered(0), 16, &mut numbers), "for the second time");
    assert!(!is_new(&numbered(1), 28, &mut numbers));
    assert!(!is_new(&numbered(u64::MAX), 16, &mut numbers));
    assert!(is_new(&[7; 3], 3, &mut numbers), "too short for a number");
    assert_eq!((numbers.counts.unique, numbers.counts.strange), (2, 2));
    assert_eq!(numbers.counts.repeated, 1);
}
