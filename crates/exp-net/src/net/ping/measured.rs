//! Echoes sent, awaited and written down.

use crate::net::record_with_lost;
use crate::net::wire::completed;
use bench::prelude::*;
use laws::net::ping::{Echoes, Ip};
use laws::net::rtt::Arrivals;
use metal::clock::{self, monotonic_ns, monotonic_raw_ns, vdso_clock_gettime};
use metal::deadline::Deadline;
use metal::icmp::{Access, Answer, Echo};
use metal::sleep;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An echo is lost after so many times the slowest of the warm-up, within these limits, in ns.
const LOST_AFTER: u64 = 50;
const LOST_LEAST_NS: u64 = 20_000_000;
const LOST_MOST_NS: u64 = 1_000_000_000;
/// What is waited for lost echoes is not part of a window, up to so many windows and time-outs.
const EXTRA_WINDOWS: u64 = 8;
const EXTRA_TIMEOUTS: u64 = 2;
/// Echoes before the first that counts, and in a rehearsal.
const WARM_UP: u16 = 20;
const REHEARSAL_WARM_UP: u16 = 4;
/// Echoes without any answer after which a case is given up.
const UNANSWERED_MAX: u64 = 2;
/// If wall clock and counter differ by this much for one echo, the wall clock was set, in ns. What
/// runs between the two clocks' reads may be interrupted too; nothing else is this long.
const STEP_NS: f64 = 5_000_000.0;
/// Echoes that a case must have counted, and the most that it keeps.
const LEAST: usize = 2;
const MOST: usize = 500_000;
/// Hops that hosts give their packets: the smallest not below what is left is taken for it.
const FIRST_HOPS: [u8; 3] = [64, 128, 255];

#[derive(Default)]
struct Seen {
    trips: Vec<f64>,
    in_kernel: Vec<f64>,
    wake_ups: Vec<f64>,
    lost: u64,
    stepped: u64,
    hops_left: Option<u8>,
    /// Answers that were late, doubled or another's.
    strays: u64,
    /// When an echo was lost.
    timeout_ns: u64,
}

pub(super) fn case(case: &Case, of: &Echoes, interval_ns: u64, bench: &mut Bench) -> Result<()> {
    let to = address(of, bench);
    let mut echo = Echo::open(to, usize::try_from(of.message)?).map_err(explained)?;
    let is_sparse = of.arrivals == Arrivals::Sparse;
    let (rehearsal, case_ns) = (bench.order().rehearsal, bench.order().case_ns);
    let mut loop_ = Loop {
        clock: bench.order().clock(),
        echo: &mut echo,
        deadline: Deadline::after(Duration::from_nanos(LOST_MOST_NS)).context("a deadline")?,
        put_off_ns: 0,
        timeout_ns: LOST_MOST_NS,
        sequence: 0,
        seen: Seen::default(),
    };
    let warm_up = if rehearsal { REHEARSAL_WARM_UP } else { WARM_UP };
    for _ in 0..warm_up {
        loop_.one()?;
    }
    loop_.timeout_ns = timeout_ns(&loop_.seen.trips);
    loop_.put_off_ns = 0;
    loop_.seen = Seen::default();
    let timeout_ns = loop_.timeout_ns;
    let mut window = Window::new(monotonic_raw_ns(), case_ns, timeout_ns);
    let mut next_ns = monotonic_ns();
    while loop_.seen.trips.len() < LEAST || (!window.is_over(monotonic_raw_ns()) && !rehearsal) {
        if is_sparse {
            // A grid, so that pauses do not grow with what echoes take; a point that has passed is
            // left out.
            next_ns = (next_ns + interval_ns).max(monotonic_ns());
            sleep::until(clock::Clock::MONOTONIC, next_ns).context("the pause between echoes")?;
        }
        let (before_ns, lost) = (monotonic_raw_ns(), loop_.seen.lost);
        loop_.one()?;
        if loop_.seen.lost > lost {
            window.lose(monotonic_raw_ns() - before_ns);
        }
        if loop_.seen.trips.len() >= MOST {
            break;
        }
    }
    let seen = loop_.seen;
    let seen = Seen { strays: echo.strays(), timeout_ns, ..seen };
    write(case, seen, echo.access(), bench)
}

/// When an echo is lost, from the warm-up's round trips; the first one finds everything cold.
fn timeout_ns(warm_up: &[f64]) -> u64 {
    let slowest_ns = warm_up.iter().skip(1).copied().fold(0.0, f64::max);
    match slowest_ns > 0.0 {
        true => (LOST_AFTER * slowest_ns as u64).clamp(LOST_LEAST_NS, LOST_MOST_NS),
        false => LOST_MOST_NS,
    }
}

/// How long echoes are sent. A window that ended with the first lost echo, which takes longer than
/// the window, would overstate the loss: what is waited for lost ones comes on top.
struct Window {
    until_ns: u64,
    last_ns: u64,
}

