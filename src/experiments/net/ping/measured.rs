//! Echoes sent, awaited and written down.

use crate::measure::{Bench, Clock};
use crate::stats::histogram::Histogram as Distribution;
use anyhow::{Context, Result, ensure};
use metal::clock::{self, monotonic_ns, monotonic_raw_ns, vdso_clock_gettime};
use metal::deadline::Deadline;
use metal::icmp::{Access, Answer, Echo};
use metal::sleep;
use record::case::Case;
use record::key::Value;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// An echo that is not answered in this time is lost.
const TIMEOUT_NS: u64 = 1_000_000_000;
/// Echoes before the first that counts, and in a rehearsal.
const WARM_UP: u16 = 20;
const REHEARSAL_WARM_UP: u16 = 4;
/// Echoes without any answer after which a case is given up.
const UNANSWERED_MAX: u64 = 2;
/// The wall clock was set where it and the counter tell so different times of one echo, in ns. What runs
/// between the two clocks' reads may be interrupted too; nothing else is this long.
const STEP_NS: f64 = 5_000_000.0;
/// Echoes that a case must have counted, and the most that it keeps.
const LEAST: usize = 2;
const MOST: usize = 500_000;
/// Hops that hosts give their packets: the smallest not below what is left is taken for it.
const FIRST_HOPS: [u8; 3] = [64, 128, 255];

/// What one case saw.
#[derive(Default)]
struct Seen {
    trips: Vec<f64>,
    in_kernel: Vec<f64>,
    wake_ups: Vec<f64>,
    lost: u64,
    stepped: u64,
    hops_left: Option<u8>,
}

/// Measures one case.
///
/// # Errors
/// No socket, no answer at all, or an error that a router or the peer answered.
pub(super) fn case(case: &Case, interval_ns: u64, bench: &mut Bench) -> Result<()> {
    let to = address(case, bench);
    let bytes = usize::try_from(case.int("message").context("a case without a message")?)?;
    let mut echo = Echo::open(to, bytes).map_err(explained)?;
    let is_sparse = case.text("arrivals") == Some("sparse");
    let (rehearsal, case_ns) = (bench.order().rehearsal, bench.order().case_ns);
    let mut loop_ = Loop {
        clock: bench.clock(),
        echo: &mut echo,
        deadline: Deadline::after(Duration::from_nanos(TIMEOUT_NS)).context("a deadline")?,
        put_off_ns: 0,
        sequence: 0,
        seen: Seen::default(),
    };
    let warm_up = if rehearsal {
        REHEARSAL_WARM_UP
    } else {
        WARM_UP
    };
    for _ in 0..warm_up {
        loop_.one()?;
    }
    loop_.seen = Seen::default();
    let until = monotonic_raw_ns() + case_ns;
    let mut next_ns = monotonic_ns();
    while loop_.seen.trips.len() < LEAST || (monotonic_raw_ns() < until && !rehearsal) {
        if is_sparse {
            // A grid, so that pauses do not grow with what echoes take; a point that has passed is left out.
            next_ns = (next_ns + interval_ns).max(monotonic_ns());
            sleep::until(clock::Clock::MONOTONIC, next_ns).context("the pause between echoes")?;
        }
        loop_.one()?;
        if loop_.seen.trips.len() >= MOST {
            break;
        }
    }
    let seen = loop_.seen;
    let told = Told {
        access: echo.access(),
        strays: echo.strays(),
    };
    write(case, seen, &told, bench)
}

