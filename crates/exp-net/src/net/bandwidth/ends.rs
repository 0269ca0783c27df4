//! A case from its call to its counts, at both ends, and the counts recorded.

use super::receive::{quiet, receive};
use super::reports;
use super::send::send;
use super::shape::{Ask, Datagrams, NUMBER_BYTES, RUN_MAX, Received, Sent, Shape, limited};
use crate::net::place::{Turns, Used, listed, near_cpus, pin_far};
use crate::net::wire::{Acceptor, Call, Dialer, PATIENCE};
use bench::measure::FarEnd;
use bench::prelude::*;
use laws::net::bandwidth::{Bytes, Direction, Transfer};
use laws::net::{Ends, Protocol};
use record::note::Notes;

/// A rate of a window as long as this may be that of a device, a token bucket or congestion
/// control.
const SETTLED_NS: u64 = 500_000_000;
/// Windows in case times: that of a rate (half a second and more by every preset's), and those of
/// bursts and transfers, which between hosts have to pass a shaper's bucket.
const RUN_CASES_RATE: u64 = 42;
const RUN_CASES: u64 = 5;
const RUN_CASES_HALVES: u64 = 2;
const RUN_CASES_HOSTS: u64 = 10;
/// Bytes of a message whose TCP streams on loopback have the window of a rate.
const RATE_MESSAGE: u64 = 128 << 10;
/// A far end that failed says why in this time.
const WORDS_WITHIN: Duration = Duration::from_millis(500);

/// What of a case holds the setting `time`, in ns.
pub(super) const RUN_AT: &str = "run_ns";

/// The far end cannot be called any more; no further case of the round can be measured.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to the far end")]
pub(super) struct Unreachable;

/// How long a case streams at least, in ns: as the user says, else by the preset's case time.
pub(super) fn run_ns(of: &Bytes, at: &Case, case_ns: u64) -> u64 {
    asked_ns(at).unwrap_or(match (of.transfer, of.ends) {
        (Transfer::Steady, _) if !is_burst(of, at) => RUN_CASES_RATE * case_ns,
        (_, Ends::TwoHosts) => RUN_CASES_HOSTS * case_ns,
        _ => RUN_CASES * case_ns / RUN_CASES_HALVES,
    })
}

fn asked_ns(at: &Case) -> Option<u64> {
    at.at.get(RUN_AT).and_then(Value::int)
}

/// Whether a steady stream's window is too short for what limits the rate: a device between hosts,
/// congestion control on loopback.
pub(super) fn is_burst(of: &Bytes, at: &Case) -> bool {
    let is_long = match asked_ns(at) {
        Some(asked_ns) => asked_ns >= SETTLED_NS,
        None if of.ends == Ends::TwoHosts => true,
        None => of.protocol == Protocol::Tcp && of.message == RATE_MESSAGE,
    };
    of.transfer == Transfer::Steady && !is_long
}

pub(super) fn measure(
    bench: &mut Bench,
    dialer: &mut Dialer,
    case: &Case,
    bytes: Bytes,
    interval_ns: u64,
) -> Result<()> {
    let shape = Shape::new(bytes, case)?;
    near_cpus(bench, case)?;
    let cpus = shape.cpus(&bench.order().cpus, true);
    bench.declare(Declared::Cpus(&cpus));
    let run_ns = run_ns(&shape.bytes, case, bench.order().case_ns);
    let ask = Ask { run_ns, interval_ns };
    let mut line = dialer.call(case, &ask).context(Unreachable)?;
    let turns = Turns::begin();
    let mut transfer = || {
        let sockets = dialer.sockets(&mut line, shape.bytes.protocol, shape.streams)?;
        let sockets = limited(sockets, quiet(&line))?;
        let counts = match (shape.bytes.transfer, shape.bytes.direction) {
            (Transfer::Steady, Direction::Up) => {
                let sent = send(&sockets, &shape, &ask, &cpus, &mut line)?;
                let received = line.hear(PATIENCE).context("waiting for the receiver's counts")?;
                Counts { sent, received }
            }
            (Transfer::Steady, Direction::Down) => {
                receive(&sockets, &shape, &ask, &cpus, &mut line)?
            }
            _ => return reports::measure(bench, case, &shape, &ask, (&cpus, sockets), &mut line),
        };
        counts.record(bench, case, &shape)
    };
    let measured = transfer();
    if shape.shares_cpus(bench.order().cpus.len()) {
        bench.declare(Declared::Switches(turns.taken()));
    }
    measured.map_err(|error| line.explained(error, WORDS_WITHIN))
}