impl Window {
    fn new(now_ns: u64, window_ns: u64, timeout_ns: u64) -> Window {
        let until_ns = now_ns + window_ns;
        Window {
            until_ns,
            last_ns: until_ns + EXTRA_WINDOWS * window_ns + EXTRA_TIMEOUTS * timeout_ns,
        }
    }

    fn lose(&mut self, waited_ns: u64) {
        self.until_ns = self.last_ns.min(self.until_ns + waited_ns);
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns
    }
}

fn address(of: &Echoes, bench: &Bench) -> IpAddr {
    bench.order().far_address.unwrap_or(match of.ip {
        Ip::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Ip::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
    })
}

fn explained(error: Error) -> anyhow::Error {
    let refused = error.kind() == ErrorKind::PermissionDenied;
    let error = anyhow::Error::from(error);
    match refused {
        true => error.context(
            "the kernel grants no ICMP socket: net.ipv4.ping_group_range excludes this process's \
             groups, and the process lacks CAP_NET_RAW",
        ),
        false => error.context("a socket for ICMP echoes"),
    }
}

struct Loop<'echo> {
    clock: Clock,
    echo: &'echo mut Echo,
    deadline: Deadline,
    /// When the deadline was put off last.
    put_off_ns: u64,
    timeout_ns: u64,
    sequence: u16,
    seen: Seen,
}

impl Loop<'_> {
    fn one(&mut self) -> Result<()> {
        self.put_off()?;
        self.sequence = self.sequence.wrapping_add(1);
        self.echo.number(self.sequence);
        let sent_ns = vdso_clock_gettime(clock::Clock::REALTIME);
        let start = self.clock.start();
        let sent = self.echo.send();
        let mut came = sent.and_then(|()| self.echo.receive());
        loop {
            let end = self.clock.end();
            let back_ns = vdso_clock_gettime(clock::Clock::REALTIME);
            let waited_ns = self.clock.between_ns(start, end);
            let packet = completed(came);
            let packet = packet.context("sending an ICMP echo (or receiving an ICMP error)")?;
            if let Some(packet) = packet
                && let Some(answer) = self.echo.answer(packet)?
            {
                self.see(answer, sent_ns, back_ns, waited_ns);
                return Ok(());
            }
            // A stray's, or a deadline that was an earlier echo's.
            let rest_ns = self.timeout_ns as f64 - waited_ns;
            if rest_ns <= 0.0 {
                return self.lose();
            }
            self.deadline.put_off(Duration::from_nanos(rest_ns as u64)).context("a deadline")?;
            came = self.echo.receive();
        }
    }

    /// Extends the deadline when half has passed: a call for each echo would be in the loop's way.
    fn put_off(&mut self) -> Result<()> {
        let now_ns = monotonic_ns();
        if now_ns - self.put_off_ns >= self.timeout_ns / 2 {
            self.put_off_ns = now_ns;
            self.deadline.put_off(Duration::from_nanos(self.timeout_ns)).context("a deadline")?;
        }
        Ok(())
    }

    fn lose(&mut self) -> Result<()> {
        self.seen.lost += 1;
        // What interrupts comes again and again: the next wait has a deadline of its own.
        self.put_off_ns = 0;
        ensure!(
            !self.seen.trips.is_empty() || self.seen.lost < UNANSWERED_MAX,
            "{} echoes got no reply within {:.2} s: a firewall drops them, or the host ignores \
             echoes (net.ipv4.icmp_echo_ignore_all)",
            self.seen.lost,
            self.timeout_ns as f64 / 1e9
        );
        Ok(())
    }

    fn see(&mut self, answer: Answer, sent_ns: u64, back_ns: u64, trip_ns: f64) {
        let Some([in_kernel_ns, wake_up_ns]) = parts(sent_ns, answer.stamped_ns, back_ns, trip_ns)
        else {
            self.seen.stepped += 1;
            return;
        };
        self.seen.trips.push(trip_ns);
        self.seen.in_kernel.push(in_kernel_ns);
        self.seen.wake_ups.push(wake_up_ns);
        self.seen.hops_left = answer.hops_left.or(self.seen.hops_left);
    }
}

/// From the begin to the kernel's stamp, and from there to the end, in ns, all by the wall clock:
/// the counter's time begins a clock's read later, which would be missing in the second part. None
/// where the wall clock was set meanwhile.
fn parts(sent_ns: u64, stamped_ns: u64, back_ns: u64, trip_ns: f64) -> Option<[f64; 2]> {
    // Whole numbers first: these clocks' values are too long for a float.
    let in_kernel_ns = stamped_ns.checked_sub(sent_ns)? as f64;
    let wake_up_ns = back_ns.checked_sub(stamped_ns)? as f64;
    let by_wall_ns = in_kernel_ns + wake_up_ns;
    ((by_wall_ns - trip_ns).abs() <= STEP_NS).then_some([in_kernel_ns, wake_up_ns])
}

