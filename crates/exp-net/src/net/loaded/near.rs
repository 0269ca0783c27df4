//! The near end of a case: round trips first alone, then beside the traffic.

use super::far::{Counted, FarAnswer, Said, Traffic, Window, during, streams};
use crate::net::Events;
use crate::net::place::{Turns, near_cpus, only, placed};
use crate::net::wire::timed::{Plan, Prober, Socket};
use crate::net::wire::{Dialer, Line, PATIENCE};
use bench::prelude::*;
use laws::net::loaded::{Beside, Direction};
use metal::socket::Wait;
use metal::tcp;
use stats::quantile::median;
use std::os::fd::AsFd;

const WARM_UP: usize = 32;
/// Round trips alone, and beside the traffic, at least.
const LEAST: usize = 16;
const REHEARSAL_LEAST: usize = 3;
/// Traffic runs so long before anything counts, in ns, so that its streams have grown …
const GROWTH_NS: f64 = 20e6;
/// … and for so many round trips, but no longer than …
const GROWTH_TRIPS: f64 = 20.0;
/// … this, in ns.
const GROWTH_NS_MAX: f64 = 1e9;
/// The least number of round trips may take so long beside the traffic, in ns.
const LONGEST_NS: f64 = 4e9;
/// Afterwards queues may take so long to empty, in ns.
const EMPTYING_NS: f64 = 5e8;

/// Round trips, of which none counts that takes longer than `timeout_ns`.
struct Trips {
    prober: Prober,
    clock: Clock,
    timeout_ns: f64,
}

pub(super) struct Party<'case> {
    case: &'case Case,
    beside: Beside,
    trips: Trips,
    line: Line,
    up: Vec<Socket>,
    down: Vec<Socket>,
    /// Those of both, the round trips and the traffic.
    cpus: Vec<usize>,
    /// That of the traffic's threads, unless the scheduler places them.
    traffic: Option<usize>,
}

impl<'case> Party<'case> {
    pub(super) fn new(
        bench: &mut Bench,
        series: &Series,
        case: &'case Case,
        of: Beside,
        dialer: &mut Dialer,
    ) -> Result<Self> {
        let mut cpus = near_cpus(bench, case)?;
        let traffic = placed(case, "near_traffic_cpu").ok().or(only(&cpus));
        cpus.extend(traffic);
        bench.declare(Declared::Cpus(&cpus));
        let mut line = dialer.call(case, &())?;
        let sockets = dialer.sockets(&mut line, of.protocol, 1)?;
        let socket = sockets.into_iter().next().context("no socket for round trips")?;
        let [up, down] = streams(&of);
        let mut connect = |count: usize| -> Result<Vec<Socket>> {
            (0..count).map(|_| Ok(dialer.connect()?.into())).collect()
        };
        let (up, down) = (connect(up)?, connect(down)?);
        line.heed(FarAnswer::Ready)?;
        let timeout_ns = series.setting("timeout").unwrap_or(super::TIMEOUT_NS) as f64;
        let clock = bench.order().clock();
        let prober = Prober::new(socket, None, of.message, Wait::Block, (clock, timeout_ns))?;
        let trips = Trips { prober, clock, timeout_ns };
        Ok(Party { case, beside: of, trips, line, up, down, cpus, traffic })
    }

    pub(super) fn measure(mut self, bench: &mut Bench, series: &Series) -> Result<()> {
        let case_ns = bench.order().case_ns as f64;
        let window_ns = series.setting("time").map_or(4.0 * case_ns, |ns| ns as f64);
        let least = if bench.order().rehearsal { REHEARSAL_LEAST } else { LEAST };
        let trips = &mut self.trips;
        trips.many(0.0, WARM_UP.min(2 * least))?;
        let idle = most_answered(trips.many(case_ns, least)?)?;
        let idle_ns = median(&idle.ns).context("no round trip came back")?;
        self.line.tell(&Said::Go)?;
        let turns = Turns::begin();
        let growth_ns = match bench.order().rehearsal {
            true => 1e6,
            false => GROWTH_NS.max(GROWTH_TRIPS * idle_ns).min(GROWTH_NS_MAX),
        };
        let (line, cpus) = (&mut self.line, &self.cpus);
        let comes_down = self.beside.direction != Direction::Up;
        let found = during(self.up, self.down, self.traffic, |traffic| {
            trips.many(growth_ns, 1)?;
            line.tell(&Said::Window)?;
            let window = Window::begin(traffic, cpus, trips.clock);
            let mut beside = trips.many(window_ns, least)?;
            while comes_down && window.is_empty(traffic) && window.ns() < window_ns + LONGEST_NS {
                let more = trips.many(1e6, 1)?;
                beside.ns.extend(more.ns);
                beside.without += more.without;
            }
            let near = window.end(traffic, trips.prober.socket.softirq_cpu());
            let streams = of_streams(traffic)?;
            line.tell(&Said::Stop)?;
            let FarAnswer::Counted(far) = line.hear(PATIENCE)? else {
                bail!("the far end sent no counts");
            };
            Ok((beside, near, far, streams))
        });
        let (beside, near, far, streams) = found?;
        if self.traffic.is_none_or(|cpu| cpu == self.cpus[0]) {
            bench.declare(Declared::Switches(turns.taken()));
        }
        ensure!(
            near.broken == 0 && far.broken == 0,
            "{} traffic streams failed at the near end and {} at the far end",
            near.broken,
            far.broken
        );
        let emptied = trips.until_calm(idle_ns)?;
        let (case, timeout_ns) = (self.case, trips.timeout_ns);
        let beside = most_answered(beside)?;
        bench.record(case, "idle_round_trip", idle.values(timeout_ns))?;
        let samples = bench.record(case, "round_trip", beside.values(timeout_ns))?;
        samples.set_quantities(streams);
        if !emptied {
            let note = "the queues were still not empty half a second after the traffic ended";
            samples.notes.push(note.to_owned());
        }
        record(bench, case, self.beside.direction, &near, &far)
    }
}