pub(super) fn serve(acceptor: &mut Acceptor, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let shape = Shape::new(call.decode()?, &call.case)?;
    let mut ask: Ask = call.ask()?;
    ask.run_ns = ask.run_ns.min(RUN_MAX.as_nanos() as u64);
    pin_far(far, &call.case, shape.bytes.ends)?;
    let cpus = shape.cpus(&far.order().cpus, false);
    far.use_cpus(&cpus);
    let line = &mut call.line;
    let sockets = acceptor.sockets(far, line, shape.bytes.protocol, shape.streams)?;
    let sockets = limited(sockets, quiet(line))?;
    let turns = Turns::begin();
    match (shape.bytes.transfer, shape.bytes.direction) {
        (Transfer::Steady, Direction::Up) => {
            let counts = receive(&sockets, &shape, &ask, &cpus, line)?;
            line.tell(&counts.received)?;
        }
        (Transfer::Steady, Direction::Down) => {
            send(&sockets, &shape, &ask, &cpus, line)?;
        }
        _ => reports::serve(&sockets, &shape, &ask, &cpus, line)?,
    }
    if shape.shares_cpus(far.order().cpus.len()) {
        far.planned_switches(turns.taken());
    }
    Ok(())
}

/// What stands beside figures of loopback.
const NO_LINK: &str = "loopback: memory copies, no link";

/// What both ends of one transfer counted.
pub(super) struct Counts {
    pub(super) sent: Sent,
    pub(super) received: Received,
}

impl Counts {
    pub(super) fn record(&self, bench: &mut Bench, case: &Case, shape: &Shape) -> Result<()> {
        let Counts { sent, received } = self;
        if shape.bytes.protocol == Protocol::Tcp && sent.bytes != received.bytes {
            return Err(WrongResult(format!(
                "the sender sent {} B but the receiver got {} B",
                sent.bytes, received.bytes
            ))
            .into());
        }
        self.bandwidth(bench, case, shape)?;
        bench.record(case, "peak", Values::block(received.steady.best))?;
        let (sender, receiver) = match shape.bytes.direction {
            Direction::Up => ("near", "far"),
            Direction::Down => ("far", "near"),
        };
        let delivered = match &received.datagrams {
            Some(datagrams) => datagrams.unique as f64,
            None => received.bytes as f64 / shape.message as f64,
        };
        let bytes = received.bytes as f64;
        processor(bench, case, &sent.used, sender, bytes, sent.messages as f64)?;
        processor(bench, case, &received.used, receiver, bytes, delivered)?;
        self.limits(bench, case)?;
        match &received.datagrams {
            Some(datagrams) => self.losses(bench, case, shape.message, datagrams),
            None => Ok(()),
        }
    }

    fn bandwidth(&self, bench: &mut Bench, case: &Case, shape: &Shape) -> Result<()> {
        let Counts { sent, received } = self;
        let found = &received.steady;
        if found.streams.len() > 1 {
            let row = |(stream, rate): (usize, &f64)| vec![stream as f64, *rate];
            let rows = found.streams.iter().enumerate().map(row).collect();
            bench.trace(case, "streams", &["stream", "bandwidth_b_per_s"], rows)?;
        }
        let samples = bench.record(case, "bandwidth", Values::block(found.rate()))?;
        let least = found.streams.iter().copied().fold(f64::INFINITY, f64::min);
        let most = found.streams.iter().copied().fold(0.0, f64::max);
        samples.set_quantities([
            ("stream_least_b_per_s", least),
            ("stream_most_b_per_s", most),
            ("sent_bytes", sent.bytes as f64),
            ("send_ns", sent.elapsed_ns as f64),
            ("received_bytes", received.bytes as f64),
            ("sent_messages", sent.messages as f64),
            ("receive_calls", received.calls as f64),
            ("send_buffer_bytes", sent.buffer_bytes as f64),
            ("receive_buffer_bytes", received.buffer_bytes as f64),
        ]);
        if let Some(connections) = &sent.connections {
            samples.set_quantities([
                ("delivery_rate_b_per_s", connections.delivery_rate as f64),
                ("window_segments", connections.window_segments as f64),
                ("segment_bytes", connections.segment_bytes as f64),
                ("segments", connections.segments as f64),
                ("retransmits", connections.retransmits as f64),
                ("least_rtt_us", connections.least_rtt_us as f64),
            ]);
            samples.at.put("congestion", connections.congestion.as_str());
        }
        let of_sender = listed(sent.softirq_cpus.iter().copied());
        samples.at.put_known("sender_softirq_cpu", of_sender);
        let of_receiver = listed(received.softirq_cpus.iter().copied());
        samples.at.put_known("receiver_softirq_cpu", of_receiver);
        found.describe(samples, 1.0);
        remarks(&mut samples.notes, shape);
        Ok(())
    }