fn write(case: &Case, seen: Seen, access: Access, bench: &mut Bench) -> Result<()> {
    let mut case = case.clone();
    let access = match access {
        Access::Datagram => "datagram",
        Access::Raw => "raw",
    };
    case.at.put("access", access);
    let sent = seen.trips.len() as u64 + seen.lost;
    let notes = notes(&case, &seen);
    let samples = record_with_lost(bench, &case, "round_trip", seen.trips, seen.lost)?;
    samples.notes.extend(notes);
    samples.set_quantities([("timeout_ns", seen.timeout_ns as f64)]);
    samples.set_quantities(seen.hops_left.map(|hops| ("hops_left", f64::from(hops))));
    record_with_lost(bench, &case, "kernel_round_trip", seen.in_kernel, seen.lost)?;
    bench.record(&case, "wake_up", seen.wake_ups)?;
    bench.record(&case, "loss", Values::batches(sent, vec![seen.lost as f64 / sent as f64]))?;
    Ok(())
}

fn notes(case: &Case, seen: &Seen) -> Vec<String> {
    let mut notes = Vec::new();
    let is_loopback = case.text("far") == Some(bench::experiment::LOOPBACK);
    if is_loopback {
        notes.push("loopback: memory copies, no link".to_owned());
    }
    let first = seen.hops_left.and_then(|left| FIRST_HOPS.into_iter().find(|first| *first >= left));
    if let (Some(left), Some(first)) = (seen.hops_left, first)
        && first > left
    {
        notes.push(format!(
            "replies arrived with a TTL of {left}, probably from {first}: {} routers on the path",
            first - left
        ));
    }
    if let Some(count) = case.int("fragments") {
        notes.push(format!("each echo was sent in {count} fragments"));
    }
    if seen.lost > 0 {
        notes.push(format!(
            "{} echoes got no reply within {:.2} s; the distribution counts them as longer than \
             all others",
            seen.lost,
            seen.timeout_ns as f64 / 1e9
        ));
    }
    if seen.strays > 0 {
        notes.push(format!(
            "{} replies were late, duplicate or foreign and are not counted",
            seen.strays
        ));
    }
    if seen.stepped > 0 {
        notes.push(format!(
            "{} echoes are not counted because the wall clock was set meanwhile",
            seen.stepped
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::{LOST_LEAST_NS, LOST_MOST_NS, Window, parts, timeout_ns};

    /// Rounds of echoes a millisecond apart, with a lost share, as the loop sends them.
    fn mean_loss(share: f64) -> f64 {
        const ROUNDS: u32 = 4000;
        let mut random = fastrand::Rng::with_seed(5);
        let mut sum = 0.0;
        for _ in 0..ROUNDS {
            let mut window = Window::new(0, 24_000_000, LOST_LEAST_NS);
            let (mut now_ns, mut sent, mut lost) = (0, 0, 0);
            while !window.is_over(now_ns) {
                now_ns += 1_000_000;
                sent += 1;
                if random.f64() < share {
                    lost += 1;
                    now_ns += LOST_LEAST_NS;
                    window.lose(LOST_LEAST_NS);
                }
            }
            sum += f64::from(lost) / f64::from(sent);
        }
        sum / f64::from(ROUNDS)
    }

    #[test]
    fn a_rounds_loss_is_the_ways_loss() {
        assert_eq!(mean_loss(0.0), 0.0);
        for share in [0.01, 0.05, 0.2] {
            let mean = mean_loss(share);
            assert!((mean / share - 1.0).abs() < 0.1, "{mean} of {share}");
        }
        // And where nothing comes back it has an end.
        assert_eq!(mean_loss(1.0), 1.0);
    }

    #[test]
    fn an_echo_is_lost_after_many_times_what_echoes_take() {
        assert_eq!(timeout_ns(&[9e8, 1e6, 2e6]), 100_000_000);
        assert_eq!(timeout_ns(&[9e8, 1e4, 2e4]), LOST_LEAST_NS);
        assert_eq!(timeout_ns(&[1e6, 4e7]), LOST_MOST_NS);
        assert_eq!(timeout_ns(&[]), LOST_MOST_NS);
        assert_eq!(timeout_ns(&[1e6]), LOST_MOST_NS);
    }

    /// A slow clock: 800 ns of the first read are before the counter's begin.
    #[test]
    fn waking_is_never_shorter_by_what_a_clock_takes() {
        let (sent_ns, stamped_ns, back_ns) = (1_000_000, 1_006_000, 1_006_500);
        assert_eq!(parts(sent_ns, stamped_ns, back_ns, 5_700.0), Some([6_000.0, 500.0]));
        assert_eq!(parts(sent_ns, 999_999, back_ns, 5_700.0), None);
        assert_eq!(parts(sent_ns, 1_006_501, back_ns, 5_700.0), None);
        assert_eq!(parts(sent_ns, stamped_ns, 9_000_000, 5_700.0), None);
    }
}
