//! What a case's counts say, recorded.

use super::ends::is_rate;
use super::shape::{Datagrams, Received, Sent, Shape};
use crate::net::place::listed;
use crate::net::usage::Used;
use anyhow::{Result, ensure};
use bench::measure::{Bench, Values, WrongResult};
use laws::net::bandwidth::Direction;
use laws::net::{Ends, Protocol};
use record::case::Case;
use record::key::Value;
use record::note::Notes;

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
        if shape.of.protocol == Protocol::Tcp && sent.bytes != received.bytes {
            return Err(WrongResult(format!(
                "the sender sent {} B but the receiver got {} B",
                sent.bytes, received.bytes
            ))
            .into());
        }
        self.bandwidth(bench, case, shape)?;
        bench.record(case, "peak", Values::block(received.steady.best))?;
        let (sender, receiver) = match shape.of.direction {
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
            Some(datagrams) => self.losses(bench, case, shape, datagrams),
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
        let metric = if is_rate(&shape.of, case) { "bandwidth" } else { "burst" };
        let samples = bench.record(case, metric, Values::block(found.rate()))?;
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
            let congestion = Value::from(connections.congestion.as_str());
            samples.at.insert("congestion".to_owned(), congestion);
        }
        for (name, cpus) in [
            ("sender_softirq_cpu", &sent.softirq_cpus),
            ("receiver_softirq_cpu", &received.softirq_cpus),
        ] {
            let cpus = listed(cpus.iter().copied());
            samples.at.extend(cpus.map(|cpus| (name.to_owned(), cpus)));
        }
        found.describe(samples, 1.0);
        remarks(&mut samples.notes, shape);
        Ok(())
    }

    fn limits(&self, bench: &mut Bench, case: &Case) -> Result<()> {
        let Some(connections) = &self.sent.connections else {
            return Ok(());
        };
        if let Some(busy_us) = connections.busy_us {
            // A window without a tick has no share.
            if connections.ticked_us > 0 {
                let share = busy_us as f64 / connections.ticked_us as f64;
                bench.record(case, "busy", Values::block(share))?;
            }
            // A share of no time is undefined.
            if busy_us > 0 {
                for (metric, us) in [
                    ("receive_window_limited", connections.receive_window_us),
                    ("send_buffer_limited", connections.send_buffer_us),
                ] {
                    let share = us as f64 / busy_us as f64;
                    bench.record(case, metric, Values::block(share))?;
                }
            }
        }
        if connections.segments > 0 {
            let share = connections.retransmits as f64 / connections.segments as f64;
            bench.record(case, "retransmitted", Values::block(share))?;
        }
        Ok(())
    }

    fn losses(
        &self,
        bench: &mut Bench,
        case: &Case,
        shape: &Shape,
        datagrams: &Datagrams,
    ) -> Result<()> {
        let sent = &self.sent;
        let tried = sent.messages + sent.refused;
        ensure!(tried > 0, "no datagram was sent");
        agree(sent, datagrams)?;
        for (metric, share) in shares(sent, datagrams) {
            let samples = bench.record(case, metric, Values::block(share))?;
            if metric != "loss" {
                continue;
            }
            let counts = [
                ("tried", tried),
                ("refused", sent.refused),
                ("unique", datagrams.unique),
                ("dropped", datagrams.dropped),
                ("repeated", datagrams.repeated),
                ("reordered", datagrams.reordered),
                ("strange", datagrams.strange),
            ];
            samples.set_quantities(counts.map(|(name, count)| (name, count as f64)));
            if shape.message < super::shape::NUMBER_BYTES {
                samples.notes.push(
                    "the datagrams are too short for a sequence number, so duplicates count as \
                 delivered"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

pub(super) fn remarks(notes: &mut Notes, shape: &Shape) {
    if shape.of.ends != Ends::TwoHosts {
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

/// Where datagrams were lost, as shares of all that were tried: what did not come is the sender's,
/// the receiving socket's, or the path's.
pub(super) fn shares(sent: &Sent, datagrams: &Datagrams) -> [(&'static str, f64); 4] {
    let tried = (sent.messages + sent.refused) as f64;
    let path = sent.messages as f64 - datagrams.unique as f64 - datagrams.dropped as f64;
    let parts = [sent.refused as f64, path, datagrams.dropped as f64];
    [
        ("loss", parts.iter().sum::<f64>() / tried),
        ("loss_sender", parts[0] / tried),
        ("loss_path", parts[1] / tried),
        ("loss_receiver", parts[2] / tried),
    ]
}

/// Whether counts that nothing ties to one another are of one and the same transfer.
pub(super) fn agree(sent: &Sent, datagrams: &Datagrams) -> Result<(), WrongResult> {
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
        let told = shares(&sent, &counts(50, 25, 0)).map(|(_, share)| share);
        assert_eq!(told, [0.5, 0.2, 0.05, 0.25]);
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