    /// Shares of the senders' time and segments; a share of none is undefined.
    fn limits(&self, bench: &mut Bench, case: &Case) -> Result<()> {
        let Some(all) = &self.sent.connections else {
            return Ok(());
        };
        let shares = [
            ("busy", all.busy_us, all.ticked_us),
            ("receive_window_limited", all.receive_window_us, all.busy_us),
            ("send_buffer_limited", all.send_buffer_us, all.busy_us),
            ("retransmitted", all.retransmits, all.segments),
        ];
        for (metric, part, whole) in shares.into_iter().filter(|(_, _, whole)| *whole > 0) {
            bench.record(case, metric, Values::block(part as f64 / whole as f64))?;
        }
        Ok(())
    }

    fn losses(
        &self,
        bench: &mut Bench,
        case: &Case,
        message: usize,
        datagrams: &Datagrams,
    ) -> Result<()> {
        let sent = &self.sent;
        ensure!(sent.messages + sent.refused > 0, "no datagram was sent");
        agree(sent, datagrams)?;
        let [whole, parts @ ..] = shares(sent, datagrams);
        let samples = bench.record(case, "loss", Values::block(whole))?;
        let counts = [
            ("tried", sent.messages + sent.refused),
            ("refused", sent.refused),
            ("unique", datagrams.unique),
            ("dropped", datagrams.dropped),
            ("repeated", datagrams.repeated),
            ("reordered", datagrams.reordered),
            ("strange", datagrams.strange),
        ];
        samples.set_quantities(counts.map(|(name, count)| (name, count as f64)));
        if message < NUMBER_BYTES {
            let note = "the datagrams are too short for a sequence number, so duplicates count as \
                        delivered";
            samples.notes.push(note.to_owned());
        }
        for (metric, part) in ["loss_sender", "loss_path", "loss_receiver"].into_iter().zip(parts) {
            bench.record(case, metric, Values::block(part))?;
        }
        Ok(())
    }
}

pub(super) fn remarks(notes: &mut Notes, shape: &Shape) {
    if shape.bytes.ends != Ends::TwoHosts {
        notes.push(NO_LINK.to_owned());
    }
}

/// CPU time of one end, by byte that was delivered and by message that this end had.
pub(super) fn processor(
    bench: &mut Bench,
    case: &Case,
    used: &Used,
    end: &str,
    bytes: f64,
    messages: f64,
) -> Result<()> {
    ensure!(bytes > 0.0 && messages > 0.0, "nothing was delivered");
    let time_ns = used.process_ns as f64;
    let by = [(format!("cpu_{end}"), bytes), (format!("message_cpu_{end}"), messages)];
    for (metric, count) in by {
        let samples = bench.record(case, &metric, Values::block(time_ns / count))?;
        samples.set_quantities([("process_ns", time_ns), ("softirq_ns", used.softirq_ns as f64)]);
    }
    Ok(())
}

/// The share of all datagrams tried that were lost, and its parts: what did not come is the sender's,
/// the path's, or the receiving socket's.
fn shares(sent: &Sent, datagrams: &Datagrams) -> [f64; 4] {
    let tried = (sent.messages + sent.refused) as f64;
    let [refused, dropped] = [sent.refused, datagrams.dropped].map(|count| count as f64);
    let path = sent.messages as f64 - datagrams.unique as f64 - dropped;
    [refused + path + dropped, refused, path, dropped].map(|count| count / tried)
}

/// Whether the counts of both ends belong to the same transfer.
fn agree(sent: &Sent, datagrams: &Datagrams) -> Result<(), WrongResult> {
    let ended = datagrams.unique + datagrams.dropped;
    let more = datagrams.repeated + datagrams.strange;
    if ended > sent.messages + more {
        return Err(WrongResult(format!(
            "inconsistent counts: of {} datagrams {} arrived and {} were dropped at the socket",
            sent.messages, datagrams.unique, datagrams.dropped
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{agree, shares};
    use crate::net::bandwidth::shape::{Datagrams, Sent};

    fn counts(unique: u64, dropped: u64, repeated: u64) -> Datagrams {
        Datagrams { unique, dropped, repeated, ..Datagrams::default() }
    }

    #[test]
    fn each_loss_is_told_by_the_end_that_counted_it() {
        let sent = Sent { messages: 80, refused: 20, ..Sent::default() };
        assert_eq!(shares(&sent, &counts(50, 25, 0)), [0.5, 0.2, 0.05, 0.25]);
    }

    #[test]
    fn more_than_was_sent_is_a_wrong_result() {
        let sent = Sent { messages: 100, ..Sent::default() };
        assert!(agree(&sent, &counts(90, 10, 0)).is_ok());
        assert!(agree(&sent, &counts(90, 11, 0)).is_err());
        // Doubled on the way, and one of the two dropped.
        assert!(agree(&sent, &counts(90, 11, 1)).is_ok());
    }
}
