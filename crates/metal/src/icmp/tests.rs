use super::{Access, Answer, Echo, HEAD_BYTES, PAYLOAD_MIN_BYTES, is_granted};
use crate::clock::{Clock, vdso_clock_gettime};
use crate::deadline::Deadline;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const LOOPBACKS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Every kind of socket that this process may have, to both loopback addresses if they are there.
fn granted(payload_bytes: usize) -> Vec<Echo> {
    let mut all = Vec::new();
    for to in LOOPBACKS {
        for access in [Access::Datagram, Access::Raw] {
            if is_granted(access, to.is_ipv6()) {
                all.extend(Echo::open_as(access, to, payload_bytes));
            }
        }
    }
    if all.is_empty() {
        skips::test("icmp");
    }
    all
}

/// Sends an echo and waits for its answer.
fn exchange(echo: &mut Echo, sequence: u16) -> Answer {
    echo.number(sequence);
    echo.send().unwrap();
    answer(echo)
}

fn answer(echo: &mut Echo) -> Answer {
    loop {
        let packet = echo.receive().unwrap();
        if let Some(answer) = echo.answer(packet).unwrap() {
            return answer;
        }
    }
}

#[test]
fn echoes_come_back_with_the_kernels_stamp_between_sending_and_receiving() {
    for payload_bytes in [PAYLOAD_MIN_BYTES, 56, 57, 9000] {
        for mut echo in granted(payload_bytes) {
            let _deadline = Deadline::after(Duration::from_secs(5)).unwrap();
            // The first stamps may be taken late: the kernel turns them on when somebody asks.
            for sequence in [0, 1, 2, 0x0102, u16::MAX] {
                let before = vdso_clock_gettime(Clock::REALTIME);
                let answer = exchange(&mut echo, sequence);
                let after = vdso_clock_gettime(Clock::REALTIME);
                assert!(
                    (before..=after).contains(&answer.stamped_ns),
                    "{before} {answer:?} {after}"
                );
                assert!(answer.hops_left.is_some_and(|hops| hops >= 32), "{answer:?}");
            }
            assert_eq!(echo.strays(), 0, "{echo:?}");
        }
    }
}

#[test]
fn a_late_answer_is_not_taken_for_the_next_echos() {
    for mut echo in granted(56) {
        let _deadline = Deadline::after(Duration::from_secs(5)).unwrap();
        echo.number(1);
        echo.send().unwrap();
        // Its answer lies in the socket when the second is sent.
        exchange(&mut echo, 2);
        assert_eq!(echo.strays(), 1);
    }
}

#[test]
fn two_senders_do_not_take_each_others_answers() {
    let (mut one, mut other) = (granted(56), granted(56));
    for (one, other) in one.iter_mut().zip(&mut other) {
        let _deadline = Deadline::after(Duration::from_secs(5)).unwrap();
        assert_ne!(one.identifier, other.identifier);
        one.number(7);
        one.send().unwrap();
        exchange(other, 7);
        answer(one);
    }
}

#[test]
fn a_wait_without_an_answer_ends_with_its_deadline() {
    for mut echo in granted(56) {
        let _deadline = Deadline::after(Duration::from_millis(5)).unwrap();
        let error = echo.receive().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
    }
}

#[test]
fn payloads_that_no_packet_carries_are_refused() {
    for to in LOOPBACKS {
        let least = Echo::open(to, PAYLOAD_MIN_BYTES - 1).unwrap_err();
        assert_eq!(least.kind(), ErrorKind::InvalidInput);
        let most = Echo::open(to, usize::from(u16::MAX) - HEAD_BYTES + 1).unwrap_err();
        assert_eq!(most.kind(), ErrorKind::InvalidInput);
    }
}