fn record(
    bench: &mut Bench,
    case: &Case,
    direction: Direction,
    near: &Counted,
    far: &Counted,
) -> Result<()> {
    let mut moved_b_per_s = 0.0;
    for (metric, other, sender, receiver) in
        [("bandwidth_up", Direction::Down, near, far), ("bandwidth_down", Direction::Up, far, near)]
    {
        if direction == other {
            continue;
        }
        let rate = rate(receiver).with_context(|| format!("{metric}: nothing arrived"))?;
        moved_b_per_s += rate;
        let samples = bench.record(case, metric, Values::block(rate))?;
        samples.set_quantities([("sent_bytes_per_s", sender.sent as f64 * 1e9 / sender.ns)]);
    }
    for (metric, end) in [("cpu_near", near), ("cpu_far", far)] {
        let each_ns = per_byte(end.used.process_ns, end.ns, moved_b_per_s);
        let samples = bench.record(case, metric, Values::block(each_ns))?;
        samples.set_quantities([("window_ns", end.ns)]);
        end.used.describe(end.softirq_cpu, samples);
    }
    Ok(())
}

/// Bytes a second that an end received; none where none came.
fn rate(end: &Counted) -> Option<f64> {
    (end.received > 0 && end.ns > 0.0).then(|| end.received as f64 * 1e9 / end.ns)
}

/// CPU time per byte, in ns, of an end that took `used_ns` over a window of its own, in which as
/// long a time as any other saw so many bytes a second: both ends' windows need not be the same.
fn per_byte(used_ns: u64, window_ns: f64, moved_b_per_s: f64) -> f64 {
    used_ns as f64 / (window_ns * moved_b_per_s / 1e9)
}

/// What the kernel knows of this end's streams.
fn of_streams(traffic: &Traffic) -> Result<[(&'static str, f64); 2]> {
    let (mut rtt_us, mut retransmits) = (0, 0);
    for stream in &traffic.streams {
        let info = tcp::info(stream.as_fd()).context("reading TCP_INFO of a stream")?;
        rtt_us = info.rtt_us.max(rtt_us);
        retransmits += info.retransmits;
    }
    let rtt_ns = 1e3 * f64::from(rtt_us);
    Ok([("stream_rtt_ns", rtt_ns), ("stream_retransmits", f64::from(retransmits))])
}

/// Half of the round trips or more had no answer: a figure would be of the lucky ones.
fn most_answered(trips: Events) -> Result<Events> {
    let (answered, without) = (trips.ns.len() as u64, trips.without);
    ensure!(
        answered > without,
        "{without} of {} round trips got no reply in time",
        without + answered
    );
    Ok(trips)
}

impl Trips {
    /// Round trips for so long and until there were `least`, but not longer than [`LONGEST_NS`].
    fn many(&mut self, window_ns: f64, least: usize) -> Result<Events> {
        let plan = Plan { window_ns, pause_ns: None, least: Some((least, LONGEST_NS)) };
        let ran = self.prober.exchanges(&plan)?;
        let mut events = Events { without: ran.lost, ..Events::default() };
        for ns in ran.ticks.into_iter().map(|ticks| self.clock.ns(ticks)) {
            match ns < self.timeout_ns {
                true => events.ns.push(ns),
                false => events.without += 1,
            }
        }
        // A stream's answers come in order: none counts after one that came too late.
        ensure!(
            events.without == 0 || !self.prober.socket.is_stream,
            "no reply over TCP within {:.1} s",
            self.timeout_ns / 1e9
        );
        Ok(events)
    }

    /// Round trips until one is about as short as without traffic; whether one was.
    fn until_calm(&mut self, idle_ns: f64) -> Result<bool> {
        let begin = self.clock.start();
        while self.clock.between_ns(begin, self.clock.end()) < EMPTYING_NS {
            if self.many(0.0, 1)?.ns.first().is_some_and(|ns| *ns < 2.0 * idle_ns) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::per_byte;

    #[test]
    fn cpu_per_byte_is_of_each_end_s_own_window() {
        // One CPU at work all the time, 100 MB/s: 10 ns a byte, over 48 ms here as over 500 ms
        // there.
        for window_ns in [48e6, 500e6] {
            assert_eq!(per_byte(window_ns as u64, window_ns, 100e6), 10.0);
        }
    }
}