/// The address that echoes go to.
fn address(case: &Case, bench: &Bench) -> IpAddr {
    match (bench.order().far_address, case.text("ip")) {
        (Some(far), _) => far,
        (None, Some("v6")) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        (None, _) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

fn explained(error: Error) -> anyhow::Error {
    let refused = error.kind() == ErrorKind::PermissionDenied;
    let error = anyhow::Error::from(error);
    match refused {
        true => error.context(
            "the kernel grants no ICMP socket: net.ipv4.ping_group_range has none of this process's groups, \
             and it has no CAP_NET_RAW",
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
    sequence: u16,
    seen: Seen,
}

impl Loop<'_> {
    /// Sends one echo and awaits its answer or its time-out.
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
            match came {
                Ok(packet) => {
                    if let Some(answer) = self.echo.answer(packet)? {
                        self.see(answer, sent_ns, back_ns, waited_ns);
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let context = "sending an ICMP echo, or what was answered instead of one";
                    return Err(anyhow::Error::from(error).context(context));
                }
            }
            // A stray's, or a deadline that was an earlier echo's.
            let rest_ns = TIMEOUT_NS as f64 - waited_ns;
            if rest_ns <= 0.0 {
                return self.lose();
            }
            self.deadline
                .put_off(Duration::from_nanos(rest_ns as u64))
                .context("a deadline")?;
            came = self.echo.receive();
        }
    }

    /// Moves the deadline on when half of it is gone: a call for each echo would be in the loop's way.
    fn put_off(&mut self) -> Result<()> {
        let now_ns = monotonic_ns();
        if now_ns - self.put_off_ns >= TIMEOUT_NS / 2 {
            self.put_off_ns = now_ns;
            self.deadline
                .put_off(Duration::from_nanos(TIMEOUT_NS))
                .context("a deadline")?;
        }
        Ok(())
    }

    fn lose(&mut self) -> Result<()> {
        self.seen.lost += 1;
        // What interrupts comes again and again: the next wait has a deadline of its own.
        self.put_off_ns = 0;
        ensure!(
            !self.seen.trips.is_empty() || self.seen.lost < UNANSWERED_MAX,
            "{} echoes had no answer within {:.0} s: a firewall drops them, or their host ignores echoes \
             (net.ipv4.icmp_echo_ignore_all)",
            self.seen.lost,
            TIMEOUT_NS as f64 / 1e9
        );
        Ok(())
    }

    fn see(&mut self, answer: Answer, sent_ns: u64, back_ns: u64, trip_ns: f64) {
        let is_between = (sent_ns..=back_ns).contains(&answer.stamped_ns);
        // Whole numbers first: these clocks' values are too long for a float.
        let by_wall_ns = back_ns.wrapping_sub(sent_ns) as f64;
        let in_kernel_ns = answer.stamped_ns.wrapping_sub(sent_ns) as f64;
        if !is_between || (by_wall_ns - trip_ns).abs() > STEP_NS {
            self.seen.stepped += 1;
            return;
        }
        self.seen.trips.push(trip_ns);
        self.seen.in_kernel.push(in_kernel_ns);
        self.seen.wake_ups.push(trip_ns - in_kernel_ns);
        self.seen.hops_left = answer.hops_left.or(self.seen.hops_left);
    }
}

/// What a socket tells at the end of a case.
struct Told {
    access: Access,
    strays: u64,
}

fn write(case: &Case, seen: Seen, told: &Told, bench: &mut Bench) -> Result<()> {
    let mut case = case.clone();
    let access = match told.access {
        Access::Datagram => "datagram",
        Access::Raw => "raw",
    };
    case.at.insert("access".to_owned(), Value::from(access));
    let sent = seen.trips.len() as u64 + seen.lost;
    let notes = notes(&case, &seen, told);
    for (metric, values) in [
        ("round_trip", seen.trips),
        ("kernel_round_trip", seen.in_kernel),
    ] {
        let samples = match seen.lost {
            0 => bench.record(&case, metric, values)?,
            lost => {
                let mut all = Distribution::new();
                values.iter().for_each(|value| all.record(*value));
                all.record_censored(lost);
                bench.record_counted(&case, metric, values, &all)?
            }
        };
        if metric == "round_trip" {
            samples.notes.extend(notes.iter().cloned());
            if let Some(hops) = seen.hops_left {
                let quantities = &mut samples.quantities;
                quantities.insert("hops_left".to_owned(), f64::from(hops));
            }
        }
    }
    bench.record(&case, "wake_up", seen.wake_ups)?;
    bench.record_batches(&case, "loss", sent, vec![seen.lost as f64 / sent as f64])?;
    Ok(())
}

fn notes(case: &Case, seen: &Seen, told: &Told) -> Vec<String> {
    let mut notes = Vec::new();
    let is_loopback = case.text("far") == Some(crate::experiment::LOOPBACK);
    if is_loopback {
        notes.push("loopback: memory copies, no link".to_owned());
    }
    let first = seen
        .hops_left
        .and_then(|left| FIRST_HOPS.into_iter().find(|first| *first >= left));
    if let (Some(left), Some(first)) = (seen.hops_left, first)
        && first > left
    {
        notes.push(format!(
            "answers came back with {left} hops left, of {first} as it seems: through {} routers",
            first - left
        ));
    }
    if let Some(count) = case.int("fragments") {
        notes.push(format!("each echo went in {count} fragments"));
    }
    if seen.lost > 0 {
        notes.push(format!(
            "{} echoes had no answer within {:.0} s; they are in the distribution as longer than all others",
            seen.lost,
            TIMEOUT_NS as f64 / 1e9
        ));
    }
    if told.strays > 0 {
        notes.push(format!(
            "{} answers were late, doubled or another's, and were left out",
            told.strays
        ));
    }
    if seen.stepped > 0 {
        notes.push(format!(
            "{} echoes left out: the wall clock was set meanwhile",
            seen.stepped
        ));
    }
    notes
}
