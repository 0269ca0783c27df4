use super::{LOST_LEAST_NS, LOST_MOST_NS, Plan, Prober, probe_all, stream_limit_ns};
use crate::net::wire::timed::{Socket, stamp};
use bench::prelude::*;
use metal::place::allowed;
use metal::socket::Wait;
use std::net::UdpSocket;

const PLAN: Plan = Plan { window_ns: 2e7, pause_ns: None, least: None };
const CLOCK: Clock = Clock::Monotonic;

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
    let bind = || UdpSocket::bind(("127.0.0.1", 0));
    let (near, far) = (bind()?, bind()?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
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
        let wait = if polls { Wait::Never } else { Wait::Block };
        let mut prober = Prober::new(near.into(), None, 64, wait, (CLOCK, LOST_MOST_NS))?;
        // Else three lost ones of the warm-up take as many seconds.
        prober.wait_at_most(5e7);
        let mut probers = [prober];
        let ran = probe_all(&mut probers, (&cpus[..1], false), &plan);
        probers[0].finish();
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
    let (near, far) =
        socket2::Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("sockets");
    let mut far = far;
    let cpus = allowed().expect("CPUs");
    let told = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut message = [0; 64];
            while far.read_exact(&mut message).is_ok() {
                stamp(&mut message, 7);
                // It is gone once it has seen the wrong one.
                let _ = far.write_all(&message);
            }
        });
        let limit = (CLOCK, stream_limit_ns(64));
        let prober = Prober::new(Socket::from(near), None, 64, Wait::Block, limit).expect("made");
        probe_all(&mut [prober], (&cpus[..1], false), &PLAN)
    });
    told.expect_err("is seen");
}

/// What is lost and sent again is measured, and so are large messages over slow links.
#[test]
fn a_stream_has_time_to_send_again() {
    // The second SYN goes after 1 s, the third after 3 s.
    assert!(stream_limit_ns(1) > 3.5e9);
    let both_ways_ns = 2.0 * 8.0 * f64::from(1 << 20) / 10e6 * 1e9;
    assert!(stream_limit_ns(1 << 20) > both_ways_ns + 1e9);
}
