use super::{LOST_LEAST_NS, Plan, Trip, all, is_same, limit_ns, stamp};
use crate::net::rtt::echo::own_pair;
use bench::prelude::*;
use laws::net::rtt::Protocol;
use metal::place::allowed;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;

const PLAN: Plan = Plan { window_ns: 2e7, pause_ns: None, clock: Clock::Monotonic };

#[test]
fn a_message_is_known_by_its_number() {
    for bytes in [1, 2, 7, 8, 9, 56, 4096] {
        let mut sent = vec![7; bytes];
        let mut back = vec![7; bytes];
        stamp(&mut sent, 0x0102_0304_0506_0708);
        stamp(&mut back, 0x0102_0304_0506_0707);
        assert!(!is_same(&sent, &back), "{bytes}");
        stamp(&mut back, 0x0102_0304_0506_0708);
        assert!(is_same(&sent, &back), "{bytes}");
        back.push(8);
        assert!(!is_same(&sent, &back), "{bytes}");
    }
    // A part that stayed behind from the message before.
    let (mut sent, mut back) = (vec![0; 100], vec![0; 100]);
    stamp(&mut sent, 300);
    stamp(&mut back, 299);
    back[..8].copy_from_slice(&300_u64.to_le_bytes());
    assert!(!is_same(&sent, &back));
}

/// What a way does with a message.
enum Way {
    Through,
    Lost,
    Held(Duration),
    Changed,
}

/// Runs one connection against a far end that does with each message, by its number, what `way`
/// says.
fn against(way: impl Fn(u64) -> Way + Send, polls: bool, plan: Plan) -> Result<super::Ran> {
    let (near, far) = own_pair(Protocol::Udp)?;
    let far = UdpSocket::from(far);
    let cpus = allowed().expect("CPUs");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut message = [0; 64];
            far.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
            while let Ok(bytes) = far.recv(&mut message) {
                if bytes == 0 {
                    return;
                }
                let number = message.first_chunk::<8>().copied().map_or(0, u64::from_le_bytes);
                match way(number) {
                    Way::Through => {}
                    Way::Lost => continue,
                    Way::Held(time) => std::thread::sleep(time),
                    Way::Changed => stamp(&mut message, number + 1),
                }
                far.send(&message[..bytes]).expect("sends");
            }
        });
        let mut trip = Trip::new(near, None, Protocol::Udp, 64, polls, plan.clock)?;
        // Else three lost ones of the warm-up take as many seconds.
        trip.wait_at_most(5e7)?;
        let mut trips = [trip];
        let ran = all(&mut trips, (&cpus[..1], false), plan);
        trips[0].finish();
        Ok(ran?.remove(0))
    })
}

#[test]
fn a_lost_datagram_is_counted_and_the_window_goes_on() {
    for polls in [false, true] {
        let ran = against(
            |number| match number {
                number if number.is_multiple_of(4) => Way::Lost,
                _ => Way::Through,
            },
            polls,
            Plan { window_ns: 1e8, ..PLAN },
        );
        let ran = ran.expect("the others come back");
        // A busy machine may hold one back for longer than is waited.
        assert!(ran.lost >= 1 && ran.ticks.len() > 1, "{} {}", ran.lost, ran.ticks.len());
        assert_eq!(ran.ticks.len() as u64 + ran.lost, ran.timed);
        assert!(ran.unanswered >= ran.lost && ran.lost_after_ns >= LOST_LEAST_NS);
        // Those that came back took less time than a lost one is waited for. One may take more where
        // this thread loses its CPU between the arrival and the reading.
        let mut ticks = ran.ticks.clone();
        ticks.sort_unstable();
        let median = ticks[ticks.len() / 2];
        assert!((median as f64) < ran.lost_after_ns, "{median}");
    }
}

#[test]
fn one_that_comes_too_late_is_not_taken_for_the_next() {
    let held = Duration::from_nanos(3 * LOST_LEAST_NS as u64);
    let way = move |number| match number {
        50 => Way::Held(held),
        _ => Way::Through,
    };
    let ran = against(way, false, PLAN).expect("the others come back");
    // Where the warm-up was slow it may have been waited for.
    let waited = ran.lost_after_ns > held.as_nanos() as f64;
    assert!(
        waited || ran.sent < 50 || (ran.lost >= 1 && ran.late >= 1),
        "{} lost, {} late of {}",
        ran.lost,
        ran.late,
        ran.sent
    );
    assert_eq!(ran.ticks.len() as u64 + ran.lost, ran.timed);
}

#[test]
fn a_way_that_gives_nothing_or_something_else_back_fails_in_its_time() {
    for way in [|_| Way::Lost, |_| Way::Changed] {
        against(way, false, PLAN).expect_err("nothing comes back");
    }
}

#[test]
fn another_message_of_a_stream_fails() {
    use std::io::{Read, Write};
    let (near, mut far) = UnixStream::pair().expect("sockets");
    let cpus = allowed().expect("CPUs");
    let told = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut message = [0; 64];
            for turn in 0..50_u64 {
                if far.read_exact(&mut message).is_err() {
                    return;
                }
                if turn == 40 {
                    stamp(&mut message, 7);
                }
                // It is gone once it has seen the wrong one.
                let _ = far.write_all(&message);
            }
        });
        let trip =
            Trip::new(near.into(), None, Protocol::Unix, 64, false, PLAN.clock).expect("a trip");
        all(&mut [trip], (&cpus[..1], false), PLAN)
    });
    told.expect_err("is seen");
}

/// What is lost and sent again is measured, and so are large messages over slow links.
#[test]
fn a_stream_has_time_to_send_again() {
    // The second SYN goes after 1 s, the third after 3 s.
    assert!(limit_ns(Protocol::Tcp, 1) > 3.5e9);
    let both_ways_ns = 2.0 * 8.0 * f64::from(1 << 20) / 10e6 * 1e9;
    assert!(limit_ns(Protocol::Tcp, 1 << 20) > both_ways_ns + 1e9);
    assert!(limit_ns(Protocol::Udp, 1) <= 1e9);
}
